package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/test/harness"
)

const (
	setTasks = 6000
	// jobPace is such that a job of all takes some seconds. Rows that are given up may stay for sweptWithin.
	jobPace     = "1500"
	sweptWithin = time.Minute
)

// killedJob is a job in the middle of which the server is killed.
type killedJob struct {
	args, where, outcome string
	// left and made are filters: of tasks as they were before the job, and as it makes them.
	left, made string
}

// The jobs change the same tasks, one after the other.
var killedJobs = []killedJob{ //nolint:gochecknoglobals // a table
	{"reschedule --spread 4h", "lambda=mail", "rescheduled", "lambda=mail and due>+5h", "state in (scheduled, enqueued) and due<=+4h and lambda=mail"},
	{"reschedule --by 30m", "lambda=mail", "rescheduled", "lambda=mail and due<+20m", "lambda=mail and state=scheduled and due<+5h"},
	{"expire", "lambda=mail", "expired", "lambda=mail and state=scheduled", "state=expired"},
	{"redrive", "state=expired", "redriven", "state=expired", "lambda=mail and state in (scheduled, enqueued)"},
	{"cancel", "lambda=mail", "cancelled", "lambda=mail and state in (scheduled, enqueued)", "state=cancelled"},
	{"delete", "state=cancelled", "deleted", "", ""},
}

// A server is killed in the middle of each job: the next one goes on with it, and every task is changed.
func TestAJobGoesOnAfterAKill(t *testing.T) {
	s := start(t)
	s.Run("lambda", "create", "other").Must(t)
	s.Run("schedule", "other", "--in", "1h").Must(t)
	scheduleMany(t, s, setTasks)
	var first struct{ Tasks []struct{ ID string } }
	s.Run("list", "mail", "--limit", "1", "-o", "json").JSON(t, &first)
	for _, j := range killedJobs {
		if j.args == "delete" { // a row is needed for a while after its first due time
			s.Shutdown()
			clock := harness.NewClock(t)
			s = harness.StartServer(t, harness.ServerOptions{Dir: s.Dir, Clock: clock})
			clock.Set(24 * time.Hour)
		}
		before := dues(t, s)
		j.run(t, s)
		switch {
		case j.args == "delete":
			s.Crash()
			s.Start() // which deletes rows at once
			runtest.Eventually(t, sweptWithin, "the rows are gone", func() bool {
				return count(t, s, "state=cancelled") == 0 && s.Run("get", first.Tasks[0].ID).Code == 1
			})
			continue
		case strings.Contains(j.args, "--by"):
			wantShift(t, before, dues(t, s), 30*time.Minute)
		}
		if left, made := count(t, s, j.left), count(t, s, j.made); left != 0 || made != setTasks {
			t.Fatalf("%s: %d tasks are as before, %d as the job makes them", j.args, left, made)
		}
	}
	if n := count(t, s, "lambda=other"); n != 1 {
		t.Errorf("%d tasks of another lambda", n)
	}
}

// run makes the job, kills the server twice while it runs, and waits for its end.
func (j *killedJob) run(t *testing.T, s *harness.Server) {
	t.Helper()
	id := s.Run(append(strings.Fields(j.args), "--where", j.where, "--pace", jobPace, "--detach")...).Must(t)
	var job struct {
		State    string
		Outcomes map[string]int
	}
	show := func() { s.Run("job", "get", id, "-o", "json").JSON(t, &job) }
	for kills := range 2 {
		eventually(t, j.args+": some tasks are changed", func() bool { show(); return job.Outcomes[j.outcome] > 1000*(kills+1) })
		if job.State != "running" {
			t.Fatalf("%s: the job is %s before the server is killed", j.args, job.State)
		}
		s.Crash()
		s.Start()
	}
	eventually(t, j.args+": the job is done", func() bool { show(); return job.State == "done" })
	for outcome, n := range job.Outcomes { // what was changed before a kill is not refused
		if outcome != j.outcome {
			t.Errorf("%s: %d tasks are %s", j.args, n, outcome)
		}
	}
}

// scheduleMany schedules tasks of the lambda mail, a second apart.
func scheduleMany(t *testing.T, s *harness.Server, tasks int) {
	t.Helper()
	s.Run("lambda", "create", "mail").Must(t)
	var lines strings.Builder
	for i := range tasks {
		fmt.Fprintf(&lines, "{\"lambda\":\"mail\",\"delay\":\"%ds\",\"payload\":%d}\n", 36_000+i, i)
	}
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Run("schedule", "--batch", file).Must(t)
}

func count(t *testing.T, s *harness.Server, filter string) int {
	t.Helper()
	var n struct {
		Count int
		Exact bool
	}
	if s.Run("count", "--where", filter, "-o", "json").JSON(t, &n); !n.Exact {
		t.Errorf("%s: %d is an estimate", filter, n.Count)
	}
	return n.Count
}

// dues returns when the tasks of the lambda mail are due.
func dues(t *testing.T, s *harness.Server) map[string]time.Time {
	t.Helper()
	var all struct{ Tasks []harness.Shown }
	s.Run("list", "mail", "--limit", "0", "-o", "json").JSON(t, &all)
	due := map[string]time.Time{}
	for _, one := range all.Tasks {
		due[one.ID] = one.Due
	}
	return due
}

func wantShift(t *testing.T, before, after map[string]time.Time, by time.Duration) {
	t.Helper()
	wrong := 0
	for id, due := range before {
		if after[id].Sub(due) != by {
			wrong++
		}
	}
	if wrong > 0 || len(after) != len(before) {
		t.Errorf("%d of %d tasks were not moved by %v", wrong, len(after), by)
	}
}
