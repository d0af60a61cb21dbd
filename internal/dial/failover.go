package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// failover sends requests to the server in use. When there is no connection to that one, so that it cannot
// have got the request, failover sends the request to the next one, and tries as many times as there are
// servers. After another failure it returns the error, because only the caller knows whether the call may be
// repeated; the next request then goes to the next server.
type failover struct {
	servers *servers
	next    transport
}

// RoundTrip implements http.RoundTripper.
func (f failover) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isAt(r, f.servers.base()) { // a redirect
		return f.next.RoundTrip(r)
	}
	several := len(f.servers.urls)
	for tried := 1; ; tried++ {
		server, turn := f.servers.inUse()
		try, settle := held(f.servers.at(r, server), tried < several)
		response, err := f.next.RoundTrip(try)
		if err == nil {
			settle()
			if cannotServe(response.StatusCode) {
				f.servers.failed(turn)
			}
			response.Body = answer{response.Body, r.Context(), func() { f.servers.failed(turn) }}
			return response, nil
		}
		if !isCallers(r.Context()) {
			f.servers.failed(turn)
		}
		unsent := isUnsent(err)
		if tried < several && unsent && r.Context().Err() == nil {
			continue
		}
		settle()
		if unsent && several > 1 && tried == several {
			err = fmt.Errorf("none of %d servers can be reached; the last error: %w", tried, err)
		}
		return nil, err
	}
}

// answer is the body of a response, which may break or stop coming long after its header.
type answer struct {
	io.ReadCloser

	ctx    context.Context //nolint:containedctx // of the request
	failed func()
}

// Read reads the body. When that fails, the server has failed.
func (a answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !isCallers(a.ctx) {
		a.failed()
	}
	return n, err
}

// CloseIdleConnections is called by http.Client.
func (f failover) CloseIdleConnections() { f.next.CloseIdleConnections() }

// isCallers reports whether the caller ended the call. The end of its time says that the server hangs.
func isCallers(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// isUnsent reports whether a request failed before there was a connection for it.
func isUnsent(err error) bool {
	failed, found := errors.AsType[*net.OpError](err)
	return found && failed.Op == "dial"
}

// cannotServe reports whether a status means that another server may do better: 503 comes from one that is
// starting or stopping, the others from a proxy in front of it.
func cannotServe(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// held returns a request for one try, whose end does not close the body before settle is called: without that
// the body is left for the next try, if there may be one.
func held(r *http.Request, again bool) (try *http.Request, settle func()) {
	if !again || r.Body == nil || r.Body == http.NoBody {
		return r, func() {}
	}
	body := &heldBody{ReadCloser: r.Body}
	try = r.WithContext(r.Context()) // a copy: the caller's request must not change
	try.Body = body
	return try, body.settle
}

// heldBody is the body of a request in one try.
type heldBody struct {
	io.ReadCloser

	mu      sync.Mutex // guards the rest
	settled bool
	closed  bool
}

// Close closes the body when the try is the last one.
func (b *heldBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if !b.settled {
		return nil
	}
	return b.ReadCloser.Close()
}

// settle says that the try is the last one.
func (b *heldBody) settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled = true
	if b.closed {
		_ = b.ReadCloser.Close() // the transport was done with it before
	}
}
