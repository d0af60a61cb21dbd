package conformance_test

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

const (
	slowBy      = 3 * time.Second
	tornBytes   = 20   // of an answer before its connection is reset
	chunksMax   = 1000 // that wait in a direction of a connection
	chunkBytes  = 32 << 10
	proxyFaults = "pass hold slow swallow tear reset"
)

// A proxy stands between a client and the server, and does them harm. The zero fault, pass, does none.
type proxy struct {
	url, target string

	mu      sync.Mutex
	fault   string
	changed chan struct{} // closed when the fault changes
	links   map[*link]bool
}

// A link is a connection of the client and the one to the server that belongs to it.
type link struct {
	client, server net.Conn
	dead           bool // half-open: whatever is said gets lost from now on. Guarded by the proxy's lock
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{url: "http://" + listener.Addr().String(), target: target, fault: "pass", changed: make(chan struct{}), links: map[*link]bool{}}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				reset(client)
				continue
			}
			l := &link{client: client, server: server}
			p.mu.Lock()
			p.links[l], l.dead = true, p.fault == "swallow"
			p.mu.Unlock()
			pumps.Go(func() { p.carry(l, client, server, false) })
			pumps.Go(func() { p.carry(l, server, client, true) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.set("reset")
		pumps.Wait()
	})
	return p
}

// set changes what happens to all connections. Reset ends those that are there, and tear the next one that hears
// something; then all is well.
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

func (l *link) reset() {
	reset(l.client)
	reset(l.server)
}

// reset ends a connection without a goodbye.
func reset(c net.Conn) {
	if tcp, is := c.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// chunk is what was said at a time.
type chunk struct {
	bytes []byte
	at    time.Time
}

// carry takes what one side says to the other, until either is gone.
func (p *proxy) carry(l *link, from, to net.Conn, answers bool) {
	said := make(chan chunk, chunksMax)
	var heard sync.WaitGroup
	heard.Go(func() {
		for c := range said {
			if !p.pass(l, to, c, answers) {
				l.reset()
			}
		}
	})
	for {
		bytes := make([]byte, chunkBytes)
		n, err := from.Read(bytes)
		if n > 0 {
			said <- chunk{bytes: bytes[:n], at: time.Now()}
		}
		if err != nil {
			break
		}
	}
	close(said)
	heard.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.dead { // a half-open connection tells neither side that the other is gone
		l.reset()
		delete(p.links, l)
	}
}

// pass hands on what was said, as the fault has it, and reports whether the connection is to go on.
func (p *proxy) pass(l *link, to net.Conn, c chunk, answers bool) bool {
	for {
		p.mu.Lock()
		fault, changed, dead := p.fault, p.changed, l.dead
		if fault == "tear" && answers && !dead {
			p.fault = "pass"
		}
		p.mu.Unlock()
		switch {
		case dead:
			return true
		case fault == "hold" && answers:
			<-changed
			continue
		case fault == "tear" && answers:
			_, _ = to.Write(c.bytes[:min(tornBytes, len(c.bytes)-1)])
			return false
		case fault == "slow" && answers:
			time.Sleep(time.Until(c.at.Add(slowBy)))
		}
		_, err := to.Write(c.bytes)
		return err == nil || errors.Is(err, net.ErrClosed)
	}
}
