package server

import (
	"context"
	"crypto/tls"
	"log"
	"log/slog"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/internal/access/policy"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
)

// openTLS returns the TLS configuration of the server; nil without TLS.
func (s *Server) openTLS(ctx context.Context, asked credentials) (*tls.Config, error) {
	if s.config.TLSCertFile == "" {
		return nil, nil //nolint:nilnil // no TLS is asked for
	}
	pair, err := livefile.OpenPair(s.config.TLSCertFile, s.config.TLSKeyFile, clock.Real(), s.reread(ctx, "certificate and key"))
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil },
	}
	if asked.policy != nil {
		config.NextProtos = []string{"h2", "http/1.1"} // as http.Server adds to a configuration that is not chosen
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return withClients(config, asked.policy.Get()), nil }
	}
	return config, nil
}

// withClients returns the configuration for a connection to a client that may have a certificate of an
// identity. One that those of the policy did not sign breaks the handshake.
func withClients(c *tls.Config, p *policy.Policy) *tls.Config {
	if p.Roots() == nil {
		return c
	}
	own := c.Clone()
	own.GetConfigForClient = nil
	own.ClientCAs, own.ClientAuth = p.Roots(), tls.VerifyClientCertIfGiven
	return own
}

// causedByPeers begins the errors of package net/http that anybody who finds the port can cause.
var causedByPeers = []string{
	"http: TLS handshake error", "http2: server: error reading preface", "timeout waiting for SETTINGS frames",
	"timeout waiting for PING response", "http2: server connection error", "http2: server closing client connection",
	"http2: received GOAWAY",
}

// httpLog logs the errors of package net/http; those that peers cause are debug messages.
func httpLog(l *slog.Logger) *log.Logger { return log.New(httpLogWriter{l}, "", 0) }

type httpLogWriter struct{ log *slog.Logger }

// Write logs one message.
func (w httpLogWriter) Write(p []byte) (int, error) {
	text, level := strings.TrimSpace(string(p)), slog.LevelError
	if slices.ContainsFunc(causedByPeers, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
		level = slog.LevelDebug
	}
	w.log.LogAttrs(context.Background(), level, "http server", slog.String("message", text))
	return len(p), nil
}
