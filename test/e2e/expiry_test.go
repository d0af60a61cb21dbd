package e2e_test

import (
	"strings"
	"testing"
	"time"
)

// No worker runs. A task in a queue, one with a key that is due later and one that was in no queue when the
// server was killed all end in time, and no worker that comes later gets one.
func TestTasksThatNobodyRunsExpire(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "late", "--start-within", "3s").Must(t)
	before := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
	queued := s.Run("schedule", "late").Must(t)
	own := s.Run("schedule", "late", "--key", "k", "--in", "1s", "--start-before", before(6*time.Second)).Must(t)
	s.Run("schedule", "late", "--in", "1h", "--start-before", before(time.Minute)).Refused(t, 1, "not after the due time", "could never start")
	w := s.Run("wait", queued, own, "--timeout", "20s")
	if want := queued + " expired\n" + own + " expired"; w.Code != 1 || strings.TrimSpace(w.Stdout) != want || !strings.Contains(w.Stderr, "2 of 2 tasks did not end in success") {
		t.Errorf("wait: exit status %d, printed %q, want %q; %s", w.Code, w.Stdout, want, w.Stderr)
	}

	missed := s.Run("schedule", "late", "--in", "11s", "--start-before", before(14*time.Second)).Must(t) // not near: a wake-up row alone
	s.Crash()
	time.Sleep(14 * time.Second)
	s.Start()
	s.CommandWorker("--lambda", "late", "--", "cat")
	eventually(t, "the task that was missed has ended", func() bool { return !s.Get(missed).Ended.IsZero() })
	onTime := s.Run("schedule", "late", "--payload", "on time", "--start-before", before(time.Hour)).Must(t)
	s.Run("wait", onTime, "--timeout", "20s").Must(t)
	for _, id := range []string{queued, own, missed} {
		if v := s.Get(id); v.State != "expired" || v.Attempt != 0 || !v.Started.IsZero() {
			t.Errorf("%+v, want it expired without an attempt", v)
		}
	}
	if list := s.Run("list", "late", "--state", "expired").Must(t); strings.Count(list, "expired") != 3 {
		t.Errorf("list printed %q", list)
	}
}
