package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// connections is a listener with a bound on the connections that are open at a time, so that they leave the store the
// descriptors that it needs. When the bound is reached a new connection takes the place of the one that has been idle for
// longest: its client connects again when it needs to. When none is idle it waits for one to end.
type connections struct {
	net.Listener

	most int
	log  *slog.Logger

	mu    sync.Mutex // guards what stands here; never held across I/O
	open  int
	idle  *list.List // of net.Conn, on which nothing is under way; idle for longest first
	place map[net.Conn]*list.Element

	freed chan struct{} // has an element when one was closed, or is idle
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
		if c.closeIdle() {
			continue
		}
		c.log.WarnContext(context.Background(), "no room for another connection, and none is idle: it waits", slog.Int("connections", c.most))
		select {
		case <-c.freed:
		case <-c.ended:
			_ = conn.Close()
			return nil, net.ErrClosed
		}
	}
	return &connection{Conn: conn, leave: sync.OnceFunc(c.leave)}, nil
}

// Close implements net.Listener.
func (c *connections) Close() error {
	c.end()
	return c.Listener.Close()
}

// count is how many connections are open.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// register shows how many connections are open, of how many.
func (c *connections) register(r prometheus.Registerer) {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "kinesin_connections", Help: "Connections of callers that are open."}, func() float64 { return float64(c.count()) })
	f.NewGauge(prometheus.GaugeOpts{Name: "kinesin_connections_max", Help: "Connections of callers that may be open at a time."}).Set(float64(c.most))
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

// wake has whoever waits in Accept look again.
func (c *connections) wake() {
	select {
	case c.freed <- struct{}{}:
	default:
	}
}

// closeIdle closes the connection that has been idle for longest, if one is.
func (c *connections) closeIdle() bool {
	c.mu.Lock()
	first := c.idle.Front()
	if first == nil {
		c.mu.Unlock()
		return false
	}
	conn, isConn := c.idle.Remove(first).(net.Conn)
	delete(c.place, conn)
	c.mu.Unlock()
	if isConn {
		_ = conn.Close() // whether or not the other side still listens, its descriptor is free
	}
	return true
}

// state is told of every connection by its server. One that says nothing after it was opened is as idle as one that said
// all it had to.
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
		c.place[conn] = c.idle.PushBack(conn)
		c.wake()
	case !quiet && isIdle:
		c.idle.Remove(at)
		delete(c.place, conn)
	}
}

// connection is one that is counted until it is closed.
type connection struct {
	net.Conn

	leave func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
