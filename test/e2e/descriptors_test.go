package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

// serveWith runs `kinesin serve` with a limit on the files that it may have open.
func serveWith(t *testing.T, limit int, dir, addr string) *harness.Process {
	t.Helper()
	script := fmt.Sprintf(`ulimit -n %d && exec "$0" serve --data "$1" --listen "$2"`, limit)
	return harness.Start(t, harness.Command{Name: "server", Path: "/bin/sh", Args: []string{"-c", script, harness.Kinesin(t), dir, addr}})
}

// TestIdleConnectionsLeaveTheStoreItsFiles gives a server 256 files, a store of many files and 400
// connections that are kept open.
func TestIdleConnectionsLeaveTheStoreItsFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real processes")
	}
	t.Parallel()
	const limit, clients = 256, 400
	dir, addr := filepath.Join(t.TempDir(), "data"), harness.FreeAddr(t)
	p := serveWith(t, limit, dir, addr)
	s := site{&harness.Server{Process: p, URL: "http://" + addr, Addr: addr, Dir: dir}, t}
	eventually(t, "it is ready", func() bool { return readyz(s.URL) == http.StatusOK })
	s.run("lambda", "create", "work").Must(t)
	worker := s.worker("--lambda", "work", "--concurrency", "4", "--", "true")

	var open []net.Conn
	for n := range clients {
		conn, err := net.DialTimeout("tcp", addr, soon)
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
		id := s.run("schedule", "work", "--in", "1s").Must(t)
		s.run("wait", id, "--timeout", "20s").Must(t)
		if status := readyz(s.URL); status != http.StatusOK {
			t.Errorf("round %d: /readyz answers %d", round, status)
		}
		files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.PID()), "fd"))
		if err != nil || len(files) >= limit-50 {
			t.Errorf("%d files are open of %d, %v", len(files), limit, err)
		}
	}
	s.run("backup", filepath.Join(t.TempDir(), "b.tar")).Must(t)
	if strings.Contains(p.Stderr(), "too many open files") {
		t.Errorf("the log speaks of too many open files:\n%s", p.Stderr())
	}
	if !worker.Alive() || len(open) != clients {
		t.Error("the worker is gone")
	}
}

func readyz(url string) int {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url + "/readyz")
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// TestTooFewFiles is a start that says what it needs.
func TestTooFewFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real processes")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := serveWith(t, 100, dir, harness.FreeAddr(t))
	harness.Result{Code: p.Wait(soon), Stdout: p.Stdout(), Stderr: p.Stderr()}.Refused(t, 1, "may have 100", "needs 160", "ulimit -n", "LimitNOFILE")
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused server made a data directory")
	}
}
