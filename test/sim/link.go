package sim

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

var errNetwork = errors.New("connection reset by peer")

// link is the network between a process and the server that it calls; which one that is may change.
type link struct {
	from *process
	to   func() *server // nil while there is none
}

// RoundTrip implements http.RoundTripper.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	closing := func(err error) (*http.Response, error) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	w := l.from.w
	if err := l.from.step(r.Context(), w.latency(Net)); err != nil {
		return closing(err)
	}
	s := l.to()
	if s == nil {
		return closing(errNetwork)
	}
	if err := l.open(r.Context(), s); err != nil {
		return closing(err)
	}
	if w.strikes(NetLostRequest, l.from.name) {
		return closing(errNetwork)
	}
	ctx, cancel := context.WithCancel(r.Context())
	c := &connection{l: l, s: s, cancel: cancel, ctx: ctx}
	r = r.Clone(ctx)
	if r.Body != nil {
		r.Body = &cutReader{c, r.Body}
	}
	response, err := s.transport.RoundTrip(r)
	if err != nil {
		cancel()
		return nil, c.broken(err)
	}
	if err := errors.Join(c.pass(), l.open(ctx, s)); err != nil || w.strikes(NetLostAnswer, l.from.name) {
		cancel()
		_ = response.Body.Close()
		return nil, errors.Join(errNetwork, err)
	}
	response.Body = &cutReader{c, response.Body}
	return response, nil
}

// open waits while the network is cut between the two; a call that waits too long is reset.
func (l *link) open(ctx context.Context, s *server) error {
	for range resetAfter {
		if !l.from.w.cut(l.from, s.process) {
			return nil
		}
		if err := l.from.step(ctx, time.Second); err != nil {
			return err
		}
	}
	return errNetwork
}

// resetAfter is for how many seconds a connection stands without a word before it is given up.
const resetAfter = 15

// connection is a call under way.
type connection struct {
	l      *link
	s      *server
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // of the call
}

// broken is what the caller sees of an error: when the server is no more, and not what it saw of that.
func (c *connection) broken(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && c.s.isDead() {
		return errNetwork
	}
	return err
}

// pass lets bytes through, or ends the call.
func (c *connection) pass() error {
	if c.l.from.isDead() || c.s.isDead() {
		return errNetwork
	}
	if err := c.l.from.step(c.ctx, c.l.from.w.latency(Net)); err != nil {
		return err
	}
	if err := c.s.step(c.ctx, 0); err != nil {
		return errNetwork
	}
	if err := c.l.open(c.ctx, c.s); err != nil {
		return err
	}
	if c.l.from.w.strikes(NetReset, c.l.from.name) {
		return errNetwork
	}
	return nil
}

// cutReader is a body whose bytes come over the connection.
type cutReader struct {
	c *connection
	io.ReadCloser
}

// Read implements io.Reader.
func (b *cutReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if cut := b.c.pass(); cut != nil {
			b.c.cancel()
			_ = b.Close() // so that the other side, which writes, finds out
			return 0, cut
		}
	}
	return n, b.c.broken(err)
}
