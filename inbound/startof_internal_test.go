package inbound

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Tasks that wait for the end of a backoff or a snooze start at their wake-up, others when they are due.
func TestWhenATaskStartsNext(t *testing.T) {
	const due = task.Instant(1_700_000_000_000_000)
	wake, started := due.Add(time.Hour), due.Add(time.Second)
	for name, c := range map[string]struct {
		row  task.Task
		want task.Instant // 0: it does not wait
	}{
		"scheduled":        {task.Task{State: task.Scheduled, Wake: due}, due},
		"enqueued":         {task.Task{State: task.Enqueued, Wake: wake}, due},
		"in backoff":       {task.Task{State: task.RetriableFailure, Wake: wake, FirstStarted: started}, wake},
		"snoozed":          {task.Task{State: task.Scheduled, Wake: wake, FirstStarted: started}, wake},
		"enqueued again":   {task.Task{State: task.Enqueued, Wake: wake, FirstStarted: started}, due},
		"claimed":          {task.Task{State: task.Claimed, Wake: wake}, 0},
		"running":          {task.Task{State: task.Processing, Wake: wake}, 0},
		"being delivered":  {task.Task{State: task.Acquired, Wake: wake}, 0},
		"ended":            {task.Task{State: task.Dead, Wake: wake}, 0},
		"in the buffer":    {task.Task{State: task.Accepted}, 0},
		"state of no task": {task.Task{}, 0},
	} {
		c.row.Due = due
		if got, waits := startOf(&c.row); got != c.want || waits != (c.want != 0) {
			t.Errorf("%s: %d %v, want %d", name, got, waits, c.want)
		}
	}
}
