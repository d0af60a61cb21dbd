package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
)

// site is a server that answers with its name and the body of the request.
type site struct {
	*httptest.Server

	calls atomic.Int64
}

func newSite(t *testing.T, name string) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		switch r.URL.Path {
		case "/break":
			panic(http.ErrAbortHandler) // after it got the call, without an answer
		case "/unavailable":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/hang":
			<-r.Context().Done()
		case "/stall":
			_ = http.NewResponseController(w).Flush() // it has begun to answer
			<-r.Context().Done()
		default:
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, name+" "+r.URL.Path+" "+string(body)+" "+r.Header.Get("Authorization"))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// post returns the body of an answer.
func post(ctx context.Context, h *http.Client, to string, body io.Reader) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, body)
	if err != nil {
		return "", err
	}
	response, err := h.Do(request)
	if err != nil {
		return "", err
	}
	answer, err := io.ReadAll(response.Body)
	return string(answer), errors.Join(err, response.Body.Close())
}

func list(sites ...*site) string {
	urls := make([]string, len(sites))
	for i, s := range sites {
		urls[i] = s.URL
	}
	return strings.Join(urls, ",")
}

func wantAnswer(t *testing.T, c Clients, h *http.Client, body io.Reader, want string) {
	t.Helper()
	if got, err := post(t.Context(), h, c.Base+"/call", body); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestACallGoesToTheNextServerWhenOneIsGone(t *testing.T) {
	path := writeFile(t, "token", secret)
	for name, h := range map[string]*http.Client{"own": nil, "given": {Transport: &http.Transport{}}} {
		a, b := newSite(t, "a"), newSite(t, "b")
		c := clients(t, Config{Server: list(a, b), TokenFile: path, HTTP: h})
		if c.Servers != 2 {
			t.Errorf("%s: %d servers", name, c.Servers)
		}
		wantAnswer(t, c, c.Calls, strings.NewReader("x"), "a /call x Bearer "+secret)
		a.Close()
		c.CloseIdle() // or a call may be on its way when it learns that the connection has ended
		wantAnswer(t, c, c.Calls, strings.NewReader("y"), "b /call y Bearer "+secret)
		wantAnswer(t, c, c.Beats, nil, "b /call  Bearer "+secret)
		if a.calls.Load() != 1 || b.calls.Load() != 2 {
			t.Errorf("%s: %d and %d calls", name, a.calls.Load(), b.calls.Load())
		}
	}
}

// onceReader is a body that can be read once, as that of a stream. It fails if it is read after it was
// closed.
type onceReader struct {
	io.Reader

	closed atomic.Bool
}

func (r *onceReader) Read(p []byte) (int, error) {
	if r.closed.Load() {
		return 0, errors.New("read after it was closed")
	}
	return r.Reader.Read(p)
}

func (r *onceReader) Close() error {
	r.closed.Store(true)
	return nil
}

func TestTheBodyOfAStreamIsKeptForTheNextServer(t *testing.T) {
	a, b := newSite(t, "a"), newSite(t, "b")
	c := clients(t, Config{Server: list(a, b), HTTP: &http.Client{Transport: &http.Transport{}}})
	a.Close()
	body := &onceReader{Reader: strings.NewReader("only once")}
	wantAnswer(t, c, c.Streams, body, "b /call only once ")
	b.Close()
	if _, err := post(t.Context(), c.Streams, c.Base+"/call", &onceReader{Reader: strings.NewReader("x")}); err == nil {
		t.Error("no server, and no error")
	}
	unread := &onceReader{Reader: strings.NewReader("x")}
	if _, err := post(t.Context(), c.Streams, c.Base+"/call", unread); err == nil || !unread.closed.Load() {
		t.Errorf("the body of a failed call is closed: %v, %v", unread.closed.Load(), err)
	}
}

// A stream goes on in both directions after it was opened at the second server.
func TestAStreamLivesOnAtTheNextServer(t *testing.T) {
	gone := newSite(t, "gone")
	gone.Close()
	echoing := httptest.NewUnstartedServer(nil)
	echoing.Config = api.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w).Flush
		line := make([]byte, 1)
		for err := flush(); err == nil; err = flush() {
			if _, err := io.ReadFull(r.Body, line); err != nil {
				return
			}
			_, _ = w.Write(line)
		}
	}))
	echoing.Start()
	defer echoing.Close()
	c := clients(t, Config{Server: gone.URL + "," + echoing.URL})
	body, out := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Base, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Streams.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for _, letter := range []byte("abc") {
		if _, err := out.Write([]byte{letter}); err != nil {
			t.Fatal(err)
		}
		back := make([]byte, 1)
		if _, err := io.ReadFull(response.Body, back); err != nil || back[0] != letter {
			t.Fatalf("%q, %v", back, err)
		}
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
}

func TestAllServersAreGone(t *testing.T) {
	a, b := newSite(t, "a"), newSite(t, "b")
	c := clients(t, Config{Server: list(a, b)})
	a.Close()
	b.Close()
	_, err := post(t.Context(), c.Calls, c.Base+"/call", strings.NewReader("x"))
	dial, found := errors.AsType[*net.OpError](err)
	if !found || dial.Op != "dial" || !strings.Contains(err.Error(), "none of 2 servers can be reached") {
		t.Error(err)
	}
}

func TestACallThatAServerMayHaveGotIsNotRepeated(t *testing.T) {
	for _, c := range []struct{ path, next string }{{"/break", "b"}, {"/unavailable", "b"}, {"/call", "a"}} {
		a, b := newSite(t, "a"), newSite(t, "b")
		k := clients(t, Config{Server: list(a, b)})
		_, err := post(t.Context(), k.Calls, k.Base+c.path, strings.NewReader("x"))
		if (err != nil) != (c.path == "/break") || a.calls.Load() != 1 || b.calls.Load() != 0 {
			t.Errorf("%s: %v, %d and %d calls", c.path, err, a.calls.Load(), b.calls.Load())
		}
		wantAnswer(t, k, k.Calls, strings.NewReader("y"), c.next+" /call y ")
	}
}

func TestAServerThatHangsIsLeft(t *testing.T) {
	a, b := newSite(t, "a"), newSite(t, "b")
	k := clients(t, Config{Server: list(a, b)})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := post(ctx, k.Calls, k.Base+"/hang", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wantAnswer(t, k, k.Calls, nil, "a /call  ") // the caller gave up, so the server may be sound
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := post(ctx, k.Calls, k.Base+"/hang", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	wantAnswer(t, k, k.Calls, nil, "b /call  ")
}

func TestAServerThatBeginsToAnswerAndHangsIsLeft(t *testing.T) {
	a, b := newSite(t, "a"), newSite(t, "b")
	k := clients(t, Config{Server: list(a, b)})
	for _, c := range []struct {
		cause error
		next  string
	}{{context.Canceled, "a"}, {fmt.Errorf("the stream is silent: %w", context.DeadlineExceeded), "b"}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(c.cause) })
		if _, err := post(ctx, k.Calls, k.Base+"/stall", nil); err == nil {
			t.Error("it was answered")
		}
		wantAnswer(t, k, k.Calls, nil, c.next+" /call  ")
	}
}

func TestServersWithPaths(t *testing.T) {
	a, b := newSite(t, "a"), newSite(t, "b")
	a.Close()
	c := clients(t, Config{Server: a.URL + "/one/," + b.URL + "/two"})
	wantAnswer(t, c, c.Calls, nil, "b /two/call  ")
}

func TestManyFailuresOfOneTurnAreOne(t *testing.T) {
	s, err := newServers("a:1,b:2,c:3")
	if err != nil {
		t.Fatal(err)
	}
	_, turn := s.inUse()
	for range 5 {
		s.failed(turn)
	}
	for _, want := range []string{"b:2", "c:3", "a:1", "b:2"} {
		u, turn := s.inUse()
		if u.Host != want {
			t.Errorf("%s, want %s", u.Host, want)
		}
		s.failed(turn)
	}
}

// names is a resolver and a network: which addresses a name has, and what each does.
type names struct {
	of     []string
	hang   map[string]bool
	refuse map[string]bool
}

func (n names) lookup(context.Context, string) ([]string, error) {
	if n.of == nil {
		return nil, errors.New("no such host")
	}
	return n.of, nil
}

func (n names) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n.hang[address] {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
	if n.refuse[address] {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("refused " + address)}
	}
	return madeConn{address: address}, nil
}

type madeConn struct {
	net.Conn

	address string
}

func (madeConn) Close() error { return nil }

func TestANameWithSeveralAddresses(t *testing.T) {
	one, two, three := "10.0.0.1:70", "10.0.0.2:70", "[fd00::3]:70"
	all := []string{"10.0.0.1", "10.0.0.2", "fd00::3"}
	set := func(addresses ...string) map[string]bool {
		m := map[string]bool{}
		for _, a := range addresses {
			m[a] = true
		}
		return m
	}
	for _, c := range []struct {
		about, address string
		names          names
		turns          uint64
		want           string // an address, or a word of the error
	}{
		{"in order", "name:70", names{of: all}, 0, one},
		{"after a failure", "name:70", names{of: all}, 1, two},
		{"after several", "name:70", names{of: all}, 5, three},
		{"refused", "name:70", names{of: all, refuse: set(one, two)}, 0, three},
		{"no answer", "name:70", names{of: all, hang: set(one, two)}, 0, three},
		{"all refused", "name:70", names{of: all, refuse: set(one, two, three)}, 0, "refused "},
		{"none answers", "name:70", names{of: all, hang: set(one, two, three)}, 0, "deadline exceeded"},
		{"one address", "name:70", names{of: all[1:2]}, 3, two},
		{"an address of its own", two, names{of: all}, 3, two},
		{"unknown", "name:70", names{refuse: set("name:70")}, 0, "refused name:70"},
	} {
		d := &dialer{servers: &servers{urls: make([]*url.URL, 2)}, lookup: c.names.lookup, dial: c.names.dial}
		d.servers.turn.Store(c.turns)
		conn, err := d.DialContext(t.Context(), "tcp", c.address)
		if err != nil {
			if failed, found := errors.AsType[*net.OpError](err); !found || failed.Op != "dial" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.about, err)
			}
			continue
		}
		if got, _ := conn.(madeConn); got.address != c.want {
			t.Errorf("%s: %s, want %s", c.about, got.address, c.want)
		}
	}
}
