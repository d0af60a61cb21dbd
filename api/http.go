package api

import (
	"net"
	"net/http"
	"time"
)

// Settings of the HTTP connections of both sides.
const (
	headerTimeout = 10 * time.Second
	// answerWithin is how long a call may take from its header to the end of its answer: it may wait for room
	// and then for its body, and Wait for a minute. Streams have no such bound.
	answerWithin = 3 * time.Minute
	// stuckAfter is how long a connection may take nothing of what is sent to it.
	stuckAfter    = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	dialTimeout   = 3 * time.Second
	pingAfter     = 5 * time.Second // of silence on an HTTP/2 connection
	pingTimeout   = 5 * time.Second // then the connection is considered dead
	bufferBytes   = 64 << 10
	windowBytes   = 1 << 20 // a batch of claimed tasks fits without waiting for the window
	streamsMax    = 100     // open at a time on one connection to a server
	connsMax      = 256     // of one client to one server; further calls wait
	frameBytesMax = 1 << 20
	// serverFrameBytesMax bounds a frame that a client sends, which a server has in memory as a whole.
	serverFrameBytesMax = 16 << 10
	// headerBytesMax bounds the header of a request. net/http takes 4 KiB more than it is told of HTTP/1.
	headerBytesMax = 32<<10 - 4<<10
	tlsHandshakeIn = 5 * time.Second
)

// NewServer returns an HTTP server that speaks HTTP/1.1 and HTTP/2 on one port,
// without TLS (Serve) or with it (a TLSConfig, and ServeTLS). The caller listens and serves.
func NewServer(handler http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // negotiated by TLS
	protocols.SetUnencryptedHTTP2(true)
	http2 := http2Config()
	http2.MaxConcurrentStreams, http2.WriteByteTimeout, http2.MaxReadFrameSize = streamsMax, stuckAfter, serverFrameBytesMax
	return &http.Server{
		Handler: handler, Protocols: &protocols, HTTP2: http2,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, WriteTimeout: answerWithin, MaxHeaderBytes: headerBytesMax,
	}
}

// NewCallTransport returns the transport for unary calls: HTTP/1.1, which takes two thirds of the time of
// HTTP/2 for small calls (docs/adr/0003), or with TLS whatever the server prefers.
func NewCallTransport() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // negotiated by TLS only
	t := newTransport(&protocols)
	t.MaxConnsPerHost = connsMax
	return t
}

// NewStreamTransport returns the transport for streams, which need HTTP/2 with or without TLS.
func NewStreamTransport() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return newTransport(&protocols)
}

func newTransport(protocols *http.Protocols) *http.Transport {
	return &http.Transport{
		Proxy:     http.ProxyFromEnvironment,
		Protocols: protocols, HTTP2: http2Config(),
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: tlsHandshakeIn,
		MaxIdleConns:        connsMax, MaxIdleConnsPerHost: connsMax, IdleConnTimeout: idleTimeout,
		ReadBufferSize: bufferBytes, WriteBufferSize: bufferBytes,
		DisableCompression: true,
	}
}

func http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
		MaxReceiveBufferPerConnection: 2 * windowBytes, MaxReceiveBufferPerStream: windowBytes, MaxReadFrameSize: frameBytesMax,
	}
}
