// Package server runs a process of Kinesin: it opens the configured drivers of the store and the queue, a
// node with its roles, and a port. It decides nothing about tasks.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/access/signin"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/otlp"
	"github.com/kinesin-io/kinesin/target"
	"github.com/kinesin-io/kinesin/web"
)

// ErrListen is returned if the port cannot be opened.
var ErrListen = errors.New("cannot listen")

// Server is a node on the drivers that its configuration names, behind a port.
type Server struct {
	console  *web.Console // nil: it is off
	config   Config
	metrics  *node.Metrics
	drivers  *drivers
	node     *node.Node
	files    descriptors
	listener *connections
	http     *http.Server
	calls    *gate
	targets  *target.Role // nil: this process has not the role
	// endTargets closes the connections to targets.
	endTargets func()
	// collector gets the audit records too; nil: there is none.
	collector *otlp.AuditLog
	exports   []exporter // of traces and metrics
}

// collectorCloseMax bounds the time for the last audit records to reach the collector.
const collectorCloseMax = 5 * time.Second

// New opens the port and the drivers; only Run serves. Errors are ErrConfig, ErrListen, ErrSetup,
// ErrDescriptors, those of the embedded store (ErrInUse, ErrCorrupt, ErrVersion), and those of AWS and
// Kubernetes; see Lasting. Each says what to do.
func New(ctx context.Context, c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.LogControl != nil {
		c.LogControl.IDs = node.LogIDs
	}
	s := &Server{config: c.withDefaults(), metrics: node.NewMetrics(node.MetricsConfig{
		LambdasMax: c.MetricLambdas, NoNative: c.NoNativeHistograms, Version: c.Version,
	})}
	asked, err := s.openCredentials(ctx)
	secure, tlsErr := s.openTLS(ctx, asked)
	provider, providerErr := s.openProvider(ctx, asked)
	if err := errors.Join(err, tlsErr, providerErr); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	s.warnLoose(ctx)
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
	if err := s.open(ctx, asked); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	if s.targets, s.endTargets, err = s.openTargets(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrConfig, err), s.listener.Close(), s.node.Close())
	}
	s.http = api.NewServer(s.handler(asked, provider))
	if s.console != nil {
		s.http.RegisterOnShutdown(s.console.CloseStreams)
	}
	s.http.TLSConfig = secure
	s.http.ErrorLog = httpLog(s.config.Log)
	s.http.ConnState, s.http.ConnContext = s.listener.state, s.listener.context
	s.listener.register(s.metrics)
	return s, nil
}

// warnLoose logs which files with secrets all users of this machine may read.
func (s *Server) warnLoose(ctx context.Context) {
	for _, path := range []string{s.config.AuthTokenFile, s.config.TLSKeyFile, s.config.ConsoleOIDC.ClientSecretFile} {
		if path != "" && livefile.IsLoose(path) {
			s.config.Log.WarnContext(ctx, "every user of this machine may use a file with a secret; chmod 600 it", slog.String("file", path))
		}
	}
}

// handler returns the node's handler behind the checks of a call's origin and identity.
func (s *Server) handler(asked credentials, provider *signin.Flow) http.Handler {
	s.console = s.openConsole()
	s.calls = newGate(asked, s.node.Tokens(), s.node.Audit(), s.metrics, withConsole(s.console, s.node.Handler()))
	s.metrics.WatchRooms(s.config.Log, append(s.calls.rooms(), s.listener.http2)...)
	if s.console != nil {
		s.metrics.WatchRooms(s.config.Log, s.console.Rooms()...)
	}
	if provider != nil {
		provider.Verifier, provider.Sealer = s.calls.verifier, s.node.SessionSealer()
	}
	s.calls.useConsole(s.console, provider)
	if !asked.areAsked() {
		return strictTLS(loopbackOnly(s.withCallbacks(s.calls)))
	}
	return strictTLS(sameOrigin(s.withCallbacks(s.calls)))
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
	s.listener = limitConnections(listener, s.files.connections, s.perAddress(), s.config.Log)
	if s.config.isAuthenticated() {
		return nil
	}
	if addr, ok := s.listener.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() { // a name may resolve to any address
		return errors.Join(fmt.Errorf("%w: %w", ErrConfig, beyondLoopback(s.config.Listen)), s.listener.Close())
	}
	return nil
}

// perAddress returns how many connections one address may have: by default half of all.
func (s *Server) perAddress() int {
	return cmp.Or(s.config.ConnectionsPerAddress, max(s.files.connections/2, 1))
}

// Addr returns the address the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// URL returns the URL of the server for this machine.
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

// ConsoleURL returns the URL of the console for this machine; empty if there is none.
func (s *Server) ConsoleURL() string {
	if s.config.NoConsole || !s.node.HasInbound() {
		return ""
	}
	return s.URL() + web.Prefix
}

// Config returns the configuration with its defaults.
func (s *Server) Config() Config { return s.config }

// Run serves until ctx ends, then drains in the direction in which work flows: it accepts nothing new, hands
// its partitions over, sends workers elsewhere, finishes the calls in flight, and closes the store last.
// Calls that take longer than Config.DrainMax after the hand-over are cut off, which loses nothing that was
// acknowledged.
func (s *Server) Run(ctx context.Context) error {
	roles := strings.Join(s.config.Roles, ",")
	if len(s.config.Roles) == len(Roles()) {
		roles = "all"
	}
	s.config.Log.InfoContext(ctx, "serving", slog.String("version", s.config.Version), slog.String("url", s.URL()), slog.String("roles", roles),
		slog.String("store", s.config.Store), slog.String("queue", s.config.Queue), slog.Bool("authenticated", s.config.isAuthenticated()), slog.Bool("traces", len(s.exports) > 0)) // the URL says whether by TLS
	defer s.tellManager(ctx)()
	group, groupCtx := errgroup.WithContext(context.WithoutCancel(ctx))
	running, stopRunning := context.WithCancel(groupCtx)
	defer stopRunning()
	serving, stopServing := context.WithCancel(groupCtx)
	defer stopServing()
	served, stopped, replaced := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var replacedErr error
	if shipper := s.drivers.shipper; shipper != nil {
		group.Go(func() error {
			if replacedErr = shipper.Run(running); replacedErr != nil {
				s.config.Log.ErrorContext(ctx, "stopping, because another server took over", slog.Any("error", replacedErr))
				close(replaced)
			}
			return nil
		})
	}
	group.Go(func() error {
		defer stopServing()
		defer close(stopped)
		return s.node.Run(running)
	})
	group.Go(func() error {
		defer close(served)
		return serveHTTP(serving, s.http, s.listener)
	})
	calling, stopCalling := context.WithCancel(groupCtx)
	defer stopCalling()
	called := make(chan struct{})
	group.Go(func() error {
		defer close(called)
		return s.runTargets(calling)
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
		case <-groupCtx.Done():
		case <-served:
		case <-replaced:
		}
		s.config.Log.InfoContext(ctx, "stopping", slog.Duration("at_most", s.config.DrainMax))
		s.http.SetKeepAlivesEnabled(false) // so that callers connect again, to another server
		stopCalling()
		<-called // first, since its workers report to this process
		stopRunning()
		s.cutOff(ctx, stopped, served)
		return nil
	})
	err := group.Wait()
	s.node.Flush()
	s.lastPoint(ctx)
	err = errors.Join(err, replacedErr, s.node.Close())
	s.closeCollector()
	s.closeExports()
	s.drivers.release()
	return err
}

// cutOff closes all connections when the drain takes too long, counted from the end of the hand-over.
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
			s.config.Log.WarnContext(ctx, "drain took too long; closing connections")
			_ = s.http.Close()
			return
		}
	}
}
