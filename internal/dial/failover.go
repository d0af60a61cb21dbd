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
// have got the request, failover sends the request to the next one, each server once at most. After another
// failure it returns the error, because only the caller knows whether the call may be repeated; the next
// request then goes to the next server.
type failover struct {
	servers *servers
	next    transport
}

// RoundTrip implements http.RoundTripper.
func (f failover) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isAt(r, f.servers.base()) { // a redirect
		return f.next.RoundTrip(r)
	}
	var body *heldBody
	if r.Body != nil && r.Body != http.NoBody {
		body = &heldBody{ReadCloser: r.Body, held: true}
		r = r.WithContext(r.Context()) // a copy: the caller's request must not change
		r.Body = body
		defer body.release()
	}
	for tried := 1; ; tried++ {
		server, turn := f.servers.inUse()
		response, err := f.next.RoundTrip(f.servers.at(r, server))
		if err == nil {
			if cannotServe(response.StatusCode) {
				f.servers.failed(turn)
			}
			return response, nil
		}
		if isCallers(r.Context()) {
			return nil, err
		}
		f.servers.failed(turn)
		if !isUnsent(err) || r.Context().Err() != nil {
			return nil, err
		}
		if tried >= len(f.servers.urls) {
			return nil, fmt.Errorf("none of %d servers can be reached; the last error: %w", tried, err)
		}
	}
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

// heldBody is the body of a request that may be sent again. Every try closes the body, and the first one must
// not close it for the next; so while it is held, closing is only noted.
type heldBody struct {
	io.ReadCloser

	mu     sync.Mutex // guards the rest
	held   bool
	closed bool
}

// Close implements io.Closer.
func (b *heldBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.held {
		return nil
	}
	return b.ReadCloser.Close()
}

// release makes Close close the body, and closes one that was closed meanwhile.
func (b *heldBody) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = false
	if b.closed {
		_ = b.ReadCloser.Close() // its reader is done with it
	}
}
