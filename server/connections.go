package server

import (
	"bufio"
	"container/list"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/room"
)

const (
	// idleMin is how long a connection must be idle before it may be closed: with HTTP/2 it becomes idle
	// before its last answer is sent.
	idleMin = 100 * time.Millisecond
	// crowdedEvery is how often a wait for an idle connection is logged.
	crowdedEvery = time.Minute
	// strangersMax bounds the open connections on which nobody has shown yet who he is, and
	// strangersPerAddress those of one address: each takes up to 64 KiB for what has not come to its end.
	strangersMax, strangersPerAddress = 4096, 256
	// strangersHTTP2Max bounds the connections of HTTP/2 among them that have calls under way, of which each may
	// have a header of 32 KiB on each of its streams. An address has a share, and more of them wait.
	strangersHTTP2Max = 16
	// strangerMin is how long such a connection may stay, however many more come from its address.
	strangerMin = 2 * time.Second
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

	open      int
	idle      *list.List // of elements of connections.idle; idle for longest first
	strangers *list.List // of *connection; the oldest first
}

// connections is a listener that bounds the open connections, so that they leave the store enough file
// descriptors. At the bound a new connection replaces the one that has been idle for longest, whose client
// connects again when it needs to. If none is idle the new one waits.
//
// Those on which nobody has shown yet who he is have bounds of their own. There a new one replaces the oldest,
// whatever that does: who has a token shows it with the first call.
//
// The connections of one address have a bound too, so that it cannot take the room of all others. There a new
// one replaces an idle one of the same address, or is closed: if it waited, all others would with it.
type connections struct {
	net.Listener

	most, perAddress                  int
	strangersMax, strangersPerAddress int
	log                               *slog.Logger

	mu        sync.Mutex // guards what stands here; never held across I/O
	open      int
	idle      *list.List // of idleConn; idle for longest first
	place     map[net.Conn]*list.Element
	addresses map[netip.Prefix]*address
	strangers *list.List // of *connection; the oldest first
	http2     *room.Room // those of HTTP/2 among them that have calls under way

	freed chan struct{} // has an element when a connection was closed or became idle
	ended chan struct{}
	end   func()
}

func limitConnections(l net.Listener, most, perAddress int, log *slog.Logger) *connections {
	c := &connections{
		Listener: l, most: most, perAddress: perAddress, log: log, strangersMax: strangersMax, strangersPerAddress: strangersPerAddress,
		strangers: list.New(), http2: room.New("stranger_connections", strangersHTTP2Max, 0), idle: list.New(), place: map[net.Conn]*list.Element{}, addresses: map[netip.Prefix]*address{},
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
	for !c.stranger(from) || !c.admits(from) {
		_ = conn.Close()
		if conn, err = c.Listener.Accept(); err != nil {
			return nil, err
		}
		from = addressOf(conn)
	}
	ours := &connection{Conn: conn, of: c, from: from, since: time.Now()}
	var end context.CancelFunc
	ours.open, end = context.WithCancel(context.Background())
	ours.leave = sync.OnceFunc(func() {
		end()
		c.leave(ours)
	})
	for !c.enter(ours) {
		if !c.makeRoom() {
			end()
			_ = conn.Close()
			return nil, net.ErrClosed
		}
	}
	return ours, nil
}

// stranger makes room for one more connection on which nobody has shown who he is, if need be by closing the
// oldest, and reports whether there may be one. Of one address only one is closed that had time to show it, so
// that of many that come at once the first are served.
func (c *connections) stranger(from netip.Prefix) bool {
	c.mu.Lock()
	var oldest *connection
	a := c.addresses[from]
	ofAddress := a != nil && a.strangers.Len() >= c.strangersPerAddress
	if ofAddress {
		oldest, _ = a.strangers.Front().Value.(*connection)
	} else if c.strangers.Len() >= c.strangersMax {
		oldest, _ = c.strangers.Front().Value.(*connection)
	}
	hadTime := !ofAddress || time.Since(oldest.since) >= strangerMin
	c.mu.Unlock()
	if oldest == nil {
		return true
	}
	c.log.WarnContext(context.Background(), "too many connections without a call that shows whose it is; one is closed",
		slog.String("address", oldest.from.String()), slog.Int("of_one_address_max", c.strangersPerAddress), slog.Int("max", c.strangersMax))
	if !hadTime {
		return false
	}
	_ = oldest.Close() // an error does not matter: the descriptor is free
	return true
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
	if !closed {
		c.log.WarnContext(context.Background(), "too many connections of one address and none is idle; a new one is closed",
			slog.String("address", from.String()), slog.Int("connections", c.perAddress))
	}
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
func (c *connections) register(m *node.Metrics) {
	m.Computed("kinesin_connections", "Open client connections.", func() float64 { return float64(c.count()) })
	m.Gauge("kinesin_connections_max", "Limit of open client connections.").Set(float64(c.most))
}

func (c *connections) enter(conn *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		return false
	}
	c.open++
	a := c.addresses[conn.from]
	if a == nil {
		a = &address{Prefix: conn.from, idle: list.New(), strangers: list.New()}
		c.addresses[conn.from] = a
	}
	a.open++
	conn.ofAll, conn.ofAddress = c.strangers.PushBack(conn), a.strangers.PushBack(conn)
	return true
}

func (c *connections) leave(conn *connection) {
	conn.rest()
	c.mu.Lock()
	c.open--
	c.know(conn)
	a := c.addresses[conn.from]
	if a.open--; a.open == 0 {
		delete(c.addresses, conn.from)
	}
	c.mu.Unlock()
	c.wake()
}

// know takes a connection out of those on which nobody has shown who he is. Call it with mu held.
func (c *connections) know(conn *connection) {
	if conn.ofAll == nil {
		return
	}
	c.strangers.Remove(conn.ofAll)
	c.addresses[conn.from].strangers.Remove(conn.ofAddress)
	conn.ofAll, conn.ofAddress = nil, nil
}

type connectionKey struct{}

// context is the ConnContext hook of the HTTP server, by which a call finds its connection.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	if secure, isTLS := conn.(*tls.Conn); isTLS {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

// connectionOf returns the connection of a call; nil in tests without one.
func connectionOf(ctx context.Context) *connection {
	conn, _ := ctx.Value(connectionKey{}).(*connection)
	return conn
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
	secure, isTLS := conn.(*tls.Conn)
	if isTLS {
		conn = secure.NetConn()
	}
	if ours, _ := conn.(*connection); s == http.StateIdle || s == http.StateClosed {
		ours.rest()
	} else if s == http.StateActive && (ours.isHTTP2.Load() || isTLS && secure.ConnectionState().NegotiatedProtocol == "h2") {
		ours.work()
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

	of    *connections
	from  netip.Prefix
	since time.Time
	open  context.Context //nolint:containedctx // until it is closed
	leave func()

	isHTTP2   atomic.Bool // without TLS
	begun     int         // how much of prefaceStart was read
	in        io.Reader   // buffers what comes over HTTP/2 without TLS; nil: it is not that
	isKnown   atomic.Bool
	refused   atomic.Bool  // it was closed because a stranger had too many calls under way
	strangers atomic.Int32 // calls under way of who has not shown who he is

	ofAll, ofAddress *list.Element // in the lists of strangers; nil: it is in none; guarded by of.mu

	working sync.Mutex  // guards what follows
	stay    *room.Stay  // in of.http2
	late    *time.Timer // ends a stay that takes too long
}

// prefaceStart is how a client begins HTTP/2 without TLS.
const prefaceStart = "PRI"

// Read implements net.Conn. It notes which protocol the client speaks. Of HTTP/2 package net/http reads the header of each
// frame and then the rest, which takes one system call here; for HTTP/1.1 and TLS it has buffers of its own.
func (c *connection) Read(p []byte) (int, error) {
	if c.in != nil {
		return c.in.Read(p) //nolint:wrapcheck // io.EOF has to stay itself
	}
	n, err := c.Conn.Read(p)
	for i := 0; i < n && c.begun < len(prefaceStart); i++ {
		if p[i] != prefaceStart[c.begun] {
			c.begun = len(prefaceStart)
		} else if c.begun++; c.begun == len(prefaceStart) {
			c.isHTTP2.Store(true)
			c.in = bufio.NewReader(c.Conn)
		}
	}
	return n, err //nolint:wrapcheck // io.EOF has to stay itself
}

// work waits until a connection of HTTP/2 may have calls before it is known whose they are. It is called before
// the first of them is read.
func (c *connection) work() {
	if c.isKnown.Load() {
		return
	}
	stay := c.of.http2.Enter(c.from.String(), false)
	if stay.Wait(c.open, strangerWithin, 1) != nil {
		_ = c.Conn.Close() // the server notices
		return
	}
	c.working.Lock()
	defer c.working.Unlock()
	if c.isKnown.Load() || c.stay != nil || c.open.Err() != nil {
		stay.Leave()
		return
	}
	c.stay, c.late = stay, time.AfterFunc(strangerWithin, func() { _ = c.Conn.Close() })
}

// rest ends what work began.
func (c *connection) rest() {
	c.working.Lock()
	defer c.working.Unlock()
	if c.stay == nil {
		return
	}
	c.late.Stop()
	if c.refused.Load() { // so that its client does not go on with the next one at once
		time.AfterFunc(strangerMin, c.stay.Leave)
	} else {
		c.stay.Leave()
	}
	c.stay = nil
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// know notes that a caller on this connection has shown who he is.
func (c *connection) know() {
	if c == nil || c.isKnown.Load() || c.isKnown.Swap(true) {
		return
	}
	c.of.mu.Lock()
	c.of.know(c)
	c.of.mu.Unlock()
	c.rest()
}
