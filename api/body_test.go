package api_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
)

const schedulePath = kinesinv1connect.TaskServiceScheduleProcedure

// halfBody is a body of which a part comes, and the rest when it is closed.
type halfBody struct {
	part io.Reader
	rest chan struct{}
}

func half(bytes int) *halfBody {
	return &halfBody{io.LimitReader(zeros{}, int64(bytes)), make(chan struct{})}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func (h *halfBody) Read(p []byte) (int, error) {
	if n, err := h.part.Read(p); err == nil {
		return n, nil
	}
	<-h.rest
	return 0, io.EOF
}

func (h *halfBody) Close() error { return nil }

// callers sends calls to BoundBodies, in front of a handler that reads bodies as those of calls do.
type callers struct {
	*api.Bodies

	t *testing.T
}

func newCallers(t *testing.T) *callers {
	t.Helper()
	return &callers{api.BoundBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer := bufio.NewReaderSize(r.Body, 64<<10)
		if _, err := io.Copy(io.Discard, buffer); err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
		}
	})), t}
}

// begin sends a call in the background, and returns what tells how it was answered.
func (c *callers) begin(who, method, path string, length int64, body io.Reader, header ...string) <-chan *httptest.ResponseRecorder {
	grants := access.Grants{}
	if who == "root" {
		grants = access.All()
	}
	ctx := access.With(c.t.Context(), access.Caller{Identity: access.Identity{Name: who, Grants: grants}})
	r := httptest.NewRequestWithContext(ctx, method, path, body)
	r.ContentLength = length
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		answered <- w
	}()
	synctest.Wait()
	return answered
}

func (c *callers) send(who, method, path string, bytes int) <-chan *httptest.ResponseRecorder {
	return c.begin(who, method, path, int64(bytes), io.LimitReader(zeros{}, int64(bytes)))
}

// wants expects an answer by now.
func (c *callers) wants(what string, answered <-chan *httptest.ResponseRecorder, status int) {
	c.t.Helper()
	select {
	case w := <-answered:
		if w.Code != status {
			c.t.Errorf("%s: %d %s, want %d", what, w.Code, w.Body, status)
		}
	default:
		c.t.Errorf("%s: it waits", what)
	}
}

func (c *callers) waits(what string, answered <-chan *httptest.ResponseRecorder) {
	c.t.Helper()
	select {
	case w := <-answered:
		c.t.Errorf("%s: answered with %d %s", what, w.Code, w.Body)
	default:
	}
}

func (c *callers) used(name string) int64 {
	for _, r := range c.Rooms() {
		if r.Name == name {
			return r.Used()
		}
	}
	c.t.Fatal(name)
	return 0
}

// What a body announces takes nothing.
func TestRoomIsTakenAsBodiesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		var halves []*halfBody
		for range 200 {
			h := half(1)
			halves = append(halves, h)
			c.waits("a half body", c.begin("a", http.MethodPost, schedulePath, 16<<20, h))
		}
		if used := c.used("payloads"); used > 200*16<<10 {
			t.Errorf("200 bytes take %d", used)
		}
		c.wants("another one of the caller", c.send("a", http.MethodPost, schedulePath, 1000), http.StatusOK)
		for _, h := range halves {
			close(h.rest)
		}
		synctest.Wait()
		if used := c.used("payloads"); used != 0 {
			t.Errorf("%d bytes are taken at the end", used)
		}
	})
}

func TestBodiesOfOneCallerLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		var halves []*halfBody
		var answers []<-chan *httptest.ResponseRecorder
		for range 20 { // 300 MiB
			h := half(15 << 20)
			halves = append(halves, h)
			answers = append(answers, c.begin("a", http.MethodPost, schedulePath, 16<<20, h))
		}
		if used := c.used("payloads"); used > 96<<20 || used < 64<<20 {
			t.Errorf("%d MiB are taken", used>>20)
		}
		if why := c.Full(); why != "" {
			t.Error(why)
		}
		for _, one := range []struct {
			what     string
			answered <-chan *httptest.ResponseRecorder
			status   int
		}{
			{"another caller", c.send("b", http.MethodPost, schedulePath, 16<<20), http.StatusOK},
			{"root", c.send("root", http.MethodPost, schedulePath, 16<<20), http.StatusOK},
			{"a call without a body", c.begin("a", http.MethodGet, "/v1/tasks", 0, nil), http.StatusOK},
			{"a heartbeat", c.send("a", http.MethodPost, kinesinv1connect.WorkerServiceHeartbeatProcedure, 100), http.StatusOK},
			{"results over plain HTTP", c.send("a", http.MethodPost, "/v1/work/results", 1<<20), http.StatusOK},
			{"a cancel", c.send("a", http.MethodPost, kinesinv1connect.TaskServiceCancelProcedure, 100), http.StatusOK},
			{"a cancel over plain HTTP", c.send("a", http.MethodDelete, "/v1/tasks/x", 100), http.StatusOK},
			{"a cancel of a group over plain HTTP", c.send("a", http.MethodPost, "/v1/groups/x/cancel", 100), http.StatusOK},
			{"a pause", c.send("a", http.MethodPost, kinesinv1connect.GateServiceSetGateProcedure, 100), http.StatusOK},
			{"a sign-out", c.send("a", http.MethodPost, "/ui/signout", 100), http.StatusOK},
		} {
			c.wants(one.what, one.answered, one.status)
		}
		time.Sleep(31 * time.Second) // what waits gives up
		synctest.Wait()
		refused := 0
		for i, answered := range answers {
			select {
			case w := <-answered:
				refused++
				if !strings.Contains(w.Body.String(), "192 MiB") {
					t.Errorf("%d: %s", i, w.Body)
				}
			default:
			}
			close(halves[i].rest)
		}
		if refused < 14 {
			t.Errorf("%d are refused", refused)
		}
		synctest.Wait()
		if used := c.used("payloads") + c.used("calls"); used != 0 {
			t.Errorf("%d bytes are taken at the end", used)
		}
	})
}

// Once callers have taken all, the server says so, and who looks after it still gets in.
func TestTheRoomIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		payloads := c.Rooms()[0]
		taken := payloads.Enter("others", true)
		if !taken.Take(payloads.Most() - payloads.Most()/10) {
			t.Fatal("nothing is taken")
		}
		if why := c.Full(); !strings.Contains(why, "(payloads) is full: 172 of 192 MiB") {
			t.Errorf("%q", why)
		}
		c.wants("root", c.send("root", http.MethodPost, schedulePath, 8<<20), http.StatusOK)
		late := c.send("late", http.MethodPost, schedulePath, 16<<20)
		c.waits("one more", late)
		taken.Leave()
		synctest.Wait()
		c.wants("one more, when there is room", late, http.StatusOK)
		if why := c.Full(); why != "" || c.used("payloads") != 0 {
			t.Errorf("%q, %d bytes", why, c.used("payloads"))
		}
	})
}

// A compressed body takes what it may become.
func TestCompressedBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		h := half(100 << 10)
		answered := c.begin("a", http.MethodPost, schedulePath, 200<<10, h, "Content-Encoding", "gzip")
		if used := c.used("payloads"); used < 4<<20 || used > 5<<20 {
			t.Errorf("100 KiB take %d KiB", used>>10)
		}
		close(h.rest)
		synctest.Wait()
		c.wants("the call", answered, http.StatusOK)
	})
}

// A caller has a share of the batches under way, and is told so with a status and a time.
func TestBatchesOfOneCallerLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(t)
		const path = "/v1/lambdas/a/tasks"
		begin := func(who string) (*halfBody, <-chan *httptest.ResponseRecorder) {
			h := half(1)
			return h, c.begin(who, http.MethodPost, path, -1, h, "Content-Type", api.BatchType)
		}
		var halves []*halfBody
		refused := 0
		for range 40 {
			h, answered := begin("a")
			select {
			case w := <-answered:
				if refused++; w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "takes 32") {
					t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
				}
			default:
				halves = append(halves, h)
			}
		}
		if refused < 20 || refused > 30 {
			t.Errorf("%d of 40 are refused", refused)
		}
		for _, who := range []string{"b", "c", "root"} {
			h, answered := begin(who)
			c.waits("a batch of "+who, answered)
			halves = append(halves, h)
		}
		for _, h := range halves {
			close(h.rest)
		}
		synctest.Wait()
		if used := c.used("batches") + c.used("payloads"); used != 0 {
			t.Errorf("%d are taken at the end", used)
		}
	})
}

// A refusal in the midst of a body has the form of its protocol.
func TestRefusedBodiesByProtocol(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(kinesinv1connect.NewTaskServiceHandler(kinesinv1connect.UnimplementedTaskServiceHandler{}, api.HandlerOptions(api.Hooks{})...))
	bodies := api.BoundBodies(mux)
	for _, r := range bodies.Rooms() {
		if r.Name == "payloads" && !r.Enter("a", true).Take(r.Most()) {
			t.Fatal("nothing is taken")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r := httptest.NewRequestWithContext(access.With(ctx, access.Caller{Identity: access.Identity{Name: "a"}}), http.MethodPost, schedulePath, strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	bodies.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"code":"unavailable"`) || !strings.Contains(w.Body.String(), "192 MiB") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
