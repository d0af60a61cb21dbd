package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
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
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, l: limitConnections(listener, 3, slog.New(slog.DiscardHandler)), url: "http://" + listener.Addr().String(), holds: make(chan struct{})}
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
		if n := c.l.count(); n != 0 {
			t.Errorf("%d connections are counted after the end", n)
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
