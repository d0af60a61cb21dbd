// Package server opens what a process of Kinesin runs on and serves it: drivers of the
// store and the queue as the configuration names them, a node with its roles, and a port. It decides
// nothing about tasks.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/token"
)

// ErrListen says that the port could not be opened.
var ErrListen = errors.New("cannot listen")

// Server is a node on the drivers that its configuration names, behind a port.
type Server struct {
	config   Config
	metrics  *node.Metrics
	drivers  *drivers
	node     *node.Node
	files    descriptors
	listener *connections
	http     *http.Server
}

// New opens the port and the drivers; it serves only in Run. Errors: ErrConfig, ErrListen; of the embedded
// store ErrInUse, ErrCorrupt and ErrVersion; ErrSetup; ErrDescriptors; and those of AWS, of which Lasting
// tells what to expect. Each says what to do.
func New(ctx context.Context, c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Server{config: c.withDefaults(), metrics: node.NewMetrics()}
	tokens, err := s.openTokens(ctx)
	secure, tlsErr := s.openTLS(ctx)
	if err := errors.Join(err, tlsErr); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	allowed, err := allowedFiles()
	if err == nil {
		s.files, err = shareFiles(allowed, &s.config)
	}
	if err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	s.http = api.NewServer(s.door(tokens))
	s.http.TLSConfig = secure
	s.http.ErrorLog = httpLog(s.config.Log)
	s.http.ConnState = s.listener.state
	s.listener.register(s.metrics.Registerer())
	return s, nil
}

// door is what calls pass before they reach the node.
func (s *Server) door(tokens *livefile.Files[token.Set]) http.Handler {
	if tokens == nil {
		return loopbackOnly(s.node.Handler())
	}
	return sameOrigin(newGate(tokens, s.metrics.Registerer(), s.node.Handler()))
}

func (s *Server) listen(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.config.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w on %s: the port is in use by another process; stop that one or choose another port with --listen",
			ErrListen, s.config.Listen)
	case err != nil:
		return fmt.Errorf("%w on %s: %w", ErrListen, s.config.Listen, err)
	}
	s.listener = limitConnections(listener, s.files.connections, s.config.Log)
	if s.config.AuthTokenFile != "" {
		return nil
	}
	if addr, ok := s.listener.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() { // a name may stand for any address
		return errors.Join(fmt.Errorf("%w: %w", ErrConfig, beyondLoopback(s.config.Listen)), s.listener.Close())
	}
	return nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// URL is how this machine reaches the server.
func (s *Server) URL() string {
	scheme, host := "http://", s.listener.Addr().String()
	if s.config.TLSCertFile != "" {
		scheme = "https://"
	}
	if addr, ok := s.listener.Addr().(*net.TCPAddr); ok && addr.IP.IsUnspecified() {
		host = net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.Port))
	}
	return scheme + host
}

// Config is what the server was made of, defaults filled in.
func (s *Server) Config() Config { return s.config }

// Run serves until ctx ends, then drains in the direction the work flows: it accepts nothing new, fires
// nothing new, sends workers elsewhere, finishes the calls in hand, and closes the store last. What has not
// come to an end Config.DrainMax after the hand-over of the partitions is cut off; that loses nothing that
// was acknowledged.
func (s *Server) Run(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(context.WithoutCancel(ctx))
	running, stopRunning := context.WithCancel(groupCtx)
	defer stopRunning()
	serving, stopServing := context.WithCancel(groupCtx)
	defer stopServing()
	served, stopped := make(chan struct{}), make(chan struct{})
	group.Go(func() error {
		defer stopServing()
		defer close(stopped)
		return s.node.Run(running)
	})
	group.Go(func() error {
		defer close(served)
		return serveHTTP(serving, s.http, s.listener)
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
		case <-groupCtx.Done():
		case <-served:
		}
		s.config.Log.InfoContext(ctx, "stopping", slog.Duration("at_most", s.config.DrainMax))
		s.http.SetKeepAlivesEnabled(false) // whoever calls again connects again, and so finds another server
		stopRunning()
		s.cutOff(ctx, stopped, served)
		return nil
	})
	err := group.Wait()
	err = errors.Join(err, s.node.Close())
	s.drivers.release()
	return err
}

// cutOff closes all connections when the drain takes too long. It begins when the partitions are handed over:
// until then tasks are fired here, and callers answered.
func (s *Server) cutOff(ctx context.Context, stopped, served <-chan struct{}) {
	timer := clock.Real().NewTimer(node.HandOverMax + s.config.DrainMax)
	defer timer.Stop()
	for {
		select {
		case <-served:
			return
		case <-stopped:
			timer.Reset(s.config.DrainMax)
			stopped = nil
		case <-timer.C():
			s.config.Log.WarnContext(ctx, "the drain took too long, closing connections")
			_ = s.http.Close()
			return
		}
	}
}
