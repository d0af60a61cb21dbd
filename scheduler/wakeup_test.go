package scheduler

import (
	"reflect"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

// at is the instant the cases of this file revolve around.
const at = task.Instant(1_700_000_000_000_000)

func TestDecide(t *testing.T) {
	const length = 15 * time.Second
	good := lease.Lease{Worker: "w", Version: 3, Length: length, Receipt: at, Came: at}
	end := at.Add(length + task.ClockBound)
	lost := good
	lost.Lost = true
	accused := lost
	accused.Suspect = task.ID{7}

	claimed := task.Task{ID: task.ID{7}, State: task.Claimed, Wake: at, Due: at, ClaimedAt: at, Worker: "w", Attempt: 2}
	confirmBy := at.Add(task.ClaimTimeout)
	processing := claimed
	processing.State = task.Processing
	suspect := processing
	suspect.Suspect = true
	enqueued := task.Task{State: task.Enqueued, Wake: at, Enqueues: 1}
	expiring := enqueued
	expiring.StartBefore = at.Add(20 * time.Second)
	started := expiring
	started.FirstStarted = at
	tired := enqueued
	tired.Enqueues = 20

	isLost := task.Event{Kind: task.WorkerLost, Worker: "w", Attempt: 2}
	isBlamed := isLost
	isBlamed.Blame = true
	unconfirmed := task.Event{Kind: task.Unconfirmed, Worker: "w", Attempt: 2}
	heard := func(receipt task.Instant) lease.Lease {
		l := good
		l.Receipt, l.Came = receipt, receipt
		return l
	}
	act := func(kind task.EventKind) decision { return decision{action: apply, event: task.Event{Kind: kind}} }
	do := func(event task.Event) decision { return decision{action: apply, event: event} }
	take := func(event task.Event) decision { return decision{action: markLost, event: event} }
	again := func(until task.Instant) decision { return decision{action: checkLater, until: until} }
	follow := func(until task.Instant) decision { return decision{action: checkLease, until: until} }

	for _, c := range []struct {
		name string
		task task.Task
		c    facts
		want decision
	}{
		{"no wake-up", task.Task{State: task.Scheduled}, facts{now: at}, decision{}},
		{"an end", task.Task{State: task.Success, Wake: at}, facts{now: at}, decision{}},
		{"scheduled", task.Task{State: task.Scheduled, Wake: at}, facts{now: at}, act(task.Enqueue)},
		{"backed off", task.Task{State: task.RetriableFailure, Wake: at}, facts{now: at}, act(task.Enqueue)},

		{"enqueued, young queue", enqueued, facts{now: at}, act(task.Enqueue)},
		{"enqueued, queue younger than its message would be", enqueued, facts{now: at, queueAge: task.EnqueueTimeout - sentWithin - 1}, act(task.Enqueue)},
		{"enqueued, its message was sent a moment after it", enqueued, facts{now: at, queueAge: task.EnqueueTimeout - sentWithin}, again(at.Add(2 * task.EnqueueTimeout))},
		{"enqueued, queue as old as the timeout", enqueued, facts{now: at, queueAge: task.EnqueueTimeout}, again(at.Add(2 * task.EnqueueTimeout))},
		{"enqueued, queue much older", enqueued, facts{now: at, queueAge: 10 * time.Minute}, again(at.Add(20 * time.Minute))},
		{"enqueued, queue older than the longest timeout", enqueued, facts{now: at, queueAge: 9 * time.Hour}, again(at.Add(task.EnqueueTimeoutMax))},
		{"enqueued, queue older than the timeout, expires before the next look", expiring, facts{now: at, queueAge: task.EnqueueTimeout}, again(expiring.StartBefore)},
		{"enqueued and expired, queue older than the timeout", expiring, facts{now: expiring.StartBefore, queueAge: time.Minute}, act(task.Enqueue)},
		{"enqueued again, started before", started, facts{now: expiring.StartBefore, queueAge: time.Minute}, again(expiring.StartBefore.Add(2 * time.Minute))},
		{"enqueued and extended often", tired, facts{now: at, queueAge: task.EnqueueTimeout}, again(at.Add(task.EnqueueTimeoutMax))},

		{"processing, lease good", processing, facts{now: at, lease: good}, follow(end)},
		{"processing, lease good to the last microsecond", processing, facts{now: end - 1, lease: good}, follow(end)},
		{"processing, lease over", processing, facts{now: end, lease: good}, take(isLost)},
		{"processing, lease over but not for us yet", processing, facts{now: end, since: at + 1, lease: good}, follow(end + 1)},
		{"processing, lease over for us too", processing, facts{now: end + 1, since: at + 1, lease: good}, take(isLost)},
		{"processing, lease lost", processing, facts{now: at, lease: lost}, do(isLost)},
		{"processing bystander of a suspect", processing, facts{now: at, lease: accused}, do(isLost)},
		{"processing suspect of a lost lease", suspect, facts{now: at, lease: accused}, do(isBlamed)},
		{"processing suspect, another one accused", func() task.Task { s := suspect; s.ID = task.ID{8}; return s }(), facts{now: at, lease: accused}, do(isLost)},

		{"claimed, lease good", claimed, facts{now: at, lease: good}, again(confirmBy)},
		{"claimed, a microsecond before the timeout", claimed, facts{now: confirmBy - 1, lease: good}, again(confirmBy)},
		{"claimed, and nothing heard since", claimed, facts{now: confirmBy, lease: good}, again(confirmBy.Add(length / lease.BeatsPerLease))},
		{"claimed, nothing heard since, lease nearly over", claimed, facts{now: end - 1, lease: good}, again(end)},
		{"claimed, heard just before the timeout", claimed, facts{now: confirmBy, lease: heard(confirmBy - 1)}, again(confirmBy.Add(length / lease.BeatsPerLease))},
		{"claimed, heard of an old heartbeat", claimed, facts{now: confirmBy.Add(reportTime), lease: lease.Lease{Length: length, Receipt: confirmBy, Came: confirmBy - 1}}, again(confirmBy.Add(reportTime + length/lease.BeatsPerLease))},
		{"claimed, heard a moment ago", claimed, facts{now: confirmBy + 1, lease: heard(confirmBy)}, again(confirmBy.Add(reportTime))},
		{"claimed and never confirmed", claimed, facts{now: confirmBy.Add(reportTime), lease: heard(confirmBy)}, do(unconfirmed)},
		{"claimed ahead of its due time", func() task.Task { c := claimed; c.Due = at.Add(time.Second); return c }(), facts{now: confirmBy, lease: good}, again(confirmBy.Add(time.Second))},
		{"claimed before we listened", claimed, facts{now: confirmBy, since: at.Add(time.Second), lease: good}, again(confirmBy.Add(time.Second))},
		{"claimed, lease shorter than the timeout", claimed, facts{now: at, lease: lease.Lease{Length: 3 * time.Second, Receipt: at}}, again(at.Add(3*time.Second + task.ClockBound))},
		{"claimed, lease over", claimed, facts{now: end, lease: good}, take(isLost)},
		{"claimed, lease lost", claimed, facts{now: at, lease: lost}, do(isLost)},
	} {
		if got := decide(&c.task, c.c); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestEveryDecisionIsAnEdge applies what decide says to what the machine can store: a refusal would
// leave the row at its wake-up for ever.
func TestEveryDecisionIsAnEdge(t *testing.T) {
	for _, s := range task.States() {
		for _, l := range []lease.Lease{{Length: time.Minute, Receipt: at}, {Length: time.Second, Receipt: at.Add(-time.Hour)}, {Lost: true}} {
			for _, age := range []time.Duration{0, time.Minute} {
				row := task.Task{ID: task.ID{1}, State: s, Seq: 4, Wake: at, Due: at, ClaimedAt: at.Add(-time.Minute), Worker: "w", Attempt: 1, Enqueues: 1}
				d := decide(&row, facts{now: at, lease: l, queueAge: age})
				event := d.event
				switch d.action {
				case nothing:
					if !s.IsEnd() && s != task.Acquired { // in those no managed task waits for anything
						t.Errorf("%s with a wake-up leads to nothing", s)
					}
					continue
				case checkLater, checkLease:
					if d.until <= at {
						t.Errorf("%s is looked at again at %d, which is not later than now", s, d.until)
					}
					continue
				case apply, markLost:
				}
				next, _, err := row.Apply(event, at, task.Policy{MaxAttempts: 3})
				if err != nil {
					t.Errorf("%s: %s: %v", s, event.Kind, err)
				} else if !next.State.IsEnd() && next.Wake <= at {
					t.Errorf("%s: %s leaves the wake-up at %d, which is not later than now", s, event.Kind, next.Wake)
				}
			}
		}
	}
}

// TestReportTimeComesToAnEnd keeps the wait after a heartbeat shorter than the time to the next one, of any
// lease.
func TestReportTimeComesToAnEnd(t *testing.T) {
	if beat := lease.LengthMin / lease.BeatsPerLease; reportTime >= beat {
		t.Errorf("%v after a heartbeat, of which one comes every %v", reportTime, beat)
	}
}
