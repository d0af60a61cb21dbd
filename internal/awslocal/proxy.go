package awslocal

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Proxy listens on a free loopback port, forwards connections to one upstream, and can be told to harm them.
// It has at most one fault at a time: each call replaces the last. A fault also affects open connections.
type Proxy struct {
	tb       testing.TB
	url      string
	addr     string
	upstream string
	running  sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while it refuses connections
	links    map[*link]bool
	fault    fault
}

// Direction is a way through the proxy.
type Direction string

const (
	// Requests go to the upstream. A lost request has no effect there.
	Requests Direction = "requests"
	// Replies come back. The upstream has already done what a lost reply answers.
	Replies Direction = "replies"
)

type faultKind uint8

const (
	sound faultKind = iota
	latency
	blackHole
	reset
)

type fault struct {
	kind      faultKind
	direction Direction
	delay     time.Duration
}

// link is one client connection and its upstream connection.
type link struct {
	client, upstream net.Conn
	closed           chan struct{}
	once             sync.Once
	swallowed        bool // guarded by Proxy.mu
}

// NewProxy starts a proxy to the URL of an emulator. The test's cleanup stops it.
func NewProxy(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	target, err := url.Parse(upstream)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{tb: tb, addr: "127.0.0.1:0", upstream: target.Host, links: map[*link]bool{}}
	if err := p.listen(); err != nil {
		tb.Fatal(err)
	}
	p.addr = p.listener.Addr().String()
	p.url = "http://" + p.addr
	tb.Cleanup(func() {
		p.Refuse()
		p.running.Wait()
	})
	return p
}

// URL returns the address for clients. It never changes.
func (p *Proxy) URL() string { return p.url }

// Latency delays every reply.
func (p *Proxy) Latency(d time.Duration) { p.set(fault{kind: latency, direction: Replies, delay: d}) }

// BlackHole drops everything in one direction and keeps the connections open, so that clients run into their
// timeouts. The next call closes the connections that lost something.
func (p *Proxy) BlackHole(d Direction) { p.set(fault{kind: blackHole, direction: d}) }

// Reset drops the first bytes that come in that direction and resets their connection.
func (p *Proxy) Reset(d Direction) { p.set(fault{kind: reset, direction: d}) }

// Refuse closes all connections and accepts no more.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.close()
	}
}

// Heal ends the present fault.
func (p *Proxy) Heal() { p.set(fault{}) }

func (p *Proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for l := range p.links {
		if l.swallowed {
			l.close()
		}
	}
	if p.listener != nil {
		return
	}
	if err := p.listen(); err != nil {
		p.tb.Errorf("the proxy at %s does not start again: %v", p.url, err)
	}
}

// listen needs mu, or nobody else who knows the proxy.
func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener = l
	p.running.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", p.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, upstream: upstream, closed: make(chan struct{})}
		p.mu.Lock()
		refused := p.listener != listener
		if !refused {
			p.links[l] = true
			p.running.Go(func() { p.forward(l, Requests, l.client, l.upstream) })
			p.running.Go(func() { p.forward(l, Replies, l.upstream, l.client) })
		}
		p.mu.Unlock()
		if refused {
			l.close()
		}
	}
}

// forward copies one direction of a link until either side closes it or a fault does.
func (p *Proxy) forward(l *link, d Direction, from io.Reader, to io.Writer) {
	defer func() {
		l.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.pass(l, d) {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// pass applies the present fault to bytes that have arrived, and reports whether they go on.
func (p *Proxy) pass(l *link, d Direction) bool {
	p.mu.Lock()
	f := p.fault
	lost := f.direction == d && (f.kind == blackHole || f.kind == reset)
	l.swallowed = l.swallowed || lost
	p.mu.Unlock()
	switch {
	case lost && f.kind == reset:
		if client, ok := l.client.(*net.TCPConn); ok {
			_ = client.SetLinger(0)
		}
		l.close()
	case f.direction == d && f.kind == latency:
		select {
		case <-time.After(f.delay):
		case <-l.closed:
		}
	}
	return !lost
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		_ = l.client.Close()
		_ = l.upstream.Close()
	})
}
