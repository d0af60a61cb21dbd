package e2e_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

// serve runs `kinesin serve` that is expected to refuse.
func serve(t *testing.T, args ...string) harness.Result {
	t.Helper()
	return harness.Run(t, append([]string{"serve"}, args...)...)
}

func TestDataDirectoryInUse(t *testing.T) {
	s := start(t)
	serve(t, "--data", s.Dir, "--listen", harness.FreeAddr(t)).Refused(t, 1, s.Dir, "in use by another process")
	s.Run("lambda", "create", "still-there").Must(t)
}

// damaged is a data directory of a server that was stopped, with some tasks in it.
func damaged(t *testing.T) string {
	t.Helper()
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	lines := strings.Repeat(`{"lambda":"work","delay":"1h","payload_text":"`+strings.Repeat("x", 500)+"\"}\n", 2000)
	if r := s.Feed(lines, "schedule", "--batch", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	s.Shutdown()
	return s.Dir
}

// find is the one file that matches, or the largest.
func find(t *testing.T, pattern string) string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	largest, size := "", int64(-1)
	for _, path := range all {
		if info, err := os.Stat(path); err == nil && info.Size() > size {
			largest, size = path, info.Size()
		}
	}
	return largest
}

// flip inverts bytes in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		t.Fatalf("%s: %d bytes, %v", path, len(content), err)
	}
	middle := len(content) / 2
	for i := middle; i < min(middle+16, len(content)); i++ {
		content[i] ^= 0xff
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCorruptManifest(t *testing.T) {
	dir := damaged(t)
	flip(t, find(t, filepath.Join(dir, "MANIFEST-*")))
	serve(t, "--data", dir, "--listen", harness.FreeAddr(t)).Refused(t, 1, dir, "corrupt", "backup")
}

// A damaged block of a data file takes its own rows with it: they are never answered from, the server says
// that it is not well and what is damaged, and everything else goes on. Whatever can still be read is
// salvaged.
func TestCorruptTable(t *testing.T) {
	dir := damaged(t)
	// The log becomes a table when the directory is opened again.
	s := harness.StartServer(t, harness.ServerOptions{Dir: dir})
	s.Run("lambda", "create", "other").Must(t)
	s.Shutdown()
	table := find(t, filepath.Join(dir, "*.sst"))
	flip(t, table)
	s.Launch()
	s.WaitReadyz(soon, 503)
	eventually(t, "/readyz names the file", func() bool {
		_, why := s.Fetch("/readyz")
		return strings.Contains(why, filepath.Base(table))
	})
	eventually(t, "/metrics counts the file", func() bool {
		_, metrics := s.Fetch("/metrics")
		return strings.Contains(metrics, "kinesin_store_damaged_files 1\n")
	})
	for _, text := range []string{"damaged", filepath.Base(table), "data salvage"} {
		if !strings.Contains(s.Stderr(), text) {
			t.Errorf("standard error does not say %q:\n%s", text, s.Stderr())
		}
	}
	harness.NoTrace(t, s.Stderr())
	w := s.CommandWorker("--lambda", "other", "--", "true")
	id := s.Run("schedule", "other").Must(t)
	s.Run("wait", id, "--timeout", "20s").Must(t)
	w.Signal(syscall.SIGTERM)
	w.Wait(soon)
	harness.Run(t, "data", "verify", "--data", dir).Refused(t, 1, dir, "in use by another process")
	s.Crash()

	if r := harness.Run(t, "data", "verify", "--data", dir); r.Code != 1 || !strings.Contains(r.Stdout, filepath.Base(table)) {
		t.Errorf("exit status %d, want 1 and %s:\n%s%s", r.Code, table, r.Stdout, r.Stderr)
	}
	out := dir + "-salvaged"
	lost := harness.Run(t, "data", "salvage", "--data", dir, "--out", out).Must(t)
	if !strings.Contains(lost, filepath.Base(table)) {
		t.Errorf("the salvage does not say what was lost:\n%s", lost)
	}
	report := harness.Run(t, "data", "verify", "--data", out).Must(t)
	salvaged := harness.StartServer(t, harness.ServerOptions{Dir: out})
	if v := salvaged.Get(id); v.State != "success" {
		t.Errorf("the salvaged task is %s; %s", v.State, report)
	}
}

func TestDataDirectoryThatCannotBe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, "--data", file, "--listen", harness.FreeAddr(t)).Refused(t, 1, file)
}

// A server that stops while a call waits ends in time, and what it acknowledged is there afterwards.
func TestRestartKeepsEverything(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work", "--max-attempts", "7").Must(t)
	id := s.Run("schedule", "work", "--in", "1h", "--key", "k", "--payload", "p").Must(t)
	begun := time.Now()
	if code := s.Shutdown(); code != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", code)
	}
	harness.Figure(t, "server_drained_in", time.Since(begun))
	s.Start()
	if v := s.Get(id); v.State != "scheduled" || v.MaxAttempts != 7 {
		t.Errorf("after the restart: %+v", v)
	}
	if again := s.Run("schedule", "work", "--in", "1h", "--key", "k", "--payload", "p").Must(t); again != id {
		t.Errorf("the same key became %s, want %s", again, id)
	}
	s.Signal(2) // Ctrl-C
	if code := s.Wait(soon); code != 0 {
		t.Errorf("exit status %d after Ctrl-C, want 0", code)
	}
	if _, err := net.DialTimeout("tcp", s.Addr, time.Second); err == nil {
		t.Error("somebody still listens")
	}
}

// killed is a data directory of a server that was killed, with tasks in its log, each in a line of ids. It
// was idle for a moment before.
func killed(t *testing.T, tasks int) (dir string, ids []string) {
	t.Helper()
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	line := `{"lambda":"work","delay":"1h","payload_text":"` + strings.Repeat("x", 100) + "\"}\n"
	for range tasks {
		ids = append(ids, s.Feed(line, "schedule", "--batch", "-").Must(t))
	}
	const idle = time.Second // what was acknowledged is marked within 100 ms
	time.Sleep(idle)
	s.Crash()
	return s.Dir, ids
}

// known counts the tasks that a server over a directory knows, and checks that it said of a loss.
func known(t *testing.T, dir string, ids []string, args ...string) int {
	t.Helper()
	s := harness.StartServer(t, harness.ServerOptions{Dir: dir, Args: args})
	if len(args) > 0 && !strings.Contains(s.Stderr(), "acknowledged writes are lost") {
		t.Errorf("a start that accepts a loss does not say what is lost:\n%s", s.Stderr())
	}
	n := 0
	for _, id := range ids {
		if s.Run("get", id).Code == 0 {
			n++
		}
	}
	s.Crash()
	return n
}

func TestMissingLog(t *testing.T) {
	dir, ids := killed(t, 5)
	newest := find(t, filepath.Join(dir, "*.log"))
	if err := os.Remove(newest); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		serve(t, "--data", dir, "--listen", harness.FreeAddr(t)).Refused(t, 1, dir, "corrupt", filepath.Base(newest), "missing", "backup", "--accept-loss")
	}
	if r := harness.Run(t, "data", "verify", "--data", dir); r.Code != 1 || !strings.Contains(r.Stdout, filepath.Base(newest)) {
		t.Errorf("verify: exit status %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if n := known(t, dir, ids, "--accept-loss"); n != 0 {
		t.Errorf("%d tasks are known without their log", n)
	}
	known(t, dir, nil)
}

// The last group is cut off, zeroed or damaged, and nothing is behind it.
func TestDamagedTailOfTheLog(t *testing.T) {
	const tasks = 5
	for what, harm := range map[string]func([]byte) []byte{
		"cut":     func(log []byte) []byte { return log[:len(log)-50] },
		"zeroed":  func(log []byte) []byte { return append(log[:len(log)-50:len(log)-50], make([]byte, 50)...) },
		"flipped": func(log []byte) []byte { log[len(log)-50] ^= 1; return log },
	} {
		t.Run(what, func(t *testing.T) {
			dir, ids := killed(t, tasks)
			newest := find(t, filepath.Join(dir, "*.log"))
			content, err := os.ReadFile(newest)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(newest, harm(bytes.TrimRight(content, "\x00")), 0o600); err != nil {
				t.Fatal(err)
			}
			serve(t, "--data", dir, "--listen", harness.FreeAddr(t)).Refused(t, 1, dir, "corrupt", filepath.Base(newest), "lost", "--accept-loss")
			if n := known(t, dir, ids, "--accept-loss"); n < tasks-2 || n >= tasks {
				t.Errorf("%d of %d tasks are known, want all but those of the last group", n, tasks)
			}
			if n := known(t, dir, ids); n < tasks-2 {
				t.Errorf("%d of %d tasks are known after the next start", n, tasks)
			}
		})
	}
}

// A directory that is sound is said to be, after a stop and after a kill.
func TestVerifyOfASoundDirectory(t *testing.T) {
	dir, ids := killed(t, 3)
	var counts struct {
		Sound     bool
		Wrong     []string
		LiveTasks int `json:"live_tasks"`
	}
	harness.Run(t, "data", "verify", "--data", dir, "-o", "json").JSON(t, &counts)
	if !counts.Sound || len(counts.Wrong) > 0 || counts.LiveTasks != len(ids) {
		t.Errorf("%+v", counts)
	}
	if r := harness.Run(t, "data", "verify", "--data", filepath.Join(dir, "nothing")); r.Code != 1 {
		t.Errorf("of no directory: exit status %d", r.Code)
	}
	harness.Run(t, "data", "salvage", "--data", dir).Refused(t, 2, "--out")
	harness.Run(t, "data", "salvage", "--data", dir, "--out", dir).Refused(t, 1, "not empty")
}
