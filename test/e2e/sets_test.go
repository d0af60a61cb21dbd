package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A server is killed in the middle of a job: the next one goes on with it, and every task is changed.
func TestAJobGoesOnAfterAKill(t *testing.T) {
	const tasks = 20_000
	s := start(t)
	s.Run("lambda", "create", "mail").Must(t)
	s.Run("lambda", "create", "other").Must(t)
	s.Run("schedule", "other", "--in", "1h").Must(t)
	var lines strings.Builder
	for i := range tasks {
		fmt.Fprintf(&lines, "{\"lambda\":\"mail\",\"in\":\"%ds\",\"payload\":\"%d\"}\n", 3600+i, i)
	}
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Run("schedule", "--batch", file).Must(t)

	id := s.Run("cancel", "--where", "lambda=mail and state=scheduled", "--pace", "4000", "--detach").Must(t)
	type job struct {
		State    string
		Matched  int
		Outcomes map[string]int
	}
	show := func() (j job) {
		s.Run("job", "show", id, "-o", "json").JSON(t, &j)
		return j
	}
	for kills := range 2 {
		met := 0
		eventually(t, "some tasks are cancelled", func() bool { met = show().Outcomes["cancelled"]; return met > 4000*(kills+1) })
		if met == tasks {
			t.Fatal("the job was over before the server was killed")
		}
		s.Crash()
		s.Start()
	}
	eventually(t, "the job is done", func() bool { return show().State == "done" })
	var left, gone struct {
		Count int
		Exact bool
	}
	s.Run("count", "--where", "lambda=mail and state=scheduled", "-o", "json").JSON(t, &left)
	s.Run("count", "--where", "state=cancelled", "-o", "json").JSON(t, &gone)
	if left.Count != 0 || gone.Count != tasks || !gone.Exact {
		t.Errorf("%+v are left, %+v are cancelled", left, gone)
	}
	var other struct{ Count int }
	if s.Run("count", "--lambda", "other", "-o", "json").JSON(t, &other); other.Count != 1 {
		t.Errorf("%d tasks of another lambda", other.Count)
	}
}

// What somebody does with a set, by hand.
func TestSetsByHand(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "mail").Must(t)
	for i := range 5 {
		s.Run("schedule", "mail", "--in", fmt.Sprint(i+1, "h"), "--key", fmt.Sprint("k", i)).Must(t)
	}
	if list := s.Run("list", "--order", "due", "--where", "key~k and due>=+150m").Must(t); strings.Count(list, "scheduled") != 3 {
		t.Error(list)
	}
	if dry := s.Run("cancel", "--where", "due<+90m", "--dry-run").Must(t); !strings.Contains(dry, "counted") || !strings.Contains(dry, "tasks    1") {
		t.Error(dry)
	}
	if done := s.Run("cancel", "--where", "due<+90m").Must(t); !strings.Contains(done, "1 cancelled") {
		t.Error(done)
	}
	if r := s.Run("delete", "--where", "state=cancelled"); r.Code != 1 || !strings.Contains(r.Stdout, "1 in_use") || !strings.Contains(r.Stderr, "1 tasks were refused") {
		t.Error(r)
	}
	if done := s.Run("expire", "--lambda", "mail", "--all").Must(t); !strings.Contains(done, "4 expired") {
		t.Error(done)
	}
	s.Run("cancel", "--where", "state=ded").Refused(t, 1, "at character 7", "want a state")
	s.Run("cancel", "--where", "x=1").Refused(t, 1, "unknown field")
	s.Run("cancel", "--where", " ").Refused(t, 1, "without a filter")
	s.Run("job", "show", "nope").Refused(t, 1, "no such job")
	if jobs := s.Run("job", "list").Must(t); strings.Count(jobs, "done") != 3 {
		t.Error(jobs)
	}
	if stats := s.Run("stats").Must(t); !strings.Contains(stats, "mail") {
		t.Error(stats)
	}
}

// A job that moves tasks by some time is killed twice: each task moves once.
func TestAShiftGoesOnAfterKills(t *testing.T) {
	const tasks = 6000
	s := start(t)
	s.Run("lambda", "create", "mail").Must(t)
	var lines strings.Builder
	for i := range tasks {
		fmt.Fprintf(&lines, "{\"lambda\":\"mail\",\"in\":\"%ds\",\"payload\":\"%d\"}\n", 7200+i, i)
	}
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Run("schedule", "--batch", file).Must(t)
	dues := func() map[string]time.Time {
		var all []struct {
			ID  string
			Due time.Time
		}
		s.Run("list", "--limit", "0", "-o", "json").JSON(t, &all)
		due := map[string]time.Time{}
		for _, one := range all {
			due[one.ID] = one.Due
		}
		return due
	}
	before := dues()
	id := s.Run("reschedule", "--where", "lambda=mail", "--by", "30m", "--pace", "1000", "--detach").Must(t)
	var job struct {
		State    string
		Outcomes map[string]int
	}
	show := func() { s.Run("job", "show", id, "-o", "json").JSON(t, &job) }
	for kills := range 2 {
		eventually(t, "some tasks are moved", func() bool { show(); return job.Outcomes["rescheduled"] > 1000*(kills+1) })
		s.Crash()
		s.Start()
	}
	eventually(t, "the job is done", func() bool { show(); return job.State == "done" })
	after := dues()
	wrong := 0
	for id, due := range before {
		if after[id].Sub(due) != 30*time.Minute {
			wrong++
		}
	}
	if wrong > 0 || len(after) != tasks {
		t.Errorf("%d of %d tasks were not moved by half an hour", wrong, len(after))
	}
}
