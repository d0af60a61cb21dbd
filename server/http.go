package server

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// serveHTTP answers on l until ctx ends, then waits for the calls in hand; Close of the server cuts that
// short.
func serveHTTP(ctx context.Context, s *http.Server, l net.Listener) error {
	served := make(chan error, 1)
	go func() {
		if s.TLSConfig != nil {
			served <- s.ServeTLS(l, "", "")
			return
		}
		served <- s.Serve(l)
	}()
	select {
	case err := <-served:
		return unlessClosed(err)
	case <-ctx.Done():
	}
	_ = s.Shutdown(context.WithoutCancel(ctx)) // fails only where closing the listener does, which Serve reports
	return unlessClosed(<-served)
}

func unlessClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
