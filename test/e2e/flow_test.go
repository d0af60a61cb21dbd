package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

const soon = 20 * time.Second

// start starts a server with flags, for a test beside others.
func start(t *testing.T, args ...string) *harness.Server {
	t.Helper()
	t.Parallel()
	return harness.StartServer(t, harness.ServerOptions{Args: args})
}

// eventually waits until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	runtest.Eventually(t, soon, what, holds)
}

// The README's first use, word by word.
func TestReadmeFlow(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "greet").Must(t)
	w := s.CommandWorker("--lambda", "greet", "--", "sh", "-c", `echo "hello $(cat), attempt $KINESIN_ATTEMPT"`)
	id := s.Run("schedule", "greet", "--in", "1s", "--payload", "Ada").Must(t)
	if !strings.HasPrefix(id, "k1") || strings.ContainsAny(id, " \n") {
		t.Errorf("schedule printed %q, want an id", id)
	}
	if got, want := s.Run("wait", id, "--timeout", "20s").Must(t), id+" success"; got != want {
		t.Errorf("wait printed %q, want %q", got, want)
	}
	if list := s.Run("list", "greet").Must(t); !strings.Contains(list, id) || !strings.Contains(list, "success") {
		t.Errorf("list printed %q", list)
	}
	v := s.Get(id)
	if v.State != "success" || v.Lambda != "greet" || len(v.Attempts) != 1 || v.Attempts[0].Outcome != "success" ||
		v.Attempts[0].Worker == "" || v.Ended.IsZero() || !v.StartedWithin(time.Minute) {
		t.Errorf("get printed %+v", v)
	}
	if text := s.Run("get", id).Must(t); !strings.Contains(text, "success") || !strings.Contains(text, "lateness") {
		t.Errorf("get printed %q", text)
	}
	s.Run("cancel", id).Refused(t, 1, "ended", "success")

	later := s.Run("schedule", "greet", "--in", "1h", "--payload", "Bob").Must(t)
	if got := s.Run("cancel", later).Must(t); got != "cancelled" {
		t.Errorf("cancel printed %q", got)
	}
	if v := s.Get(later); v.State != "cancelled" || !v.Started.IsZero() {
		t.Errorf("cancelled task: %+v", v)
	}
	w.Signal(syscall.SIGTERM)
	if code := w.Wait(soon); code != 0 {
		t.Errorf("the worker ended with %d", code)
	}
	if out := w.Stdout(); !strings.Contains(out, "hello Ada, attempt 1") {
		t.Errorf("the command's output is missing: %q", out)
	}
}

// The facts about its task that a command finds in its environment, and its payload, byte by byte.
func TestCommandGetsFactsAndPayload(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "facts", "--priorities", "urgent,calm").Must(t)
	dir := t.TempDir()
	payload := strings.Repeat("\x00\xff payload\n", 10_000)
	file := filepath.Join(dir, "payload")
	if err := os.WriteFile(file, []byte(payload), 0o600); err != nil {
		t.Fatal(err)
	}
	s.CommandWorker("--lambda", "facts", "--", "sh", "-c", `env | grep ^KINESIN_ > "$0"/env; cat > "$0"/got`, dir)
	id := s.Run("schedule", "facts", "--priority", "urgent", "--collection", "c", "--key", "k", "--payload-file", file).Must(t)
	s.Run("wait", id, "--timeout", "20s").Must(t)
	env, _ := os.ReadFile(filepath.Join(dir, "env"))
	for _, fact := range []string{"KINESIN_TASK_ID=" + id, "KINESIN_ATTEMPT=1", "KINESIN_LAMBDA=facts", "KINESIN_DUE=", "KINESIN_PRIORITY=urgent"} {
		if !strings.Contains(string(env), fact) {
			t.Errorf("no %q in the command's environment:\n%s", fact, env)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "got")); string(got) != payload {
		t.Errorf("the payload arrived as %d bytes, want %d the same", len(got), len(payload))
	}
}

// Exit statuses of a command decide what becomes of its task.
func TestCommandOutcomes(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "exits", "--max-attempts", "3", "--backoff", "10ms..50ms").Must(t)
	s.CommandWorker("--lambda", "exits", "--concurrency", "4", "--", "sh", "-c", `p=$(cat); echo "first line" >&2; echo "because of $p" >&2; exit $p`)
	ids := map[string]string{}
	for _, code := range []string{"0", "65", "1", "137"} {
		ids[code] = s.Run("schedule", "exits", "--payload", code).Must(t)
	}
	s.Run("wait", ids["0"], "--timeout", "20s").Must(t)
	for _, c := range []struct {
		code, state string
		attempts    int
	}{{"0", "success", 1}, {"65", "fatal_failure", 1}, {"1", "dead", 3}, {"137", "dead", 3}} {
		if r := s.Run("wait", ids[c.code], "--timeout", "20s"); (r.Code == 0) != (c.state == "success") {
			t.Errorf("exit status %s: wait ended with %d: %s", c.code, r.Code, r.Stderr)
		}
		v := s.Get(ids[c.code])
		if v.State != c.state || len(v.Attempts) != c.attempts {
			t.Errorf("exit status %s: %s after %d attempts, want %s after %d", c.code, v.State, len(v.Attempts), c.state, c.attempts)
			continue
		}
		if last := v.Attempts[len(v.Attempts)-1]; c.state != "success" && !strings.Contains(last.Error, "because of "+c.code) {
			t.Errorf("exit status %s: error %q lacks the end of stderr", c.code, last.Error)
		}
		if c.state == "dead" && v.Failures != 3 {
			t.Errorf("exit status %s: %d failures, want 3", c.code, v.Failures)
		}
	}
}

// The guard of a killed worker removes the outcome files of its commands.
func TestAKilledWorkerLeavesNoFiles(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "long").Must(t)
	temporary := t.TempDir()
	w := harness.Start(t, harness.Command{
		Args: []string{"worker", "--server", s.URL, "--lambda", "long", "--", "sh", "-c", `echo "{" > "$KINESIN_OUTCOME_FILE"; echo began; sleep 120`},
		Env:  []string{"TMPDIR=" + temporary},
	})
	s.Run("schedule", "long").Must(t)
	eventually(t, "the command to begin", func() bool { return strings.Contains(w.Stdout(), "began") })
	if left, err := filepath.Glob(temporary + "/*/*"); err != nil || len(left) != 1 {
		t.Errorf("%v, %v; want one file", left, err)
	}
	w.Kill()
	eventually(t, "the files to be removed", func() bool {
		left, err := os.ReadDir(temporary)
		return err == nil && len(left) == 0
	})
}

// A timeout kills the whole process group and is a failure that is tried again.
func TestTimeoutOfACommand(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "slow", "--timeout", "500ms", "--max-attempts", "2", "--backoff", "10ms..20ms").Must(t)
	pids := filepath.Join(t.TempDir(), "pids")
	s.CommandWorker("--lambda", "slow", "--", "sh", "-c", `trap "" TERM; sleep 120 & echo $! >> "$0"; echo $$ >> "$0"; while :; do wait; done`, pids)
	id := s.Run("schedule", "slow").Must(t)
	group := awaitPIDs(t, pids, 4)
	s.Run("wait", id, "--timeout", "20s")
	v := s.Get(id)
	if v.State != "dead" || v.Failures != 2 || len(v.Attempts) != 2 || !strings.Contains(v.Attempts[0].Error, "timed out") {
		t.Errorf("after two timeouts: %+v", v)
	}
	awaitGone(t, group)
}

// Health, readiness and metrics.
func TestObservability(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "seen").Must(t)
	s.CommandWorker("--lambda", "seen", "--", "true")
	id := s.Run("schedule", "seen").Must(t)
	s.Run("wait", id, "--timeout", "20s").Must(t)
	for path, want := range map[string]string{
		"/healthz": "ok", "/livez": "ok", "/readyz": "ready",
		"/metrics": `kinesin_task_lateness_seconds_count{lambda="seen",priority="normal",stage="started"} 1`,
	} {
		if status, body := s.Fetch(path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q:\n%s", path, status, want, body)
		}
	}
}

// Everything that may be wrong with one schedule: refused with what is allowed, and nothing written.
func TestBadSchedules(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 256<<10+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		code  int
		args  []string
		texts []string
	}{
		{"unknown lambda", 1, []string{"nobody"}, []string{"nobody"}},
		{"bad name", 1, []string{"no spaces"}, []string{"no spaces", "a-z"}},
		{"in that is no duration", 2, []string{"work", "--in", "soon"}, []string{"soon", "90s"}},
		{"at that is no time", 2, []string{"work", "--at", "tomorrow"}, []string{"tomorrow", "RFC 3339"}},
		{"beyond the horizon", 1, []string{"work", "--in", "200000h"}, []string{"at most 10 years"}},
		{"in and at", 2, []string{"work", "--in", "1s", "--at", "2030-01-01T00:00:00Z"}, []string{"--in", "--at"}},
		{"payload too large", 1, []string{"work", "--payload-file", big}, []string{"262145", "262144"}},
		{"payload file that is not there", 1, []string{"work", "--payload-file", big + "ger"}, []string{"bigger"}},
		{"wrong priority", 1, []string{"work", "--priority", "urgent"}, []string{"urgent", "high", "normal", "low"}},
		{"empty key", 2, []string{"work", "--key", ""}, []string{"--key"}},
		{"no lambda", 2, nil, []string{"lambda"}},
	} {
		t.Log(c.name)
		s.Run(append([]string{"schedule"}, c.args...)...).Refused(t, c.code, c.texts...)
	}
	if list := s.Run("list", "work", "-o", "json").Must(t); strings.Contains(list, `"id"`) {
		t.Errorf("something was written: %s", list)
	}
}

// Ids that were never given out are unknown, however they look.
func TestForgedIDs(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	id := s.Run("schedule", "work", "--in", "1h").Must(t)
	mangled := id[:len(id)-2] + map[bool]string{true: "AA", false: "BB"}[!strings.HasSuffix(id, "AA")]
	for _, forged := range []string{mangled, id + "A", strings.ToUpper(id), "hello", "../../etc/passwd", "k1" + strings.Repeat("A", 10_000)} {
		for _, command := range []string{"get", "cancel", "wait"} {
			s.Run(command, forged).Refused(t, 1, "not found")
		}
	}
	if v := s.Get(id); v.State != "scheduled" {
		t.Errorf("the real one is %s", v.State)
	}
	if v := s.Get(id[:20]); v.ID != id {
		t.Errorf("the first characters are of %s", v.ID)
	}
	s.Run("get", "k1").Refused(t, 1, "at least its first 10 characters")
	s.Run("get").Refused(t, 2)
}

// An id of another server's store is unknown here.
func TestIDOfAnotherServer(t *testing.T) {
	s := start(t)
	other := harness.StartServer(t, harness.ServerOptions{})
	for _, x := range []*harness.Server{s, other} {
		x.Run("lambda", "create", "work").Must(t)
	}
	id := other.Run("schedule", "work", "--in", "1h").Must(t)
	s.Run("get", id).Refused(t, 1, "not found")
}

// awaitPIDs waits until a file names so many processes.
func awaitPIDs(t *testing.T, path string, n int) []int {
	t.Helper()
	var pids []int
	eventually(t, "the commands run", func() bool {
		content, _ := os.ReadFile(path)
		pids = nil
		for field := range strings.FieldsSeq(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) >= n
	})
	return pids
}

// awaitGone waits until none of the processes runs.
func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		eventually(t, "process "+strconv.Itoa(pid)+" is gone", func() bool { return !harness.Runs(pid) })
	}
}
