package rest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

// numbering schedules tasks, whose ids are their numbers in its life, from 1 on.
type numbering struct {
	kinesinv1connect.UnimplementedTaskServiceHandler

	accepted, calls, longest int
	failFrom                 int // calls from this one on fail; 0: none
}

func (n *numbering) Schedule(_ context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	n.calls++
	n.longest = max(n.longest, len(r.GetItems()))
	if n.failFrom > 0 && n.calls >= n.failFrom {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the server is stopping")
	}
	response := &kinesinv1.ScheduleResponse{}
	for range r.GetItems() {
		n.accepted++
		response.Results = append(response.Results, &kinesinv1.ScheduleResult{Id: fmt.Sprint(n.accepted)})
	}
	return response, nil
}

func serveBatches(t *testing.T, n *numbering) string {
	t.Helper()
	server := httptest.NewServer(api.BoundBodies(New(Services{Tasks: n}, api.Hooks{})))
	t.Cleanup(server.Close)
	return server.URL + "/v1/lambdas/mail/tasks"
}

// response is an answer whose body the test closes.
type response struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

func sendBatch(t *testing.T, url string, body io.Reader) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", api.BatchType)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Body.Close() })
	return response{got.StatusCode, got.Header, got.Body}
}

type answered struct {
	ID      string
	Problem *api.HTTPProblem
}

func readBatch(t *testing.T, r response) (lines []answered) {
	t.Helper()
	for d := json.NewDecoder(r.Body); ; {
		var line answered
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			return lines
		} else if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}

func TestABatchAnswersEachLineInOrder(t *testing.T) {
	long := `{"payload_text":"` + strings.Repeat("x", 2*api.BatchLineBytesMax) + `"}`
	body := "{}\n\n  \n{\"x\":1}\nno json\r\n" + long + "\n{\"due\":\"2027-01-31T09:00:00Z\",\"delay\":\"1s\"}\n{\"key\":\"k\"}"
	got := sendBatch(t, serveBatches(t, &numbering{}), strings.NewReader(body))
	lines := readBatch(t, got)
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != api.BatchType || len(lines) != 6 {
		t.Fatalf("%d %v: %d lines", got.StatusCode, got.Header, len(lines))
	}
	for i, want := range []string{"", "unknown field", "not JSON", "at most 524288 bytes", "not both", ""} {
		switch p := lines[i].Problem; {
		case want == "" && (p != nil || lines[i].ID == ""):
			t.Errorf("line %d: %+v", i, p)
		case want != "" && (p == nil || !strings.Contains(p.Detail, want)):
			t.Errorf("line %d: %+v, want %q", i, p, want)
		}
	}
	if lines[0].ID != "1" || lines[5].ID != "2" || lines[3].Problem.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("%+v", lines)
	}
}

// A batch is answered while it is sent, in HTTP/1.1 too.
func TestABatchIsAnsweredWhileItIsSent(t *testing.T) {
	from, to := io.Pipe()
	answers := make(chan response, 1)
	url := serveBatches(t, &numbering{})
	go func() { answers <- sendBatch(t, url, from) }()
	_, _ = io.WriteString(to, "{}\n")
	read := bufio.NewScanner((<-answers).Body)
	for n := 1; n <= 3; n++ {
		if !read.Scan() || !strings.Contains(read.Text(), fmt.Sprintf(`"id":"%d"`, n)) {
			t.Fatalf("answer %d: %q, %v", n, read.Text(), read.Err())
		}
		_, _ = io.WriteString(to, "{}\n")
	}
	_ = to.Close()
}

func TestALongBatchTakesLittleMemory(t *testing.T) {
	tasks := 200_000
	if testing.Short() {
		tasks = 100_000
	}
	n := &numbering{}
	from, to := io.Pipe()
	go func() {
		w := bufio.NewWriter(to)
		for range tasks {
			_, _ = w.WriteString(`{"payload":{"user":42},"delay":"90s"}` + "\n")
		}
		_ = w.Flush()
		_ = to.Close()
	}()
	got := sendBatch(t, serveBatches(t, n), from)
	answered := 0
	var most, before runtime.MemStats
	runtime.ReadMemStats(&before)
	for read := bufio.NewScanner(got.Body); read.Scan(); {
		if answered++; answered%20_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&most)
			if grown := int64(most.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
				t.Errorf("after %d tasks: %d MiB", answered, grown>>20)
			}
		}
	}
	if answered != tasks || n.accepted != tasks || n.longest > chunkLinesMax {
		t.Errorf("%d answered, %d accepted, %d at a time", answered, n.accepted, n.longest)
	}
}

// A refusal of the whole batch has its status while nothing was answered; then it is on each line, and the
// end.
func TestABatchThatIsRefused(t *testing.T) {
	got := sendBatch(t, serveBatches(t, &numbering{failFrom: 1}), strings.NewReader("{}\n{}\n"))
	if text, _ := io.ReadAll(got.Body); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Content-Type") != api.ProblemType {
		t.Errorf("%d %s", got.StatusCode, text)
	}
	for _, empty := range []string{"", "\n \n"} {
		got = sendBatch(t, serveBatches(t, &numbering{}), strings.NewReader(empty))
		if text, _ := io.ReadAll(got.Body); got.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "batch is empty") {
			t.Errorf("%q: %d %s", empty, got.StatusCode, text)
		}
	}
	n := &numbering{failFrom: 2}
	lines := readBatch(t, sendBatch(t, serveBatches(t, n), bytes.NewReader(bytes.Repeat([]byte("{}\n"), 10*chunkLinesMax))))
	if n.calls != 2 || len(lines) <= n.accepted || len(lines) > 2*chunkLinesMax {
		t.Fatalf("%d lines, %d accepted, %d calls", len(lines), n.accepted, n.calls)
	}
	if p := lines[len(lines)-1].Problem; lines[0].Problem != nil || p == nil || p.Status != http.StatusServiceUnavailable || p.RetryAfter == "" {
		t.Errorf("the first %+v, the last %+v", lines[0], p)
	}
}

// TestSmallRequestsTakeLittleMemory sends each list with as many small elements as fit into a body, to each
// route. A request takes a small multiple of its size in memory.
func TestSmallRequestsTakeLittleMemory(t *testing.T) {
	const bodyBytesMax, allocatedMax = 1 << 20, 48 << 20
	server := httptest.NewServer(api.BoundBodies(New(Services{}, api.Hooks{})))
	t.Cleanup(server.Close)
	tried := 0
	for _, r := range routes(Services{}.withDefaults()) {
		if r.request == nil {
			continue
		}
		path := strings.NewReplacer("{lambda}", "a", "{key}", "b", "{id}", "c").Replace(r.path)
		size := min(api.RequestBytesMax(path), bodyBytesMax) - 100
		for _, body := range []string{
			`{"results":[` + strings.Repeat(`{},`, size/3) + `{}]}`,
			`{"running":[` + strings.Repeat(`"",`, size/3) + `""]}`,
			`{"lambdas":[` + strings.Repeat(`"",`, size/3) + `""]}`,
			`{"tags":{` + strings.Repeat(`"":"",`, size/6) + `"":""}}`,
			`{"payload":` + strings.Repeat(`[`, size/2) + strings.Repeat(`]`, size/2) + `}`,
			`{"payload":[` + strings.Repeat(`0,`, size/2) + `0]}`,
			`{` + strings.Repeat(`"x":0,`, size/6) + `"x":0}`,
		} {
			request, err := http.NewRequestWithContext(t.Context(), r.method, server.URL+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			runtime.ReadMemStats(&after)
			if tried++; after.TotalAlloc-before.TotalAlloc > allocatedMax {
				t.Errorf("%s %s with %.20s…: %d MiB for %d: %.200s", r.method, path, body, (after.TotalAlloc-before.TotalAlloc)>>20, len(body), text)
			}
		}
	}
	if tried < 80 {
		t.Errorf("%d requests tried", tried)
	}
}
