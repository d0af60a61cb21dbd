package web

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/internal/room"
)

// Bounds of streams, by which open pages learn what changes.
const (
	streamsMax    = 2000 // of a server
	partsMax      = 200  // different ones of a server: by the viewer, what he may do, and the URL
	partURLMax    = 2048 // bytes
	streamFor     = 10 * time.Minute
	streamEvery   = 2 * time.Second
	heartbeat     = 15 * time.Second // after which a stream without news says that it is there
	writeWithin   = 10 * time.Second // or the viewer is too slow
	retryInMillis = "2000"
)

// streams are the pages that are open. A part of a page is rendered once in streamEvery for all streams of one
// identity, by whichever comes first: a page may show what is of its viewer alone, such as jobs. Each stream
// takes the newest when it has written what it wrote before, so that a slow one leaves states out, keeps
// nothing waiting and holds up nobody.
type streams struct {
	done chan struct{} // closed with the server

	room      *room.Room // streams that are open
	partsRoom *room.Room // parts, of who opened the first stream of each

	mu     sync.Mutex
	closed bool
	parts  map[string]*part
}

// part is a part of a page that streams show.
type part struct {
	overview.Shared[*rendering]

	viewers int // guarded by streams.mu
	leave   func()
}

// rendering is a part as it was at one time.
type rendering struct {
	status int
	event  []byte
}

func newStreams() *streams {
	const keptPart = 10 // of each, for admins
	return &streams{
		done: make(chan struct{}), parts: map[string]*part{},
		room: room.New("pages", streamsMax, streamsMax/keptPart), partsRoom: room.New("page_parts", partsMax, partsMax/keptPart),
	}
}

// enter counts a stream of a viewer, until leave is called; nil: he has as many as he may have, or there are
// too many.
func (s *streams) enter(key string, viewer access.Caller) (p *part, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	urgent := viewer.Grants.AllowAll(access.Admin)
	stay := s.room.Enter(viewer.Name, urgent)
	if s.closed || !stay.Take(1) {
		return nil, nil
	}
	if p = s.parts[key]; p == nil {
		leavePart, ok := s.partsRoom.Take(viewer.Name, 1, urgent)
		if !ok {
			stay.Leave()
			return nil, nil
		}
		p = &part{leave: leavePart}
		s.parts[key] = p
	}
	p.viewers++
	return p, func() {
		stay.Leave()
		s.leave(key)
	}
}

func (s *streams) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.parts[key]; p.viewers > 1 {
		p.viewers--
	} else {
		p.leave()
		delete(s.parts, key)
	}
}

// close ends all streams, and lets none begin.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
}

// isStream reports whether a browser asks for the changes of a part of a page, rather than for the part.
func isStream(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Accept") == "text/event-stream" && r.URL.Query().Get("part") != ""
}

// stream sends a part of a page each time when it has changed, until the viewer goes, may no longer see it,
// or has watched for streamFor: then the browser comes again, maybe to another server. A part that cannot be
// shown ends the stream, and the page that asks for its parts one by one learns why.
func (c *call) stream(show func(*call) error) {
	key := c.caller.Name + "\n" + c.r.URL.RequestURI() + "\n" + strings.Join(c.caller.Grants.Strings(), "\n")
	var p *part
	var leave func()
	if len(c.r.URL.RequestURI()) <= partURLMax {
		p, leave = c.streams.enter(key, c.caller)
	}
	if p == nil {
		c.w.Header().Set("Retry-After", "30")
		http.Error(c.w, "this server streams to as many pages as it may; ask for the part by itself", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	var last *rendering
	until, quiet := clock.Mono(c.Clock)+streamFor, clock.Mono(c.Clock)
	out := eventWriter{c.w, http.NewResponseController(c.w), c.Clock}
	timer := c.Clock.NewTimer(streamEvery)
	defer timer.Stop()
	for clock.Mono(c.Clock) < until {
		next := p.Get(c.Clock, liveShare, func() (*rendering, time.Duration) { return c.renderPart(show), streamEvery })
		now := clock.Mono(c.Clock)
		var text []byte
		switch {
		case next.status != http.StatusOK && last == nil:
			http.Error(c.w, "this part of the page cannot be shown", next.status)
			return
		case next.status != http.StatusOK:
			return
		case last == nil:
			out.begin()
			text = append([]byte("retry: "+retryInMillis+"\n"), next.event...)
		case last != next && !bytes.Equal(last.event, next.event):
			text = next.event
		case now-quiet >= heartbeat:
			text = []byte(": no news\n\n")
		}
		if last = next; text != nil {
			if quiet = now; out.write(text) != nil {
				return // the viewer has gone, or does not read
			}
		}
		timer.Reset(streamEvery)
		select {
		case <-timer.C():
		case <-c.r.Context().Done(): // also when the session ends, or its grants change
			return
		case <-c.streams.done:
			return
		}
	}
}

// renderPart renders a part for all streams of this viewer.
func (c *call) renderPart(show func(*call) error) *rendering {
	ctx, cancel := clock.Within(context.WithoutCancel(c.r.Context()), c.Clock, liveWithin)
	defer cancel()
	r, w := c.r.Clone(ctx), &memory{header: http.Header{}, status: http.StatusOK}
	r.Header.Del("Accept-Encoding")
	of := &call{Console: c.Console, w: w, r: r, caller: c.caller}
	of.answer(show)
	return &rendering{w.status, eventOf(w.body.Bytes())}
}

// eventOf makes an event of the kind "live" of markup.
func eventOf(markup []byte) []byte {
	markup = bytes.ReplaceAll(markup, []byte("\r"), nil) // would end a line
	event := append([]byte("event: live\ndata: "), bytes.ReplaceAll(markup, []byte("\n"), []byte("\ndata: "))...)
	return append(event, "\n\n"...)
}

// memory keeps an answer.
type memory struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (m *memory) Header() http.Header         { return m.header }
func (m *memory) WriteHeader(status int)      { m.status = status }
func (m *memory) Write(b []byte) (int, error) { return m.body.Write(b) }

// eventWriter writes the events of a stream.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	clock   clock.Clock
}

func (e eventWriter) begin() {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // proxies are to pass each event on
}

// write writes and sends, or fails in writeWithin. A deadline that passes between two events would end an
// HTTP/2 stream.
func (e eventWriter) write(text []byte) error {
	_ = e.control.SetWriteDeadline(e.clock.Now().Time().Add(writeWithin)) // fails only where there is no connection
	if _, err := e.w.Write(text); err != nil {
		return err
	}
	if err := e.control.Flush(); err != nil {
		return err
	}
	_ = e.control.SetWriteDeadline(time.Time{}) // as above
	return nil
}
