package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/semaphore"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

const (
	// bodiesBytesMax bounds the bodies of all calls of a process that are under way.
	bodiesBytesMax = 256 << 20
	// bodyWithin is how long the body of a call may take, and how long a call waits for its turn.
	bodyWithin = 30 * time.Second
)

// RequestBytesMax returns how large a message to a procedure may be, decompressed.
func RequestBytesMax(procedure string) int {
	switch {
	case procedure == kinesinv1connect.TaskServiceScheduleProcedure:
		return MessageBytesMax
	case strings.HasPrefix(procedure, "/"+kinesinv1connect.WorkerServiceName+"/"), procedure == kinesinv1connect.BackupServiceBackupProcedure:
		return workerBytesMax
	}
	return requestBytesMax
}

// BoundBodies bounds what the bodies of calls take: the time until a body is there, and the memory of all
// bodies together. A call that finds no room waits for it, and is refused as unavailable when it takes too
// long. Streams are left alone: their messages are bounded one by one.
func BoundBodies(next http.Handler) http.Handler {
	b := &bodies{next: next, room: semaphore.NewWeighted(bodiesBytesMax), writer: connect.NewErrorWriter(HandlerOptions(Hooks{})...)}
	return http.HandlerFunc(b.serve)
}

type bodies struct {
	next   http.Handler
	room   *semaphore.Weighted
	writer *connect.ErrorWriter
}

// isStream reports whether a procedure reads or writes a stream.
func isStream(procedure string) bool {
	return procedure == kinesinv1connect.WorkerServiceWorkProcedure || procedure == kinesinv1connect.BackupServiceBackupProcedure
}

func (b *bodies) serve(w http.ResponseWriter, r *http.Request) {
	if isStream(r.URL.Path) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // fails only where there is no connection
	}
	if r.Body == nil || r.Body == http.NoBody || isStream(r.URL.Path) {
		b.next.ServeHTTP(w, r)
		return
	}
	size, isPlain := int64(RequestBytesMax(r.URL.Path)), r.Header.Get("Content-Encoding") == "" && r.Header.Get("Grpc-Encoding") == ""
	if known := r.ContentLength; known >= 0 && isPlain {
		size = min(size, known) // a longer one is refused when so much of it was read
	}
	waiting, cancel := context.WithTimeout(r.Context(), bodyWithin)
	err := b.room.Acquire(waiting, size)
	cancel()
	if err != nil {
		_ = b.writer.Write(w, r, ToWire(Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the server has too many large calls under way; try again")))
		return
	}
	body := &boundBody{ReadCloser: r.Body, control: http.NewResponseController(w), room: b.room, held: size, isPlain: isPlain}
	defer func() { b.room.Release(body.held) }()
	_ = body.control.SetReadDeadline(time.Now().Add(bodyWithin)) // fails only where there is no connection
	r.Body = body
	b.next.ServeHTTP(w, r)
}

// boundBody is a body with a deadline and a reservation of memory. When all of it was read, it lifts the
// deadline and gives back what it did not need: the call itself may wait for a minute.
type boundBody struct {
	io.ReadCloser

	control *http.ResponseController
	room    *semaphore.Weighted
	held    int64 // bytes that are reserved
	read    int64
	isPlain bool // not compressed, so that it takes as much as was read
}

// Read implements io.Reader.
func (t *boundBody) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.read += int64(n)
	if errors.Is(err, io.EOF) {
		_ = t.control.SetReadDeadline(time.Time{})
		need := t.read
		if !t.isPlain {
			need = expandFreeBytes + expandMax*t.read
		}
		if spare := t.held - need; spare > 0 {
			t.room.Release(spare)
			t.held -= spare
		}
	}
	return n, err //nolint:wrapcheck // io.EOF has to stay itself
}
