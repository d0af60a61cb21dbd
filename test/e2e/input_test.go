package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/harness"
)

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

// A moment in the past means now.
func TestPastMeansNow(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	s.CommandWorker("--lambda", "work", "--", "true")
	for _, due := range [][]string{{"--at", "2001-01-01T00:00:00Z"}, {"--in", "0s"}, {}} {
		id := s.Run(append([]string{"schedule", "work"}, due...)...).Must(t)
		s.Run("wait", id, "--timeout", "20s").Must(t)
		if v := s.Get(id); !v.StartedWithin(soon) {
			t.Errorf("%v: due %s, started %s: want it due when it was scheduled", due, v.Due, v.Started)
		}
	}
}

// The same key is the same task; with another payload it is refused.
func TestKeyReused(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	first := s.Run("schedule", "work", "--key", "k", "--payload", "one", "--in", "1h").Must(t)
	if again := s.Run("schedule", "work", "--key", "k", "--payload", "one", "--in", "1h").Must(t); again != first {
		t.Errorf("the same again is %s, want %s", again, first)
	}
	s.Run("schedule", "work", "--key", "k", "--payload", "two", "--in", "1h").Refused(t, 1, "key", "payload")
	if v := s.Get(first); v.State != "scheduled" || v.Key != "k" {
		t.Errorf("the first one: %+v", v)
	}
}

// Ids that were never given out are unknown, however they look.
func TestForgedIDs(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	id := s.Run("schedule", "work", "--in", "1h").Must(t)
	mangled := id[:len(id)-2] + map[bool]string{true: "AA", false: "BB"}[!strings.HasSuffix(id, "AA")]
	for _, forged := range []string{mangled, id + "A", id[:len(id)-1], strings.ToUpper(id), "k1", "hello", "../../etc/passwd", "k1" + strings.Repeat("A", 10_000)} {
		for _, command := range []string{"get", "cancel", "wait"} {
			s.Run(command, forged).Refused(t, 1, "not found")
		}
	}
	if v := s.Get(id); v.State != "scheduled" {
		t.Errorf("the real one is %s", v.State)
	}
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

// In a batch bad lines are named by their number and the others go through.
func TestBatch(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work").Must(t)
	lines := []string{
		`{"lambda":"work","delay":"1h","payload_text":"text"}`,
		`{"lambda":"work","delay":"1h"`,
		`{"lambda":"nobody"}`,
		`{"lambda":"work","due":"2030-01-01T00:00:00Z","priority":"high","collection":"c","key":"k","payload":{"a":1}}`,
		`{"lambda":"work","delay":"1h","due":"2030-01-01T00:00:00Z"}`,
		`{"lambda":"work","when":"later"}`,
		`{"lambda":"work","priority":"urgent"}`,
		`{"lambda":"work","delay":"1h"}`,
	}
	r := s.Feed(strings.Join(lines, "\n")+"\n", "schedule", "--batch", "-")
	printed := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	if r.Code != 1 || len(printed) != len(lines) {
		t.Fatalf("exit status %d and %d results, want 1 and %d: %s", r.Code, len(printed), len(lines), r.Stdout)
	}
	for i, want := range []string{"k1", "line 2", "line 3", "k3", "line 5", "line 6", "line 7", "k1"} {
		if !strings.Contains(printed[i], want) {
			t.Errorf("result %d is %q, want %q in it", i+1, printed[i], want)
		}
	}
	harness.NoTrace(t, r.Stdout+r.Stderr)
	if v := s.Get(printed[3]); v.Priority != "high" || v.Collection != "c" || v.Key != "k" || !v.Due.Truncate(time.Second).Equal(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("line 4 became %+v", v)
	}
	if good := s.Feed(lines[0]+"\n\n"+lines[7], "schedule", "--batch", "-"); good.Code != 0 || strings.Count(good.Stdout, "k1") != 2 {
		t.Errorf("a good batch: %+v", good)
	}
}

// Lambdas: one that exists is refused, and a name that cannot be says what can.
func TestLambdas(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "work", "--max-attempts", "3").Must(t)
	s.Run("lambda", "create", "work", "--max-attempts", "3").Refused(t, 1, "lambda work exists already, with these settings")
	s.Run("lambda", "create", "work", "--max-attempts", "4").Refused(t, 1, "work")
	s.Run("lambda", "create", "no spaces").Refused(t, 1, "no spaces", "a-z", "64")
	s.Run("lambda", "create", "mail", "--mode", "deliver").Refused(t, 1, "deliver")
	s.Run("lambda", "get", "nobody").Refused(t, 1, "nobody")
	s.Run("lambda", "set", "work", "--max-attempts", "5").Must(t)
	s.Run("lambda", "set", "work", "--shards", "4").Must(t)
	s.Run("lambda", "set", "work", "--shards", "3").Refused(t, 1, "shards only grow", "work has 4")
	s.Run("lambda", "set", "work", "--shards", "1025").Refused(t, 2, "1 to 1024")
	var got struct {
		Name        string    `json:"name"`
		MaxAttempts int       `json:"max_attempts"`
		Shards      int       `json:"shards"`
		ShardsFrom  time.Time `json:"shards_from"`
	}
	s.Run("lambda", "get", "work", "-o", "json").JSON(t, &got)
	if wait := time.Until(got.ShardsFrom); got.Name != "work" || got.MaxAttempts != 5 || got.Shards != 4 || wait < 5*time.Minute || wait > 6*time.Minute {
		t.Errorf("lambda get printed %+v", got)
	}
	id := s.Run("schedule", "work", "--in", "1h").Must(t)
	s.Run("lambda", "delete", "work").Refused(t, 1, "live")
	if v := s.Get(id); v.State != "scheduled" {
		t.Errorf("a refused delete left the task %s", v.State)
	}
}

// A server that is not there is said so soon.
func TestNoServer(t *testing.T) {
	t.Parallel()
	addr := harness.FreeAddr(t)
	harness.Kinesin(t) // is built by the first test that needs it, which takes longer than the commands
	begun := time.Now()
	harness.Run(t, "get", "k1x", "--server", "http://"+addr).Refused(t, 1, addr)
	if took := time.Since(begun); took > soon {
		t.Errorf("it took %v to say that there is no server", took)
	}
	harness.Run(t, "get", "k1x", "--server", "ftp://nonsense").Refused(t, 2, "nonsense")
}
