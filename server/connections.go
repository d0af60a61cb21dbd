package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
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

// idleConn is an idle connection.
type idleConn struct {
	conn  net.Conn
	since time.Time
}

// connections is a listener that bounds the open connections, so that they leave the store enough file
// descriptors. At the bound a new connection replaces the one that has been idle for longest, whose client
// connects again when it needs to. If none is idle the new one waits.
type connections struct {
	net.Listener

	most int
	log  *slog.Logger

	mu    sync.Mutex // guards what stands here; never held across I/O
	open  int
	idle  *list.List // of idleConn; idle for longest first
	place map[net.Conn]*list.Element

	freed chan struct{} // has an element when a connection was closed or became idle
	ended chan struct{}
	end   func()
}

func limitConnections(l net.Listener, most int, log *slog.Logger) *connections {
	c := &connections{
		Listener: l, most: most, log: log,
		idle: list.New(), place: map[net.Conn]*list.Element{}, freed: make(chan struct{}, 1), ended: make(chan struct{}),
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
	for !c.enter() {
		if !c.makeRoom() {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
	}
	return &connection{Conn: conn, leave: sync.OnceFunc(c.leave)}, nil
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

func (c *connections) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		return false
	}
	c.open++
	return true
}

func (c *connections) leave() {
	c.mu.Lock()
	c.open--
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
	first := c.idle.Front()
	if first == nil {
		c.mu.Unlock()
		return false, 0
	}
	one, _ := first.Value.(idleConn)
	if early := idleMin - time.Since(one.since); early > 0 {
		c.mu.Unlock()
		return false, early
	}
	c.idle.Remove(first)
	delete(c.place, one.conn)
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
	at, isIdle := c.place[conn]
	quiet := s == http.StateNew || s == http.StateIdle
	switch {
	case quiet && !isIdle:
		c.place[conn] = c.idle.PushBack(idleConn{conn, time.Now()})
		c.wake()
	case !quiet && isIdle:
		c.idle.Remove(at)
		delete(c.place, conn)
	}
}

// connection is counted until it is closed.
type connection struct {
	net.Conn

	leave func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
