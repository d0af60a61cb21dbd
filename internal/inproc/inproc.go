// Package inproc carries HTTP to a handler in the same process, for workers of the server and for tests in virtual time: it
// owns the pipes and the goroutine of each call, and opens no socket.
package inproc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Transport carries HTTP requests to a handler in the same process: all of the wire contract
// but the sockets. Request and response may go on at the same time, as streams need.
type Transport struct {
	handler http.Handler

	mu     sync.Mutex // guards closed, and the adding to calls
	closed bool
	calls  sync.WaitGroup
}

// New returns a transport to a handler.
func New(h http.Handler) *Transport { return &Transport{handler: h} }

// ErrClosed refuses requests after Close.
var ErrClosed = errors.New("the server in this process is closed")

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.begin() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancel(context.Background()) // no values cross the wire
	stop := context.AfterFunc(r.Context(), cancel)
	w := newResponseWriter()
	go func() {
		defer t.calls.Done()
		defer stop()
		defer cancel()
		t.serve(ctx, w, r)
	}()
	select {
	case <-w.ready:
		return w.response(r, cancel), nil
	case <-r.Context().Done():
		cancel()
		_ = w.reader.CloseWithError(context.Cause(r.Context()))
		return nil, r.Context().Err()
	}
}

func (t *Transport) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.calls.Add(1)
	}
	return !t.closed
}

// Close refuses new requests and waits for those under way.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.calls.Wait()
}

// serve runs the handler on the request as a server would see it.
func (t *Transport) serve(ctx context.Context, w *responseWriter, r *http.Request) {
	asked := r.Clone(ctx)
	asked.Proto, asked.ProtoMajor, asked.ProtoMinor = "HTTP/2.0", 2, 0
	asked.RequestURI, asked.RemoteAddr, asked.Host = r.URL.RequestURI(), "inproc", r.URL.Host
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	defer func() {
		_ = asked.Body.Close()
		w.finish()
	}()
	unblock := context.AfterFunc(ctx, func() { // a read or a write that waits for the client, which gave up
		_ = asked.Body.Close()
		_ = w.reader.CloseWithError(context.Cause(ctx))
	})
	defer unblock()
	t.handler.ServeHTTP(w, asked)
}

// responseWriter hands what a handler writes to the client as it comes.
type responseWriter struct {
	header http.Header
	once   sync.Once
	status int
	sent   http.Header   // as it was when the status was written
	ready  chan struct{} // closed then
	reader *io.PipeReader
	writer *io.PipeWriter
}

func newResponseWriter() *responseWriter {
	w := &responseWriter{header: http.Header{}, ready: make(chan struct{})}
	w.reader, w.writer = io.Pipe()
	return w
}

// Header implements http.ResponseWriter.
func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.ready)
	})
}

// Write implements http.ResponseWriter.
func (w *responseWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.writer.Write(data)
}

// Flush implements http.Flusher: nothing is held back but the headers.
func (w *responseWriter) Flush() { w.WriteHeader(http.StatusOK) }

func (w *responseWriter) finish() {
	w.WriteHeader(http.StatusOK)
	_ = w.writer.Close()
}

// response is what the client gets; closing its body ends the call.
func (w *responseWriter) response(r *http.Request, cancel context.CancelFunc) *http.Response {
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: w.sent, Body: &responseBody{w.reader, cancel}, ContentLength: -1, Request: r,
	}
}

type responseBody struct {
	*io.PipeReader

	cancel context.CancelFunc
}

// Close tells the handler that nobody reads on.
func (b *responseBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
