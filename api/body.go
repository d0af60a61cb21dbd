package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
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
	// BatchLineBytesMax bounds a line of a batch of the plain API, and batchBytes what a batch holds of the
	// room: the lines that are read and not answered yet.
	BatchLineBytesMax = 512 << 10
	batchBytes        = 4 * BatchLineBytesMax
	// batchesMax bounds the batches that are under way, since each may last for as long as its sender sends.
	batchesMax = 32
	// plainTaskBytesMax bounds a request of the plain API that may have a payload: the largest, as text in
	// JSON or in base64.
	plainTaskBytesMax = 8 << 20
	// bodyWithin is how long the body of a call may take, and how long a call waits for its turn.
	bodyWithin = 30 * time.Second
)

// RequestBytesMax returns how large a message to a procedure, or a body to a path of the plain API, may be,
// decompressed.
func RequestBytesMax(procedure string) int {
	switch {
	case strings.HasPrefix(procedure, PlainPrefix):
		return plainBytesMax(strings.TrimPrefix(procedure, PlainPrefix))
	case procedure == kinesinv1connect.TaskServiceScheduleProcedure, procedure == kinesinv1connect.GroupServiceAddMembersProcedure:
		return MessageBytesMax
	case strings.HasPrefix(procedure, "/"+kinesinv1connect.WorkerServiceName+"/"), procedure == kinesinv1connect.BackupServiceBackupProcedure:
		return workerBytesMax
	}
	return requestBytesMax
}

func plainBytesMax(path string) int {
	collection, rest, _ := strings.Cut(path, "/")
	switch {
	case collection == "work":
		return workerBytesMax
	case collection == "tasks", (collection == "lambdas" || collection == "groups") && strings.Contains(rest, "/"):
		return plainTaskBytesMax
	}
	return requestBytesMax
}

// ReflectionPrefix is the beginning of the paths of gRPC's server reflection, whose calls are streams.
const ReflectionPrefix = "/grpc.reflection."

// BatchType is the content type of a batch of the plain API: a JSON object on each line.
const BatchType = "application/x-ndjson"

// IsBatch reports whether a request of the plain API sends a batch.
func IsBatch(r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, PlainPrefix) {
		return false
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == BatchType
}

// BoundBodies bounds what the bodies of calls take: the time until a body is there, and the memory of all
// bodies together. A call that finds no room waits for it, and is refused as unavailable when it takes too
// long. Streams are left alone: their messages are bounded one by one.
func BoundBodies(next http.Handler) http.Handler {
	b := &bodies{next: next, room: semaphore.NewWeighted(bodiesBytesMax), batches: semaphore.NewWeighted(batchesMax), writer: connect.NewErrorWriter(HandlerOptions(Hooks{})...)}
	return http.HandlerFunc(b.serve)
}

type bodies struct {
	next    http.Handler
	room    *semaphore.Weighted
	batches *semaphore.Weighted
	writer  *connect.ErrorWriter
}

// isStream reports whether a procedure reads or writes a stream.
func isStream(procedure string) bool {
	return procedure == kinesinv1connect.WorkerServiceWorkProcedure || procedure == kinesinv1connect.BackupServiceBackupProcedure ||
		strings.HasPrefix(procedure, ReflectionPrefix)
}

func (b *bodies) serve(w http.ResponseWriter, r *http.Request) {
	if isStream(r.URL.Path) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // fails only where there is no connection
	}
	if r.Body == nil || r.Body == http.NoBody || isStream(r.URL.Path) {
		b.next.ServeHTTP(w, r)
		return
	}
	if IsBatch(r) {
		b.serveBatch(w, r)
		return
	}
	size, isPlain := int64(RequestBytesMax(r.URL.Path)), r.Header.Get("Content-Encoding") == "" && r.Header.Get("Grpc-Encoding") == ""
	if known := r.ContentLength; known >= 0 && isPlain {
		size = min(size, known) // a longer one is refused when so much of it was read
	}
	if !b.enter(r.Context(), size) {
		b.refuse(w, r, "the server has too many large calls under way; try again")
		return
	}
	body := &boundBody{ReadCloser: r.Body, control: http.NewResponseController(w), room: b.room, held: size, isPlain: isPlain}
	defer func() { b.room.Release(body.held) }()
	_ = body.control.SetReadDeadline(time.Now().Add(bodyWithin)) // fails only where there is no connection
	r.Body = body
	b.next.ServeHTTP(w, r)
}

// enter waits for room for so many bytes, and reports whether there is some.
func (b *bodies) enter(ctx context.Context, size int64) bool {
	waiting, cancel := context.WithTimeout(ctx, bodyWithin)
	defer cancel()
	return b.room.Acquire(waiting, size) == nil
}

func (b *bodies) refuse(w http.ResponseWriter, r *http.Request, text string) {
	err := Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "%s", text)
	if strings.HasPrefix(r.URL.Path, PlainPrefix) {
		HTTPProblemOf(ProblemOf(err)).Write(w)
		return
	}
	_ = b.writer.Write(w, r, ToWire(err))
}

// serveBatch serves a batch, of which a bounded part is in memory at a time. It may last for as long as its
// sender sends and reads: its handler sets deadlines as it goes on.
func (b *bodies) serveBatch(w http.ResponseWriter, r *http.Request) {
	if !b.batches.TryAcquire(1) {
		b.refuse(w, r, fmt.Sprintf("%d batches are under way on this server, and no more may; try again", batchesMax))
		return
	}
	defer b.batches.Release(1)
	if !b.enter(r.Context(), batchBytes) {
		b.refuse(w, r, "the server has too many large calls under way; try again")
		return
	}
	defer b.room.Release(batchBytes)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // fails only where there is no connection
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
