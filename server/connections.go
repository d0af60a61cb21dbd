package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	// idleMin is how long a connection must be idle before it may be closed: with HTTP/2 it becomes idle
	// before its last answer is sent.
	idleMin = 100 * time.Millisecond
	// crowdedEvery is how often a wait for an idle connection is logged.
	crowdedEvery = time.Minute
)

// idleConn is an idle connection, and where it stands in the list of its address.
type idleConn struct {
	conn  net.Conn
	since time.Time
	own   *list.Element
}

// address is one that has open connections.
type address struct {
	netip.Prefix

	open int
	idle *list.List // of elements of connections.idle; idle for longest first
}

// connections is a listener that bounds the open connections, so that they leave the store enough file
// descriptors. At the bound a new connection replaces the one that has been idle for longest, whose client
// connects again when it needs to. If none is idle the new one waits.
//
// The connections of one address have a bound too, so that it cannot take the room of all others. There a new
// one replaces an idle one of the same address, or is closed: if it waited, all others would with it.
type connections struct {
	net.Listener

	most, perAddress int
	log              *slog.Logger

	mu        sync.Mutex // guards what stands here; never held across I/O
	open      int
	idle      *list.List // of idleConn; idle for longest first
	place     map[net.Conn]*list.Element
	addresses map[netip.Prefix]*address

	freed chan struct{} // has an element when a connection was closed or became idle
	ended chan struct{}
	end   func()
}

func limitConnections(l net.Listener, most, perAddress int, log *slog.Logger) *connections {
	c := &connections{
		Listener: l, most: most, perAddress: perAddress, log: log,
		idle: list.New(), place: map[net.Conn]*list.Element{}, addresses: map[netip.Prefix]*address{},
		freed: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	c.end = sync.OnceFunc(func() { close(c.ended) })
	return c
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from := addressOf(conn)
	for !c.admits(from) {
		_ = conn.Close()
		c.log.WarnContext(context.Background(), "too many connections of one address and none is idle; a new one is closed",
			slog.String("address", from.String()), slog.Int("connections", c.perAddress))
		if conn, err = c.Listener.Accept(); err != nil {
			return nil, err
		}
		from = addressOf(conn)
	}
	for !c.enter(from) {
		if !c.makeRoom() {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
	}
	return &connection{Conn: conn, from: from, leave: sync.OnceFunc(func() { c.leave(from) })}, nil
}

// addressOf returns the address that a connection counts for.
func addressOf(conn net.Conn) netip.Prefix { return prefixOf(conn.RemoteAddr().String()) }

// prefixOf returns the address that its peer counts for. One machine has many addresses of IPv6.
func prefixOf(peer string) netip.Prefix {
	remote, err := netip.ParseAddrPort(peer)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := remote.Addr().Unmap(), 64
	if addr.Is4() {
		bits = addr.BitLen()
	}
	prefix, _ := addr.WithZone("").Prefix(bits) // which fails for other numbers of bits
	return prefix
}

// admits reports whether an address may have one more connection. If need be it closes one that is idle.
func (c *connections) admits(from netip.Prefix) bool {
	c.mu.Lock()
	a := c.addresses[from]
	if a == nil || a.open < c.perAddress {
		c.mu.Unlock()
		return true
	}
	var first *list.Element
	if own := a.idle.Front(); own != nil {
		first, _ = own.Value.(*list.Element)
	}
	closed, _ := c.closeOne(first)
	return closed
}

// makeRoom closes an idle connection, or waits for one to become idle or closed. It returns false when the
// listener is closed.
func (c *connections) makeRoom() bool {
	closed, soon := c.closeIdle()
	if closed {
		return true
	}
	if soon == 0 {
		c.log.WarnContext(context.Background(), "too many connections and none is idle; a new one waits", slog.Int("connections", c.most))
		soon = crowdedEvery
	}
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-c.freed:
	case <-timer.C:
	case <-c.ended:
		return false
	}
	return true
}

// Close implements net.Listener.
func (c *connections) Close() error {
	c.end()
	return c.Listener.Close()
}

// count returns the number of open connections.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// register adds the metrics.
func (c *connections) register(r prometheus.Registerer) {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "kinesin_connections", Help: "Open client connections."}, func() float64 { return float64(c.count()) })
	f.NewGauge(prometheus.GaugeOpts{Name: "kinesin_connections_max", Help: "Limit of open client connections."}).Set(float64(c.most))
}

func (c *connections) enter(from netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		return false
	}
	c.open++
	a := c.addresses[from]
	if a == nil {
		a = &address{Prefix: from, idle: list.New()}
		c.addresses[from] = a
	}
	a.open++
	return true
}

func (c *connections) leave(from netip.Prefix) {
	c.mu.Lock()
	c.open--
	a := c.addresses[from]
	if a.open--; a.open == 0 {
		delete(c.addresses, from)
	}
	c.mu.Unlock()
	c.wake()
}

// wake wakes Accept.
func (c *connections) wake() {
	select {
	case c.freed <- struct{}{}:
	default:
	}
}

// closeIdle closes the connection that has been idle for longest, if that is long enough. Otherwise it
// returns how soon it will be, or 0 if none is idle.
func (c *connections) closeIdle() (closed bool, soon time.Duration) {
	c.mu.Lock()
	return c.closeOne(c.idle.Front())
}

// closeOne is closeIdle for one connection; nil: there is none. It is called with mu held, and unlocks it.
func (c *connections) closeOne(first *list.Element) (closed bool, soon time.Duration) {
	if first == nil {
		c.mu.Unlock()
		return false, 0
	}
	one, _ := first.Value.(*idleConn)
	if early := idleMin - time.Since(one.since); early > 0 {
		c.mu.Unlock()
		return false, early
	}
	c.busy(one.conn)
	c.mu.Unlock()
	_ = one.conn.Close() // an error does not matter: the descriptor is free
	return true, 0
}

// state is the ConnState hook of the HTTP server. A new connection without a request counts as idle.
func (c *connections) state(conn net.Conn, s http.ConnState) {
	if secure, isTLS := conn.(*tls.Conn); isTLS {
		conn = secure.NetConn()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, isIdle := c.place[conn]
	quiet := s == http.StateNew || s == http.StateIdle
	switch {
	case quiet && !isIdle:
		c.rest(conn)
		c.wake()
	case !quiet && isIdle:
		c.busy(conn)
	}
}

// rest notes that a connection is idle, busy that it is not. Call both with mu held.
func (c *connections) rest(conn net.Conn) {
	ours, _ := conn.(*connection)
	a := c.addresses[ours.from]
	if a == nil { // it was closed a moment ago
		return
	}
	one := &idleConn{conn: conn, since: time.Now()}
	at := c.idle.PushBack(one)
	one.own = a.idle.PushBack(at)
	c.place[conn] = at
}

func (c *connections) busy(conn net.Conn) {
	one, _ := c.idle.Remove(c.place[conn]).(*idleConn)
	delete(c.place, conn)
	ours, _ := conn.(*connection)
	if a := c.addresses[ours.from]; a != nil {
		a.idle.Remove(one.own)
	}
}

// connection is counted until it is closed.
type connection struct {
	net.Conn

	from  netip.Prefix
	leave func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
