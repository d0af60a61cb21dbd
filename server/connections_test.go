package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/tlstest"
)

// crowd is a server with room for three connections.
type crowd struct {
	t     *testing.T
	l     *connections
	url   string
	holds chan struct{} // GET /hold answers when it is closed
	held  atomic.Int32  // calls of GET /hold
	tls   *tls.Config   // nil: none
	known atomic.Int32  // connections that clients take for open
}

// clientConn is a client's end of a connection. Its client knows that it was closed once a read has failed.
type clientConn struct {
	net.Conn

	over func()
}

// Read implements net.Conn.
func (c *clientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.over()
	}
	return n, err
}

func newCrowd(t *testing.T, secure bool) *crowd {
	t.Helper()
	return newCrowdOf(t, secure, 3, 100)
}

func newCrowdOf(t *testing.T, secure bool, most, perAddress int) *crowd {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, l: limitConnections(listener, most, perAddress, slog.New(slog.DiscardHandler)), url: "http://" + listener.Addr().String(), holds: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/hold", func(_ http.ResponseWriter, r *http.Request) {
		c.held.Add(1)
		select {
		case <-c.holds:
		case <-r.Context().Done():
		}
	})
	s := api.NewServer(mux)
	s.ConnState = c.l.state
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // the cleanup ends it
	served := make(chan error, 1)
	if secure {
		a := tlstest.New(t)
		certificate, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		s.TLSConfig, c.tls = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, a.Trust()
		c.url = strings.Replace(c.url, "http:", "https:", 1)
	}
	go func() { served <- serveHTTP(ctx, s, c.l) }()
	t.Cleanup(func() {
		stop()
		_ = s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		// One that was accepted while the server ended is closed by its own goroutine.
		for deadline := time.Now().Add(hangs); c.l.count() != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%d connections are counted after the end", c.l.count())
				return
			}
		}
	})
	return c
}

func (c *crowd) client(transport func() *http.Transport) *http.Client {
	tr := transport()
	tr.TLSClientConfig, tr.TLSHandshakeTimeout = c.tls.Clone(), hangs
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.known.Add(1)
		return &clientConn{conn, sync.OnceFunc(func() { c.known.Add(-1) })}, nil
	}
	c.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: hangs}
}

// hangs is how long a test waits for what should happen soon, on a machine that may be busy.
const hangs = time.Minute

// awaitKnown waits until the clients have noticed which connections the server closed. A request on another
// one would fail, and HTTP/2 does not repeat it.
func (c *crowd) awaitKnown() {
	c.t.Helper()
	for deadline := time.Now().Add(hangs); int(c.known.Load()) > c.l.count(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("clients take %d connections for open, of which %d are", c.known.Load(), c.l.count())
		}
	}
}

func (c *crowd) get(h *http.Client, path string) error {
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := h.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// TestIdleConnectionsMakeRoom has many more clients than there is room for, all of which keep their
// connections.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	for name, how := range map[string]struct {
		transport func() *http.Transport
		secure    bool
	}{
		"HTTP/1.1": {api.NewCallTransport, false}, "HTTP/2": {api.NewStreamTransport, false}, "TLS": {api.NewCallTransport, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, how.secure)
			var clients []*http.Client
			for range 10 {
				clients = append(clients, c.client(how.transport))
			}
			for range 2 { // the second time most find their connection closed
				for n, h := range clients {
					c.awaitKnown()
					if err := c.get(h, "/"); err != nil {
						t.Fatalf("client %d: %v", n, err)
					}
				}
			}
			if n := c.l.count(); n > 3 {
				t.Errorf("%d connections, want 3 at most", n)
			}
		})
	}
}

// TestOneAddressLeavesRoomForOthers fills the room of one address with calls in flight: its next connection
// is closed, a client of another address is served, and when a connection is idle it makes way.
func TestOneAddressLeavesRoomForOthers(t *testing.T) {
	c := newCrowdOf(t, false, 6, 3)
	results := make(chan error, 3)
	for range 3 {
		h := c.client(api.NewCallTransport)
		go func() { results <- c.get(h, "/hold") }()
	}
	for deadline := time.Now().Add(hangs); c.held.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the calls never came")
		}
	}
	if err := c.get(c.client(api.NewCallTransport), "/"); err == nil {
		t.Error("a fourth connection of one address was served")
	}
	other := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	tr := api.NewCallTransport()
	tr.DialContext = other.DialContext
	t.Cleanup(tr.CloseIdleConnections)
	if err := c.get(&http.Client{Transport: tr, Timeout: hangs}, "/"); err != nil {
		t.Errorf("another address: %v", err)
	}
	close(c.holds)
	for range 3 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	time.Sleep(2 * idleMin) // real time, since connections are real
	if err := c.get(c.client(api.NewCallTransport), "/"); err != nil {
		t.Errorf("in the place of an idle one: %v", err)
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if n := c.l.addresses[netip.MustParsePrefix("127.0.0.1/32")].open; n > 3 {
		t.Errorf("%d connections of one address", n)
	}
}

func TestAddressesOfConnections(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3:4": "10.1.2.3/32", "[::ffff:10.1.2.3]:4": "10.1.2.3/32", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:5": "fe80::/64",
	} {
		if got := addressOf(addressed{text: addr}); got.String() != want {
			t.Errorf("%s counts for %s, want %s", addr, got, want)
		}
	}
	if got := addressOf(addressed{text: "@"}); got.IsValid() {
		t.Errorf("no address counts for %s", got)
	}
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn

	text string
}

func (a addressed) RemoteAddr() net.Addr { return a }
func (addressed) Network() string        { return "tcp" }
func (a addressed) String() string       { return a.text }

// TestWhatPeersCauseIsNoError: whoever finds the port could fill the log.
func TestWhatPeersCauseIsNoError(t *testing.T) {
	var text strings.Builder
	l := httpLog(slog.New(slog.NewTextHandler(&text, nil)))
	l.Printf("timeout waiting for SETTINGS frames from %v", "10.0.0.1:5")
	l.Printf("timeout waiting for PING response")
	l.Printf("http2: server: error reading preface from client %v: %v", "10.0.0.1:5", io.EOF)
	l.Printf("http: TLS handshake error from %v: EOF", "10.0.0.1:5")
	if text.Len() != 0 {
		t.Error(text.String())
	}
	l.Printf("http: panic serving %v", "10.0.0.1:5")
	if !strings.Contains(text.String(), "level=ERROR") {
		t.Errorf("a panic is logged as %q", text.String())
	}
}

// TestSilentConnectionsMakeRoom has clients that connect and never send anything.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	c := newCrowd(t, false)
	for range 10 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	if err := c.get(c.client(api.NewCallTransport), "/"); err != nil {
		t.Error(err)
	}
}

// TestBusyConnectionsAreLeftAlone fills all room with calls in flight: a new client waits for one of them to
// end.
func TestBusyConnectionsAreLeftAlone(t *testing.T) {
	for name, transport := range map[string]func() *http.Transport{"HTTP/1.1": api.NewCallTransport, "HTTP/2": api.NewStreamTransport} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, false)
			results := make(chan error, 3)
			for range 3 {
				h := c.client(transport)
				go func() { results <- c.get(h, "/hold") }()
			}
			for deadline := time.Now().Add(hangs); c.held.Load() < 3; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the calls never came")
				}
			}
			late := make(chan error, 1)
			h := c.client(transport)
			go func() { late <- c.get(h, "/") }()
			select {
			case err := <-late:
				t.Errorf("a fourth call did not wait: %v", err)
			case <-time.After(200 * time.Millisecond):
			}
			close(c.holds)
			for range 3 {
				if err := <-results; err != nil {
					t.Errorf("a call in flight: %v", err)
				}
			}
			if err := <-late; err != nil {
				t.Errorf("the fourth call: %v", err)
			}
		})
	}
}
