package scheduler

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/lease"
	"github.com/kinesin-io/kinesin/task"
)

// at is the instant the cases of this file revolve around.
const at = task.Instant(1_700_000_000_000_000)

func TestDecide(t *testing.T) {
	const length = 15 * time.Second
	good := lease.Lease{Worker: "w", Version: 3, Length: length, Receipt: at}
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
	tired := enqueued
	tired.Enqueues = 20

	isLost := task.Event{Kind: task.WorkerLost, Worker: "w", Attempt: 2}
	isBlamed := isLost
	isBlamed.Blame = true
	unconfirmed := task.Event{Kind: task.Unconfirmed, Worker: "w", Attempt: 2}
	heard := func(receipt task.Instant) lease.Lease {
		l := good
		l.Receipt = receipt
		return l
	}
	extend := func(until task.Instant) task.Event { return task.Event{Kind: task.Extend, Until: until} }

	for _, c := range []struct {
		name  string
		task  task.Task
		c     circumstances
		event task.Event
		v     verdict
	}{
		{"no wake-up", task.Task{State: task.Scheduled}, circumstances{now: at}, task.Event{}, nothing},
		{"an end", task.Task{State: task.Success, Wake: at}, circumstances{now: at}, task.Event{}, nothing},
		{"scheduled", task.Task{State: task.Scheduled, Wake: at}, circumstances{now: at}, task.Event{Kind: task.Enqueue}, carryOut},
		{"backed off", task.Task{State: task.RetriableFailure, Wake: at}, circumstances{now: at}, task.Event{Kind: task.Enqueue}, carryOut},

		{"enqueued, young queue", enqueued, circumstances{now: at}, task.Event{Kind: task.Enqueue}, carryOut},
		{"enqueued, queue just younger than the timeout", enqueued, circumstances{now: at, queueAge: task.EnqueueTimeout - 1}, task.Event{Kind: task.Enqueue}, carryOut},
		{"enqueued, queue as old as the timeout", enqueued, circumstances{now: at, queueAge: task.EnqueueTimeout}, extend(at.Add(2 * task.EnqueueTimeout)), carryOut},
		{"enqueued, queue much older", enqueued, circumstances{now: at, queueAge: 10 * time.Minute}, extend(at.Add(20 * time.Minute)), carryOut},
		{"enqueued, queue older than the longest timeout", enqueued, circumstances{now: at, queueAge: 9 * time.Hour}, extend(at.Add(task.EnqueueTimeoutMax)), carryOut},
		{"enqueued and extended often", tired, circumstances{now: at, queueAge: task.EnqueueTimeout}, extend(at.Add(task.EnqueueTimeoutMax)), carryOut},

		{"processing, lease good", processing, circumstances{now: at, lease: good}, extend(end), carryOut},
		{"processing, lease good to the last microsecond", processing, circumstances{now: end - 1, lease: good}, extend(end), carryOut},
		{"processing, lease over", processing, circumstances{now: end, lease: good}, isLost, reclaim},
		{"processing, lease over but not for us yet", processing, circumstances{now: end, since: at + 1, lease: good}, extend(end + 1), carryOut},
		{"processing, lease over for us too", processing, circumstances{now: end + 1, since: at + 1, lease: good}, isLost, reclaim},
		{"processing, lease lost", processing, circumstances{now: at, lease: lost}, isLost, carryOut},
		{"processing bystander of a suspect", processing, circumstances{now: at, lease: accused}, isLost, carryOut},
		{"processing suspect of a lost lease", suspect, circumstances{now: at, lease: accused}, isBlamed, carryOut},
		{"processing suspect, another one accused", func() task.Task { s := suspect; s.ID = task.ID{8}; return s }(), circumstances{now: at, lease: accused}, isLost, carryOut},

		{"claimed, lease good", claimed, circumstances{now: at, lease: good}, extend(confirmBy), carryOut},
		{"claimed, a microsecond before the timeout", claimed, circumstances{now: confirmBy - 1, lease: good}, extend(confirmBy), carryOut},
		{"claimed, and nothing heard since", claimed, circumstances{now: confirmBy, lease: good}, extend(confirmBy.Add(length / lease.BeatsPerLease)), carryOut},
		{"claimed, nothing heard since, lease nearly over", claimed, circumstances{now: end - 1, lease: good}, extend(end), carryOut},
		{"claimed, heard just before the timeout", claimed, circumstances{now: confirmBy, lease: heard(confirmBy - 1)}, extend(confirmBy.Add(length / lease.BeatsPerLease)), carryOut},
		{"claimed, heard a moment ago", claimed, circumstances{now: confirmBy + 1, lease: heard(confirmBy)}, extend(confirmBy.Add(sayRunsIn)), carryOut},
		{"claimed and never confirmed", claimed, circumstances{now: confirmBy.Add(sayRunsIn), lease: heard(confirmBy)}, unconfirmed, carryOut},
		{"claimed ahead of its due time", func() task.Task { c := claimed; c.Due = at.Add(time.Second); return c }(), circumstances{now: confirmBy, lease: good}, extend(confirmBy.Add(time.Second)), carryOut},
		{"claimed before we listened", claimed, circumstances{now: confirmBy, since: at.Add(time.Second), lease: good}, extend(confirmBy.Add(time.Second)), carryOut},
		{"claimed, lease shorter than the timeout", claimed, circumstances{now: at, lease: lease.Lease{Length: 3 * time.Second, Receipt: at}}, extend(at.Add(3*time.Second + task.ClockBound)), carryOut},
		{"claimed, lease over", claimed, circumstances{now: end, lease: good}, isLost, reclaim},
		{"claimed, lease lost", claimed, circumstances{now: at, lease: lost}, isLost, carryOut},
	} {
		event, v := decide(&c.task, c.c)
		if event != c.event || v != c.v {
			t.Errorf("%s: %+v, verdict %d; want %+v, verdict %d", c.name, event, v, c.event, c.v)
		}
	}
}

// TestEveryVerdictIsAnEdge applies what decide says to what the machine can store: a refusal would
// leave the row at its wake-up for ever.
func TestEveryVerdictIsAnEdge(t *testing.T) {
	for _, s := range task.States() {
		for _, l := range []lease.Lease{{Length: time.Minute, Receipt: at}, {Length: time.Second, Receipt: at.Add(-time.Hour)}, {Lost: true}} {
			for _, age := range []time.Duration{0, time.Minute} {
				row := task.Task{ID: task.ID{1}, State: s, Seq: 4, Wake: at, Due: at, ClaimedAt: at.Add(-time.Minute), Worker: "w", Attempt: 1, Enqueues: 1}
				event, v := decide(&row, circumstances{now: at, lease: l, queueAge: age})
				if v == nothing {
					if !s.IsEnd() {
						t.Errorf("%s with a wake-up leads to nothing", s)
					}
					continue
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

// TestSayRunsInComesToAnEnd keeps the wait after a heartbeat shorter than the time to the next one, of any lease.
func TestSayRunsInComesToAnEnd(t *testing.T) {
	if beat := lease.LengthMin / lease.BeatsPerLease; sayRunsIn >= beat {
		t.Errorf("%v after a heartbeat, of which one comes every %v", sayRunsIn, beat)
	}
}
