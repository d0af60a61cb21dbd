package e2e_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

// TestIdleConnectionsLeaveTheStoreItsFiles gives a server 256 files, a store of many files and 400
// connections that are kept open.
func TestIdleConnectionsLeaveTheStoreItsFiles(t *testing.T) {
	t.Parallel()
	const limit, clients = 256, 400
	s := harness.StartServer(t, harness.ServerOptions{FilesMax: limit})
	s.Run("lambda", "create", "work").Must(t)
	worker := s.CommandWorker("--lambda", "work", "--concurrency", "4", "--", "true")

	var open []net.Conn
	for n := range clients {
		conn, err := net.DialTimeout("tcp", s.Addr, soon)
		if err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
		defer func() { _ = conn.Close() }()
		if n%2 == 0 { // half of them say something once
			_, err = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
		if err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
		open = append(open, conn)
	}
	for round := range 3 {
		id := s.Run("schedule", "work", "--in", "1s").Must(t)
		s.Run("wait", id, "--timeout", "20s").Must(t)
		if status, _ := s.Fetch("/readyz"); status != http.StatusOK {
			t.Errorf("round %d: /readyz answers %d", round, status)
		}
		files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(s.PID()), "fd"))
		if err != nil || len(files) >= limit-50 {
			t.Errorf("%d files are open of %d, %v", len(files), limit, err)
		}
	}
	s.Run("backup", filepath.Join(t.TempDir(), "b.tar")).Must(t)
	if strings.Contains(s.Stderr(), "too many open files") {
		t.Errorf("the log speaks of too many open files:\n%s", s.Stderr())
	}
	if !worker.Alive() || len(open) != clients {
		t.Error("the worker is gone")
	}
}

// TestTooFewFiles is a start that says what it needs.
func TestTooFewFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	serve := harness.Command{Args: []string{"serve", "--data", dir, "--listen", harness.FreeAddr(t)}, FilesMax: 100}
	serve.Run(t).Refused(t, 1, "may have 100", "needs 160", "ulimit -n", "LimitNOFILE")
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused server made a data directory")
	}
}
