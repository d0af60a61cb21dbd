package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

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
