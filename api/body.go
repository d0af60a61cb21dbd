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

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/room"
)

const (
	// payloadsBytesMax bounds the bodies of calls under way that may carry payloads of tasks, callsBytesMax
	// those of all other calls. Admins may have the last part of each, which others may not.
	payloadsBytesMax, callsBytesMax = 192 << 20, 64 << 20
	roomKeptPart                    = 10
	// bodyStepBytes are reserved at a time.
	bodyStepBytes = 16 << 10
	// roomAgainAfter is when a caller that found no room may try again.
	roomAgainAfter = time.Second
	// BatchLineBytesMax bounds a line of a batch of the plain API, and batchBytes what a batch holds of the
	// room: the lines that are read and not answered yet.
	BatchLineBytesMax = 512 << 10
	batchBytes        = 4 * BatchLineBytesMax
	// batchesMax bounds the batches that are under way, since each may last for as long as its sender sends.
	batchesMax = 32
	// plainTaskBytesMax bounds a request of the plain API that may have a payload: the largest, as text in
	// JSON or in base64.
	plainTaskBytesMax = 8 << 20
	// bodyWithin is how long the body of a call may take, with the time that it waits for room.
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

// Bodies bounds what the bodies of calls take: the time until a body is there, and the memory of all bodies
// together, of which each caller has a share. Memory is reserved as a body arrives, not as it is announced. A
// body that finds no room waits for it, and its call is refused when that takes too long. Calls without a body
// wait for nothing, and those that need little, such as cancels and what workers say, have a room of their own.
// Streams are left alone: their messages are bounded one by one.
type Bodies struct {
	next     http.Handler
	payloads *room.Room // bytes of calls that may carry payloads
	calls    *room.Room // bytes of all others
	batches  *room.Room // batches under way
	writer   *connect.ErrorWriter
}

// BoundBodies returns a handler that bounds the bodies of calls to another one.
func BoundBodies(next http.Handler) *Bodies {
	return &Bodies{
		next:     next,
		payloads: room.New("payloads", payloadsBytesMax, payloadsBytesMax/roomKeptPart),
		calls:    room.New("calls", callsBytesMax, callsBytesMax/roomKeptPart),
		batches:  room.New("batches", batchesMax, batchesMax/roomKeptPart),
		writer:   connect.NewErrorWriter(HandlerOptions(Hooks{})...),
	}
}

// Rooms returns what the calls share.
func (b *Bodies) Rooms() []*room.Room { return []*room.Room{b.payloads, b.calls, b.batches} }

// Full says why new calls should go elsewhere; empty if they need not.
func (b *Bodies) Full() string {
	for _, r := range []*room.Room{b.payloads, b.calls} {
		if r.IsFull() {
			return fmt.Sprintf("the room for bodies (%s) is full: %d of %d MiB are taken", r.Name, r.Used()>>20, r.Most()>>20)
		}
	}
	return ""
}

// isStream reports whether a procedure reads or writes a stream.
func isStream(procedure string) bool {
	return procedure == kinesinv1connect.WorkerServiceWorkProcedure || procedure == kinesinv1connect.BackupServiceBackupProcedure ||
		strings.HasPrefix(procedure, ReflectionPrefix)
}

// ServeHTTP implements http.Handler.
func (b *Bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	body := &boundBody{
		ReadCloser: r.Body, ctx: r.Context(), control: http.NewResponseController(w), stay: b.enter(b.roomOf(r), r),
		isPlain: r.Header.Get("Content-Encoding") == "" && r.Header.Get("Grpc-Encoding") == "",
		most:    int64(RequestBytesMax(r.URL.Path)), until: time.Now().Add(bodyWithin),
	}
	if body.isPlain && r.ContentLength >= 0 {
		body.most = min(body.most, r.ContentLength) // a longer one is refused when so much of it was read
	}
	defer body.stay.Leave()
	_ = body.control.SetReadDeadline(body.until) // fails only where there is no connection
	r.Body = body
	b.next.ServeHTTP(w, r)
}

// roomOf returns the room of a call that is no batch.
func (b *Bodies) roomOf(r *http.Request) *room.Room {
	path, isPlain := strings.CutPrefix(r.URL.Path, PlainPrefix)
	isCancel := r.Method == http.MethodDelete || strings.HasSuffix(path, "/cancel")
	switch most := RequestBytesMax(r.URL.Path); {
	case most == workerBytesMax, most <= requestBytesMax, isPlain && isCancel:
		return b.calls
	}
	return b.payloads
}

// enter begins the stay of a call in a room. Who looks after the whole installation has room that is kept.
func (b *Bodies) enter(of *room.Room, r *http.Request) *room.Stay {
	c := access.From(r.Context())
	return of.Enter(c.Name, c.Grants.AllowAll(access.Admin))
}

func (b *Bodies) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if strings.HasPrefix(r.URL.Path, PlainPrefix) {
		HTTPProblemOf(ProblemOf(err)).Write(w)
		return
	}
	_ = b.writer.Write(w, r, ToWire(err))
}

// serveBatch serves a batch, of which a bounded part is in memory at a time. It may last for as long as its
// sender sends and reads: its handler sets deadlines as it goes on.
func (b *Bodies) serveBatch(w http.ResponseWriter, r *http.Request) {
	batch, bytes := b.enter(b.batches, r), b.enter(b.payloads, r)
	if !batch.Take(1) {
		b.refuse(w, r, Errorf(kinesinv1.Reason_REASON_UNAVAILABLE,
			"no more batches of this caller may be under way on this server, which takes %d, of one caller as many as are left for others; try again", batchesMax).After(roomAgainAfter))
		return
	}
	defer batch.Leave()
	if bytes.Wait(r.Context(), bodyWithin, batchBytes) != nil {
		b.refuse(w, r, errNoRoom(b.payloads))
		return
	}
	defer bytes.Leave()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // fails only where there is no connection
	b.next.ServeHTTP(w, r)
}

// errNoRoom is the refusal of a call whose body found no room.
func errNoRoom(of *room.Room) error {
	return Errorf(kinesinv1.Reason_REASON_UNAVAILABLE,
		"this server has no more room for bodies of this caller: those of all calls under way may have %d MiB, of one caller as much as is left for others; try again, or send less at a time",
		of.Most()>>20).After(roomAgainAfter)
}

// boundBody is a body with a deadline and a reservation of memory, which grows as the body is read. When all
// of it was read, it lifts the deadline: the call itself may wait for a minute.
type boundBody struct {
	io.ReadCloser

	ctx     context.Context //nolint:containedctx // of the call, for io.Reader
	control *http.ResponseController
	stay    *room.Stay
	read    int64
	most    int64     // bytes that it may take
	until   time.Time // it has to be there
	isPlain bool      // not compressed, so that it takes as much as was read
}

// Read implements io.Reader. What it returns is reserved.
func (t *boundBody) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.read += int64(n)
	need := t.read
	if !t.isPlain {
		need = expandFreeBytes + expandMax*t.read
	}
	ended := errors.Is(err, io.EOF)
	if ended {
		_ = t.control.SetReadDeadline(time.Time{})
		t.stay.Shrink(need)
	} else {
		need = (need + bodyStepBytes - 1) / bodyStepBytes * bodyStepBytes
	}
	if more := min(need, t.most) - t.stay.Held(); more > 0 {
		if t.stay.Wait(t.ctx, time.Until(t.until), more) != nil {
			err := errNoRoom(t.stay.Room())
			return 0, errors.Join(err, ToWire(err)) // for the plain API and the console, and for connect
		}
	}
	return n, err //nolint:wrapcheck // io.EOF has to stay itself
}
