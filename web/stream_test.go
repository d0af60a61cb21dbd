package web

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
)

// openPage opens a stream of the first page.
func openPage(t *testing.T, url string) (status int, next func() (string, bool)) {
	t.Helper()
	return openPart(t, url, "/ui/?part=live")
}

// openPart opens a stream. next returns the data of the next event; false: it ended.
func openPart(t *testing.T, url, path string) (status int, next func() (string, bool)) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return response.StatusCode, func() (string, bool) {
		var event strings.Builder
		for lines.Scan() {
			if lines.Text() == "" && strings.Contains(event.String(), "event: live") {
				return event.String(), true
			}
			event.WriteString(lines.Text() + "\n")
		}
		return "", false
	}
}

// serveAs serves a console to somebody with grants.
func serveAs(t *testing.T, k *Console, grants access.Grants) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Caller{Identity: access.Identity{Name: "ada", Grants: grants}})))
	}))
	t.Cleanup(s.Close)
	t.Cleanup(k.CloseStreams) // before it: it waits for them
	return s.URL
}

// All pages that may see the same are rendered together, and one that does not read holds up nobody.
func TestPagesAreStreamedTogether(t *testing.T) {
	k, f := newFakes("mail")
	url := serveAs(t, k, access.All())
	host := strings.TrimPrefix(url, "http://")
	stuck, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stuck.Close() })
	if _, err := fmt.Fprintf(stuck, "GET /ui/?part=live HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", host); err != nil {
		t.Fatal(err)
	}
	const pages = 50
	var all sync.WaitGroup
	for range pages {
		status, next := openPage(t, url)
		if status != http.StatusOK {
			t.Fatal(status)
		}
		all.Go(func() {
			for range 2 {
				if event, ok := next(); !ok || !strings.Contains(event, "data: ") || strings.Contains(event, "<html") {
					t.Errorf("%v %q", ok, event)
				}
			}
		})
	}
	began := time.Now()
	all.Wait()
	if n := f.counted.Load(); n < 2 || n > 3+int64(time.Since(began)/liveEvery) {
		t.Errorf("%d reads for %d pages", n, pages)
	}
	k.streams.mu.Lock()
	open, parts := int(k.streams.room.Used()), len(k.streams.parts)
	k.streams.mu.Unlock()
	if open != pages+1 || parts != 1 {
		t.Errorf("%d streams of %d parts", open, parts)
	}
	k.CloseStreams()
	if status, _ := openPage(t, url); status != http.StatusServiceUnavailable {
		t.Error("a stream of a server that stops:", status)
	}
}

// A viewer has a share of the streams and of their parts, and leaves some to others.
func TestStreamsAreBounded(t *testing.T) {
	s := newStreams()
	viewer := func(name string) access.Caller { return access.Caller{Identity: access.Identity{Name: name}} }
	root := access.Caller{Identity: access.Identity{Name: "root", Grants: access.All()}}
	opens := func(key string, who access.Caller) bool {
		p, _ := s.enter(key, who)
		return p != nil
	}
	parts := 0
	for opens(fmt.Sprint(parts), viewer("a")) {
		parts++
	}
	if parts < partsMax/3 || parts > partsMax/2 || s.room.Used() != int64(parts) {
		t.Errorf("%d parts of one viewer, %d streams", parts, s.room.Used())
	}
	if !opens("b", viewer("b")) || !opens("root", root) {
		t.Error("others get none")
	}
	streams := 0
	for opens("0", viewer("c")) {
		streams++
	}
	if streams < streamsMax/3 || streams > streamsMax/2 {
		t.Errorf("%d streams of one viewer", streams)
	}
	p, leave := s.enter("d", viewer("d"))
	if p == nil {
		t.Fatal("another viewer gets none")
	}
	used := s.partsRoom.Used()
	if leave(); s.parts["d"] != nil || s.partsRoom.Used() != used-1 || len(s.parts) != int(used)-1 {
		t.Errorf("%d parts of %d after one left", len(s.parts), used)
	}
}

// ListJobs lists a job of the caller.
func (fakeJobs) ListJobs(ctx context.Context, _ *kinesinv1.ListJobsRequest) (*kinesinv1.ListJobsResponse, error) {
	return &kinesinv1.ListJobsResponse{Jobs: []*kinesinv1.Job{{Id: "of-" + access.From(ctx).Name, State: "running"}}}, nil
}

// What one viewer sees is not shown to another with the same grants, who watches at the same time.
func TestStreamsGoByIdentity(t *testing.T) {
	k, _ := newFakes("mail")
	watch := func(name string) func() (string, bool) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			k.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Caller{Identity: access.Identity{Name: name, Grants: access.All()}})))
		}))
		t.Cleanup(s.Close)
		t.Cleanup(k.CloseStreams)
		_, next := openPart(t, s.URL, "/ui/jobs?part=live")
		return next
	}
	ada, bob := watch("ada"), watch("bob")
	ofAda, _ := ada()
	ofBob, ok := bob()
	if !strings.Contains(ofAda, "of-ada") || strings.Contains(ofAda, "of-bob") || !strings.Contains(ofBob, "of-bob") || strings.Contains(ofBob, "of-ada") || !ok {
		t.Errorf("%q and %q", ofAda, ofBob)
	}
}

// A part that others may not see is rendered for each apart, and one that nobody may see ends.
func TestStreamsGoByGrants(t *testing.T) {
	k, _ := newFakes("mail")
	few, err := access.ParseGrants([]string{"read:other"})
	if err != nil {
		t.Fatal(err)
	}
	_, all := openPage(t, serveAs(t, k, access.All()))
	_, some := openPage(t, serveAs(t, k, few))
	seen, _ := all()
	hidden, ok := some()
	if !strings.Contains(seen, "mail") || strings.Contains(hidden, "mail") || !ok {
		t.Errorf("%q and %q", seen, hidden)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/workers?part=live", nil)
	r.Header.Set("Accept", "text/event-stream")
	w := httptest.NewRecorder()
	k.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Caller{Identity: access.Identity{Name: "bob", Grants: few}})))
	if w.Code != http.StatusForbidden {
		t.Error(w.Code)
	}
}

func TestEvents(t *testing.T) {
	if got, want := string(eventOf([]byte("<p>\r\nevent: x\n\n</p>"))), "event: live\ndata: <p>\ndata: event: x\ndata: \ndata: </p>\n\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
