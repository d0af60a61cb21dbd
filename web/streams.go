package web

import (
	"net/http"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/access"
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
