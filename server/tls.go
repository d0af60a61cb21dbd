package server

import (
	"context"
	"crypto/tls"
	"log"
	"log/slog"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
)

// certFileBytesMax bounds a file with a certificate chain or a key.
const certFileBytesMax = 1 << 20

// openTLS returns the TLS configuration of the server; nil without TLS.
func (s *Server) openTLS(ctx context.Context) (*tls.Config, error) {
	if s.config.TLSCertFile == "" {
		return nil, nil //nolint:nilnil // no TLS is asked for
	}
	pair, err := openPair(s.config.TLSCertFile, s.config.TLSKeyFile, clock.Real(), s.reread(ctx, "certificate and key"))
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil },
	}, nil
}

// openPair reads a certificate and its key, and reloads them when they change.
func openPair(certFile, keyFile string, c clock.Clock, changed func(error)) (*livefile.Files[*tls.Certificate], error) {
	return livefile.Open(livefile.Config[*tls.Certificate]{
		Paths: []string{certFile, keyFile}, BytesMax: certFileBytesMax, Clock: c, Changed: changed,
		Parse: func(contents [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(contents[0], contents[1])
			return &pair, err
		},
	})
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
