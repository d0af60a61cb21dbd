package conformance_test

import (
	"net"
	"sync"
	"testing"
	"time"
)

const (
	slowBy     = 3 * time.Second
	burst      = 50 * time.Millisecond // what follows an answer so soon is no later than it
	tornBytes  = 20                    // of an answer before its connection is reset
	chunkBytes = 32 << 10
)

// A proxy stands between a client and the server, and does them harm by one of proxyFaults.
type proxy struct {
	addr, target string

	mu      sync.Mutex
	fault   string
	changed chan struct{} // closed when the fault changes
	links   map[*link]bool
}

var proxyFaults = []string{"pass", "hold", "slow", "swallow", "tear", "reset"}

// A link is a connection of the client and the one to the server that belongs to it.
type link struct {
	client, server *net.TCPConn
	dead           bool // half-open: what is said from now on gets lost. Guarded by the proxy's lock
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: listener.Addr().String(), target: target, fault: "pass", changed: make(chan struct{}), links: map[*link]bool{}}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", p.target)
			if err != nil { // the server is down
				_ = client.Close()
				continue
			}
			l := &link{client: client.(*net.TCPConn), server: server.(*net.TCPConn)} //nolint:errcheck // as asked for
			p.mu.Lock()
			p.links[l], l.dead = true, p.fault == "swallow"
			p.mu.Unlock()
			pumps.Go(func() { p.carry(l, l.client, l.server, false) })
			pumps.Go(func() { p.carry(l, l.server, l.client, true) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.set("reset")
		pumps.Wait()
	})
	return p
}

// set changes what happens to all connections. Reset ends those that are there; then all is well.
func (p *proxy) set(fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		switch fault {
		case "reset":
			l.reset()
		case "swallow":
			l.dead = true
		}
	}
	if p.fault = fault; fault == "reset" {
		p.fault = "pass"
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// reset ends both connections without a goodbye.
func (l *link) reset() {
	for _, c := range []*net.TCPConn{l.client, l.server} {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
}

// carry takes what one side says to the other, until either is gone.
func (p *proxy) carry(l *link, from, to *net.TCPConn, answers bool) {
	var passed time.Time
	for said := make([]byte, chunkBytes); ; passed = time.Now() {
		n, err := from.Read(said)
		fault, dead := p.meets(l, answers)
		switch {
		case dead && err == nil:
			continue
		case dead: // neither side hears that the other is gone
			return
		case fault == "slow" && time.Since(passed) > burst:
			time.Sleep(slowBy)
		case fault == "tear":
			_, _ = to.Write(said[:min(tornBytes, n/2)])
			n = 0
		}
		if err == nil && n > 0 {
			_, err = to.Write(said[:n])
		}
		if err != nil || n == 0 {
			l.reset()
			return
		}
	}
}

// meets returns the fault that something said meets, once it is not held any more. One answer is torn.
func (p *proxy) meets(l *link, answers bool) (fault string, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for answers && p.fault == "hold" {
		changed := p.changed
		p.mu.Unlock()
		<-changed
		p.mu.Lock()
	}
	if !answers || l.dead {
		return "pass", l.dead
	}
	if fault = p.fault; fault == "tear" {
		p.fault = "pass"
	}
	return fault, false
}
