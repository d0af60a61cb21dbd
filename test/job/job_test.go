package job_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/job"
)

// run does a job whose context ends after a second, and returns its events and what it returned.
func run(t *testing.T, j job.Job, failures uint32) ([]checker.Event, error) {
	t.Helper()
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	parsed, err := job.Parse(j.Payload())
	if err != nil {
		t.Fatal(err)
	}
	returned := job.Execution{Task: "t", Attempt: 3, Failures: failures, Log: &log}.Run(ctx, parsed)
	events, err := checker.Read(&log)
	if err != nil {
		t.Fatal(err)
	}
	return events, returned
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name     string
		job      job.Job
		failures uint32
		outcome  string
		err      error
	}{
		{"success", job.Job{Millis: 10}, 0, checker.OK, nil},
		{"failure", job.Job{Do: job.Failing, Times: 2}, 1, checker.Fail, job.ErrFailed},
		{"failed often enough", job.Job{Do: job.Failing, Times: 2}, 2, checker.OK, nil},
		{"obeys", job.Job{Millis: 2000}, 0, checker.Obeyed, context.DeadlineExceeded},
		{"ignores", job.Job{Millis: 2000, Do: job.Ignoring}, 0, checker.OK, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.job.Nonce = "n"
			events, err := run(t, c.job, c.failures)
			if !errors.Is(err, c.err) {
				t.Errorf("%s: returned %v, want %v", c.name, err, c.err)
			}
			first, last := events[0], events[len(events)-1]
			if first.Kind != checker.Started || first.Nonce != "n" || first.Task != "t" || first.Attempt != 3 || first.PID == 0 {
				t.Errorf("%s: began as %+v", c.name, first)
			}
			if last.Kind != checker.Ended || last.Outcome != c.outcome {
				t.Errorf("%s: ended as %+v, want %s", c.name, last, c.outcome)
			}
		})
	}
}

func TestActsWhileItsContextLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, _ := run(t, job.Job{Nonce: "n", Millis: 5000, Do: job.Acting}, 0)
		if n := len(events); n < 100 || n > 210 {
			t.Errorf("%d events, want an effect every 5 ms of one second", n)
		}
	})
}

func TestPayloadThatIsNoJob(t *testing.T) {
	if _, err := job.Parse([]byte("{")); err == nil {
		t.Error("want an error")
	}
}
