package api_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

// A caller that does not read its answer is given up after a while, and a stream that takes longer is not.
func TestSlowReadersAreGivenUp(t *testing.T) {
	if api.NewServer(nil).WriteTimeout < 2*time.Minute {
		t.Fatal("a call that waits for its turn, its body, and a minute for tasks has no time to answer")
	}
	const within = 200 * time.Millisecond
	ended := make(chan error, 1)
	server := httptest.NewUnstartedServer(api.BoundBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == kinesinv1connect.BackupServiceBackupProcedure {
			time.Sleep(3 * within) // real time, since connections are real
			_, _ = io.WriteString(w, "all of it")
			return
		}
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	})))
	server.Config.WriteTimeout = within
	server.Start()
	t.Cleanup(server.Close)

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", kinesinv1connect.TaskServiceGetProcedure); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("the answer ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the answer waits for its reader")
	}

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+kinesinv1connect.BackupServiceBackupProcedure, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "all of it" {
		t.Errorf("a stream: %q, %v", text, err)
	}
}
