package e2e_test

import (
	"crypto/rand"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

// smallDisk is a file system of so many megabytes. Where it may not be mounted the test is skipped, and says
// so.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("NOT RUN: the full disk test needs to mount a small file system, and may not: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// On a full disk new tasks are refused with the reason, what is stored goes on to its end, and when there is
// space again all is well.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "160m")
	s := harness.StartServer(t, harness.ServerOptions{Dir: filepath.Join(disk, "data")})
	s.Run("lambda", "create", "work").Must(t)
	stored := s.Run("schedule", "work", "--in", "1s", "--payload", "stored before").Must(t)

	refusal := fill(t, s)
	if !strings.Contains(refusal, "full") && !strings.Contains(refusal, "space") {
		t.Errorf("the refusal does not say that the disk is full: %q", refusal)
	}
	harness.NoTrace(t, refusal)
	s.Run("schedule", "work").Refused(t, 1, "space")
	s.WaitReadyz(soon, 503)
	if _, why := s.Fetch("/readyz"); !strings.Contains(why, "space") && !strings.Contains(why, "full") {
		t.Errorf("/readyz says %q", why)
	}
	if !strings.Contains(s.Stderr(), "full") {
		t.Error("the log does not say that the store is full")
	}

	// Stored tasks drain.
	w := s.CommandWorker("--lambda", "work", "--concurrency", "8", "--", "true")
	s.Run("wait", stored, "--timeout", "20s").Must(t)
	eventually(t, "tasks end on a full disk", func() bool {
		return strings.Count(s.Run("list", "work", "--state", "success", "--limit", "20").Must(t), "success") == 20
	})
	w.Signal(syscall.SIGTERM)
	w.Wait(soon)

	// It starts on a full disk, and may find room there when it has tidied up.
	s.Crash()
	s.Launch()
	s.WaitReadyz(soon, 200, 503)
	if v := s.Get(stored); v.State != "success" {
		t.Errorf("after a restart the task is %s", v.State)
	}
	// Somebody makes room.
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=400m"); err != nil {
		t.Fatal(err)
	}
	s.WaitReadyz(soon, 200)
	s.Run("schedule", "work").Must(t)
}

// fill schedules until the server refuses, and returns the refusal.
func fill(t *testing.T, s *harness.Server) string {
	t.Helper()
	payload := make([]byte, 75_000)
	_, _ = rand.Read(payload)
	line := `{"lambda":"work","delay":"2s","payload_text":"` + base64.StdEncoding.EncodeToString(payload) + "\"}\n" // 100 kB, and no compression helps
	const rounds = 40
	for range rounds {
		if r := s.Feed(strings.Repeat(line, 50), "schedule", "--batch", "-"); r.Code != 0 {
			if !s.Alive() {
				t.Fatalf("the server ended:\n%s", s.Stderr())
			}
			for line := range strings.SplitSeq(strings.TrimSpace(r.Stdout), "\n") { // some of the call may have fitted, also behind what did not
				if !strings.HasPrefix(line, "k1") {
					return line
				}
			}
			t.Fatalf("exit %d, and no refusal in %q", r.Code, r.Stdout)
		}
	}
	t.Fatalf("%d rounds of 5 MB fitted on the disk", rounds)
	return ""
}

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
