package inbound

import "github.com/kinesin-io/kinesin/task"

// startOf returns when a task may start next; false if it does not wait for that. The wake-up of an enqueued
// task is later: when its message counts as lost.
func startOf(t *task.Task) (from task.Instant, waits bool) {
	switch {
	case t.State == task.Enqueued, t.State == task.Scheduled && t.FirstStarted.IsZero():
		return t.Due, true
	case t.State.IsWaiting(): // it waits for the end of a snooze or backoff
		return t.Wake, true
	}
	return 0, false
}
