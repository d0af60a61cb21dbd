package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/internal/room"
	"github.com/kinesin-io/kinesin/web"
)

// Bounds of the calls under way of those who have not shown who they are: to sign in, to look whether the
// server is ready, or with no accepted token.
const (
	// strangersBytesMax is how much they may take together. An address has a share.
	strangersBytesMax = 8 << 20
	// strangerBytes is what one takes besides its header and its body.
	strangerBytes = 16 << 10
	// strangerCallsMax is how many there may be on one connection.
	strangerCallsMax = 16
	// strangerWithin is how long one may take to send its body, and to read its answer.
	strangerWithin = 10 * time.Second
	// strangerAgainSeconds is when one that was refused may try again.
	strangerAgainSeconds = 1
)

// strangers bounds what calls of nobody in particular take. They wait for nothing, and nothing waits for them.
type strangers struct{ room *room.Room }

func newStrangers() *strangers { return &strangers{room.New("strangers", strangersBytesMax, 0)} }

// serve answers a call, or refuses it for want of room.
func (s *strangers) serve(w http.ResponseWriter, r *http.Request, answer http.Handler) {
	size, takesBody := strangerBytes+headerBytes(r), r.Method == http.MethodPost && web.Has(r.URL.Path)
	switch {
	case takesBody && r.ContentLength > web.SignInBytesMax:
		answer = http.HandlerFunc(tooLarge)
		takesBody = false
	case takesBody:
		size += web.SignInBytesMax
	}
	leave, ok := s.enter(r, size)
	if !ok {
		refuseStranger(w, r)
		return
	}
	defer leave()
	control, until := http.NewResponseController(w), time.Now().Add(strangerWithin)
	_ = control.SetWriteDeadline(until) // fails only where there is no connection, as what follows
	if r.Body != nil && r.Body != http.NoBody {
		_ = control.SetReadDeadline(until)
	}
	if !takesBody && r.ProtoMajor > 1 {
		_ = r.Body.Close() // what has come of it is not kept
	}
	answer.ServeHTTP(w, r)
	if r.ProtoMajor > 1 {
		_ = control.Flush() // else it would wait for its reader after it has left
	}
}

// refuseStranger refuses a call for want of room. A connection of HTTP/2 on which nobody has shown who he is
// is closed with all of its calls: else each of them would have to wait until its refusal is read.
func refuseStranger(w http.ResponseWriter, r *http.Request) {
	if conn := connectionOf(r.Context()); conn != nil && r.ProtoMajor > 1 && !conn.isKnown.Load() {
		conn.refused.Store(true)
		_ = conn.Close()
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Retry-After", strconv.Itoa(strangerAgainSeconds))
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusServiceUnavailable) // without a text, whose reader could keep the call here
}

// enter lets a call in. leave is called when it is over.
func (s *strangers) enter(r *http.Request, size int64) (leave func(), ok bool) {
	conn, from := connectionOf(r.Context()), r.RemoteAddr
	if conn != nil {
		from = conn.from.String()
		if conn.strangers.Add(1) > strangerCallsMax {
			conn.strangers.Add(-1)
			return nil, false
		}
	}
	given, ok := s.room.Take(from, size, false)
	if !ok && conn != nil {
		conn.strangers.Add(-1)
	}
	return func() {
		given()
		if conn != nil {
			conn.strangers.Add(-1)
		}
	}, ok
}

func tooLarge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "close") // the body is not read
	http.Error(w, "the form has more than "+strconv.Itoa(web.SignInBytesMax)+" bytes, which is the most before somebody has signed in", http.StatusRequestEntityTooLarge)
}

// headerBytes returns about how much the header of a call takes.
func headerBytes(r *http.Request) int64 {
	const entry = 64 // of a map, and of a list
	size := len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		size += len(name)
		for _, value := range values {
			size += entry + len(value)
		}
	}
	return int64(size)
}
