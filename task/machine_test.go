package task_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/task"
)

const (
	start = task.Instant(1_700_000_000_000_000)
	lease = 15 * time.Second
)

var policy = task.Policy{
	MaxAttempts: 3, Timeout: time.Minute, BackoffMin: time.Second, BackoffMax: time.Minute, Retention: 24 * time.Hour,
}

// scheduled is a new task that is due in a minute.
func scheduled() task.Task {
	due := start.Add(time.Minute)
	return task.Task{
		ID: task.ID{1}, Partition: task.Partition{Lambda: 1}, State: task.Scheduled, Seq: 1,
		Due: due, Created: start, Wake: due, WakeRow: task.WakeRow{At: due, Seq: 1}, Payload: []byte("payload"), PayloadSize: 7,
	}
}

// path is a task on its way. Each step applies one event one second after the last.
type path struct {
	*testing.T
	task.Task
	now task.Instant
}

func newPath(t *testing.T) *path {
	t.Helper()
	return &path{T: t, Task: scheduled(), now: start.Add(time.Minute)}
}

// apply applies e, which must lead to want.
func (p *path) apply(e task.Event, want task.State, effect task.Effect) {
	p.Helper()
	p.now = p.now.Add(time.Second)
	next, got, err := p.Apply(e, p.now, policy)
	if err != nil {
		p.Fatalf("%s while %s: %v", e.Kind, p.State, err)
	}
	if next.State != want || got != effect {
		p.Fatalf("%s while %s leads to %s with effect %d, want %s with effect %d", e.Kind, p.State, next.State, got, want, effect)
	}
	p.Task = next
}

// refuse applies e, which must be refused with want.
func (p *path) refuse(e task.Event, want error) {
	p.Helper()
	if _, _, err := p.Apply(e, p.now, policy); !errors.Is(err, want) {
		p.Fatalf("%s while %s: %v, want %v", e.Kind, p.State, err, want)
	}
}

func (p *path) enqueue() {
	p.Helper()
	p.apply(task.Event{Kind: task.Enqueue}, task.Enqueued, task.Send)
}

func (p *path) claim(worker string) {
	p.Helper()
	p.apply(task.Event{Kind: task.Claim, Seq: p.Seq, Worker: worker, Lease: lease}, task.Claimed, task.None)
}

// run brings a task that waits to its next attempt on a worker.
func (p *path) run(worker string) {
	p.Helper()
	if p.State != task.Enqueued {
		p.enqueue()
	}
	p.claim(worker)
	p.apply(p.event(task.Start), task.Processing, task.None)
}

// event is an event of the attempt that owns the task.
func (p *path) event(kind task.EventKind) task.Event {
	return task.Event{Kind: kind, Worker: p.Worker, Attempt: p.Attempt, Started: p.now}
}

func (p *path) finish(o task.Outcome) task.Event {
	e := p.event(task.Finish)
	e.Outcome = o
	return e
}

func (p *path) lost(blame bool) task.Event {
	e := p.event(task.WorkerLost)
	e.Blame = blame
	return e
}

func TestMatched(t *testing.T) {
	p := newPath(t)
	seq := p.Seq
	p.apply(task.Event{Kind: task.Match, Worker: "w1", Lease: lease}, task.Claimed, task.None)
	if p.Seq != seq+1 || p.Attempt != 1 || p.Worker != "w1" || p.Enqueues != 0 || p.ClaimedAt != p.now || p.Enqueued != p.now {
		t.Errorf("matched: %+v", p.Task)
	}
	if want := p.now.Add(task.EnqueueTimeout); p.Wake != want {
		t.Errorf("wake-up %v after the match, want %v", p.Wake.Sub(p.now), task.EnqueueTimeout)
	}
	p.refuse(task.Event{Kind: task.Match, Worker: "w2", Lease: lease}, task.ErrNoEdge)
	p.apply(p.finish(task.OutcomeRetriable), task.RetriableFailure, task.None)
	p.apply(task.Event{Kind: task.Match, Worker: "w2", Lease: 3 * time.Second}, task.Claimed, task.None)
	if want := p.now.Add(3*time.Second + task.ClockBound); p.Attempt != 2 || p.Wake != want {
		t.Errorf("matched again: attempt %d, wake-up after %v", p.Attempt, p.Wake.Sub(p.now))
	}
	p.apply(p.finish(task.OutcomeReleased), task.Enqueued, task.Send)
	p.refuse(task.Event{Kind: task.Match, Worker: "w1", Lease: lease}, task.ErrNoEdge) // its message is on its way
	p.Task = scheduled()
	p.Suspect = true
	p.refuse(task.Event{Kind: task.Match, Worker: "w1", Lease: lease}, task.ErrNoEdge)
}

func TestFromScheduleToSuccess(t *testing.T) {
	p := newPath(t)
	p.enqueue()
	if want := p.now.Add(task.EnqueueTimeout); p.Wake != want {
		t.Errorf("wake-up %v after the enqueue, want %v", p.Wake.Sub(p.now), task.EnqueueTimeout)
	}
	p.claim("w1")
	if p.Attempt != 1 || p.Worker != "w1" || p.Enqueues != 0 || p.ClaimedAt != p.now {
		t.Errorf("claimed: %+v", p.Task)
	}
	p.apply(p.event(task.Start), task.Processing, task.None)
	started := p.Started
	p.apply(task.Event{Kind: task.Finish, Worker: "w1", Attempt: 1, Outcome: task.OutcomeSuccess}, task.Success, task.None)
	if p.Started != started || p.FirstStarted != started || p.Ended != p.now || !p.Wake.IsZero() {
		t.Errorf("ended: %+v", p.Task)
	}
	if p.ExpireAt != p.now.Add(policy.Retention) {
		t.Errorf("expires %v after its end", p.ExpireAt.Sub(p.now))
	}
	want := task.Attempt{Number: 1, Worker: "w1", Start: started, End: p.now, Outcome: task.OutcomeSuccess}
	if len(p.History) != 1 || p.History[0] != want {
		t.Errorf("history %+v, want %+v", p.History, want)
	}
}

func TestAShortTaskNeedsNoStart(t *testing.T) {
	p := newPath(t)
	p.enqueue()
	p.claim("w1")
	p.apply(p.finish(task.OutcomeSuccess), task.Success, task.None)
	if p.Started.IsZero() || p.FirstStarted != p.Started {
		t.Error("the start that came with the end is lost")
	}
}

func TestSentAheadTheTimeoutCountsFromTheDueTime(t *testing.T) {
	next, _, err := scheduled().Apply(task.Event{Kind: task.Enqueue}, start, policy)
	if err != nil || next.Wake != next.Due.Add(task.EnqueueTimeout) {
		t.Errorf("wake-up %v after the due time (%v)", next.Wake.Sub(next.Due), err)
	}
	next, _, err = next.Apply(task.Event{Kind: task.Claim, Seq: next.Seq, Worker: "w", Lease: time.Second}, start, policy)
	if err != nil || next.Wake != next.Due.Add(time.Second+task.ClockBound) {
		t.Errorf("claimed ahead, wake-up %v after the due time (%v)", next.Wake.Sub(next.Due), err)
	}
}

func TestRetriesUntilDead(t *testing.T) {
	p := newPath(t)
	for n := uint32(1); n < policy.MaxAttempts; n++ {
		p.run("w1")
		p.apply(p.finish(task.OutcomeRetriable), task.RetriableFailure, task.None)
		if wait := p.Wake.Sub(p.now); p.Failures != n || p.Worker != "" || wait < policy.BackoffMin {
			t.Errorf("after failure %d: %d counted, worker %q, next in %v", n, p.Failures, p.Worker, wait)
		}
	}
	p.run("w1")
	p.apply(p.finish(task.OutcomeRetriable), task.Dead, task.None)
	if p.ExpireAt != p.now.Add(task.DeadRetention) {
		t.Errorf("a dead letter is kept for %v", p.ExpireAt.Sub(p.now))
	}
	p.refuse(task.Event{Kind: task.Enqueue}, task.ErrEnded)
}

func TestTheFirstRetryIsJittered(t *testing.T) {
	p := newPath(t)
	p.run("w1")
	e := p.finish(task.OutcomeRetriable)
	e.Jitter = 1 << 63
	p.apply(e, task.RetriableFailure, task.None)
	if wait := p.Wake.Sub(p.now); wait != 1500*time.Millisecond {
		t.Errorf("half way through the jitter the wait is %v, want 1.5s", wait)
	}
}

func TestFatal(t *testing.T) {
	p := newPath(t)
	p.run("w1")
	p.apply(p.finish(task.OutcomeFatal), task.FatalFailure, task.None)
	if p.Failures != 0 {
		t.Error("a fatal failure counts as a try that may be repeated")
	}
}

func TestSnoozeAndReleaseChargeNothing(t *testing.T) {
	p := newPath(t)
	p.run("w1")
	snooze := p.finish(task.OutcomeSnoozed)
	snooze.Delay = time.Hour
	p.apply(snooze, task.Scheduled, task.None)
	if p.Wake != p.now.Add(time.Hour) {
		t.Errorf("snoozed for %v", p.Wake.Sub(p.now))
	}
	p.run("w1")
	snooze = p.finish(task.OutcomeSnoozed)
	snooze.Delay = -time.Hour
	p.apply(snooze, task.Scheduled, task.None)
	if p.Wake != p.now {
		t.Error("snoozed into the past")
	}
	p.run("w1")
	p.apply(p.finish(task.OutcomeReleased), task.Enqueued, task.Send)
	p.claim("w2")
	if p.Failures != 0 || p.Attempt != 4 {
		t.Errorf("%d failures at attempt %d, want 0 at 4", p.Failures, p.Attempt)
	}
}

func TestTheEnqueueBrake(t *testing.T) {
	p := newPath(t)
	p.enqueue()
	for want := 2 * task.EnqueueTimeout; ; want *= 2 {
		p.enqueue()
		got := p.Wake.Sub(p.now)
		if got != min(want, task.EnqueueTimeoutMax) {
			t.Fatalf("sent %d times: next look in %v, want %v", p.Enqueues, got, want)
		}
		if got == task.EnqueueTimeoutMax {
			break
		}
	}
	p.claim("w1")
	p.apply(p.finish(task.OutcomeReleased), task.Enqueued, task.Send)
	if p.Wake != p.now.Add(task.EnqueueTimeout) {
		t.Error("the claim did not end the brake")
	}
}

func TestAStaleMessageClaimsNothing(t *testing.T) {
	p := newPath(t)
	p.enqueue()
	stale := p.Seq
	p.enqueue()
	p.refuse(task.Event{Kind: task.Claim, Seq: stale, Worker: "w1"}, task.ErrStale)
	message := p.Seq
	p.claim("w1")
	p.refuse(task.Event{Kind: task.Claim, Seq: message, Worker: "w2"}, task.ErrStale)
}

func TestAClaimFindsALostWorkerInTime(t *testing.T) {
	p := newPath(t)
	for range 10 { // each of which doubles the time until it is sent again
		p.enqueue()
	}
	p.claim("w1")
	if want := p.now.Add(lease + task.ClockBound); p.Wake != want {
		t.Errorf("wake-up %v after the claim, want %v", p.Wake.Sub(p.now), lease+task.ClockBound)
	}
	p = newPath(t)
	p.enqueue()
	before := p.Wake
	p.claim("w1")
	if p.Wake != before {
		t.Error("the claim moved a wake-up that was early enough")
	}
}

func TestOldAttemptsAreFenced(t *testing.T) {
	p := newPath(t)
	p.run("w1")
	old := p.finish(task.OutcomeSuccess)
	oldLost := p.lost(false)
	p.apply(p.lost(false), task.Enqueued, task.Send)
	p.refuse(old, task.ErrFenced)
	p.run("w2")
	p.refuse(old, task.ErrFenced)
	p.refuse(oldLost, task.ErrFenced)
	impostor := p.finish(task.OutcomeSuccess)
	impostor.Worker = "w1"
	p.refuse(impostor, task.ErrFenced)
	p.refuse(p.event(task.Start), task.ErrNoEdge)
	p.refuse(task.Event{Kind: task.Enqueue}, task.ErrNoEdge)
	p.apply(p.finish(task.OutcomeSuccess), task.Success, task.None)
	p.refuse(p.finish(task.OutcomeSuccess), task.ErrEnded)
}

func TestAnUnconfirmedClaimGoesBack(t *testing.T) {
	p := newPath(t)
	p.enqueue()
	p.claim("w1")
	e := p.event(task.Unconfirmed)
	p.apply(e, task.Enqueued, task.Send)
	if p.Failures != 0 || p.Lost != 0 || p.Suspect {
		t.Errorf("charged: %+v", p.Task)
	}
	p.run("w1")
	p.refuse(p.event(task.Unconfirmed), task.ErrNoEdge)
}

func TestPoisonIsDeadWhenItWasInQuarantine(t *testing.T) {
	p := newPath(t)
	p.run("w1")
	p.apply(p.lost(true), task.Enqueued, task.Send) // under no suspicion: blaming it would be a mistake
	if !p.Suspect || p.Blamed != 0 || p.Lost != 1 {
		t.Errorf("after the first loss: suspect %v, blamed %d, lost %d", p.Suspect, p.Blamed, p.Lost)
	}
	p.run("w2")
	p.apply(p.lost(false), task.Enqueued, task.Send) // beside others: it has to run apart
	if p.Blamed != 1 {
		t.Errorf("blamed %d times, want 1", p.Blamed)
	}
	p.run("w3")
	p.apply(p.lost(false), task.Enqueued, task.Send) // not in quarantine any more
	if p.Blamed != 2 || p.Quarantine() != 2*task.QuarantineMin {
		t.Errorf("blamed %d times, with a quarantine of %v next, want 2 and %v", p.Blamed, p.Quarantine(), 2*task.QuarantineMin)
	}
	p.run("w4")
	p.apply(p.lost(true), task.Dead, task.None)
	if p.Failures != 0 || p.Lost != 4 {
		t.Errorf("%d failures and %d losses, want 0 and 4", p.Failures, p.Lost)
	}
}

func TestAnEndedAttemptClearsTheSuspicion(t *testing.T) {
	for o, clears := range map[task.Outcome]bool{
		task.OutcomeSuccess: true, task.OutcomeFatal: true, task.OutcomeRetriable: true, task.OutcomeSnoozed: true,
		task.OutcomeReleased: false,
	} {
		p := newPath(t)
		p.run("w1")
		p.apply(p.lost(false), task.Enqueued, task.Send)
		p.run("w2")
		p.apply(p.lost(true), task.Enqueued, task.Send)
		p.run("w3")
		next, _, err := p.Apply(p.finish(o), p.now, policy)
		if err != nil {
			t.Fatal(err)
		}
		if cleared := !next.Suspect && next.Blamed == 0; cleared != clears || next.Lost != 2 {
			t.Errorf("%s: cleared %v, lost %d; want %v, 2", o, cleared, next.Lost, clears)
		}
	}
}

func TestCancel(t *testing.T) {
	cancel := task.Event{Kind: task.Cancel}
	p := newPath(t)
	p.apply(cancel, task.Cancelled, task.None)

	p = newPath(t)
	p.enqueue()
	message := p.Seq
	p.apply(cancel, task.Cancelled, task.None)
	p.refuse(task.Event{Kind: task.Claim, Seq: message, Worker: "w1"}, task.ErrEnded)

	for o, want := range map[task.Outcome]task.State{
		task.OutcomeSuccess: task.Success, task.OutcomeFatal: task.FatalFailure, task.OutcomeCancelled: task.Cancelled,
		task.OutcomeRetriable: task.Cancelled, task.OutcomeSnoozed: task.Cancelled, task.OutcomeReleased: task.Cancelled,
	} {
		p = newPath(t)
		p.run("w1")
		p.apply(cancel, task.Processing, task.TellWorker)
		p.apply(cancel, task.Processing, task.TellWorker)
		p.apply(p.finish(o), want, task.None)
	}

	p = newPath(t)
	p.Failures = policy.MaxAttempts - 1
	p.run("w1")
	p.apply(cancel, task.Processing, task.TellWorker)
	p.apply(p.finish(task.OutcomeRetriable), task.Cancelled, task.None) // no dead letter of what nobody wants

	p = newPath(t)
	p.run("w1")
	p.apply(cancel, task.Processing, task.TellWorker)
	p.apply(p.lost(false), task.Cancelled, task.None)
}

func TestDropBeforeAnAttempt(t *testing.T) {
	for kind, want := range map[task.EventKind]task.State{task.Drop: task.Dropped} {
		p := newPath(t)
		p.apply(task.Event{Kind: kind}, want, task.None)
		p = newPath(t)
		p.enqueue()
		p.apply(task.Event{Kind: kind}, want, task.None)
		p = newPath(t)
		p.run("w1")
		p.refuse(task.Event{Kind: kind}, task.ErrNoEdge)
		p.apply(p.finish(task.OutcomeRetriable), task.RetriableFailure, task.None)
		p.apply(task.Event{Kind: kind}, want, task.None)
	}
}

func TestWhatAWorkerCannotReport(t *testing.T) {
	p := newPath(t)
	p.run("w1")
	for _, o := range []task.Outcome{task.OutcomeUnknown, task.OutcomeWorkerLost, task.OutcomeUnstarted, task.OutcomeDropped, 99} {
		p.refuse(p.finish(o), task.ErrNoEdge)
	}
	p.refuse(task.Event{}, task.ErrNoEdge)
	p.refuse(task.Event{Kind: 99}, task.ErrNoEdge)
	if _, _, err := (task.Task{}).Apply(task.Event{Kind: task.Enqueue}, start, policy); !errors.Is(err, task.ErrNoEdge) {
		t.Errorf("a task of no state was enqueued: %v", err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	p := newPath(t)
	for range task.HistoryMax + 5 {
		p.run("w1")
		e := p.finish(task.OutcomeReleased)
		e.Error = strings.Repeat("ä", task.ErrorBytesMax)
		p.apply(e, task.Enqueued, task.Send)
	}
	if n := len(p.History); n != task.HistoryMax {
		t.Fatalf("%d attempts are remembered, want %d", n, task.HistoryMax)
	}
	for i, a := range p.History {
		if a.Number != uint32(i+6) {
			t.Errorf("place %d has attempt %d: want the latest, oldest first", i, a.Number)
		}
		if len(a.Error) > task.ErrorBytesMax || !utf8.ValidString(a.Error) {
			t.Errorf("error text of %d bytes, valid %v", len(a.Error), utf8.ValidString(a.Error))
		}
	}
}

// An error text is kept whole, or with its beginning and its end, as valid UTF-8.
func TestErrorTextsKeepTheirEnd(t *testing.T) {
	tail := strings.Repeat("0123456789abcde\n", 64)
	for text, want := range map[string]string{
		"":                             "",
		"exit 4":                       "exit 4",
		"a\xffb":                       "ab",
		strings.Repeat("h", 64) + tail: strings.Repeat("h", 64) + tail,
		"signal: killed: " + strings.Repeat("x", 2000) + tail: "signal: killed: " + strings.Repeat("x", 45) + "…" + tail,
		strings.Repeat("ä", 2000):                             strings.Repeat("ä", 30) + "…" + strings.Repeat("ä", 512),
		"a" + strings.Repeat("ä", 2000) + "b":                 "a" + strings.Repeat("ä", 30) + "…" + strings.Repeat("ä", 511) + "b",
	} {
		if got := task.ErrorText(text); got != want || len(got) > task.ErrorBytesMax {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	p := newPath(t)
	p.run("w1")
	e := p.finish(task.OutcomeReleased)
	e.Error = "exit status 4: " + strings.Repeat("x", 5000) + "the cause"
	p.apply(e, task.Enqueued, task.Send)
	if got := p.History[0].Error; !strings.HasPrefix(got, "exit status 4: x") || !strings.HasSuffix(got, "xthe cause") {
		t.Errorf("kept %q", got)
	}
}

// TestTheEnqueuerIsNamed checks that an enqueued task names the process that enqueued it, as long as it is in
// the queue.
func TestTheEnqueuerIsNamed(t *testing.T) {
	p := newPath(t)
	p.apply(task.Event{Kind: task.Enqueue, By: "p1"}, task.Enqueued, task.Send)
	if p.Worker != "p1" {
		t.Errorf("in the queue it names %q, want p1", p.Worker)
	}
	p.apply(task.Event{Kind: task.Enqueue, By: "p2"}, task.Enqueued, task.Send)
	if p.Worker != "p2" {
		t.Errorf("enqueued again it names %q, want p2", p.Worker)
	}
	p.claim("w1")
	p.apply(p.finish(task.OutcomeReleased), task.Enqueued, task.Send)
	if p.Worker != "" || p.WakeRow != (task.WakeRow{At: p.Due, Seq: 1}) {
		t.Errorf("released it names %q, its wake-up row is at %+v", p.Worker, p.WakeRow)
	}
}

func TestDeliver(t *testing.T) {
	p := newPath(t)
	p.refuse(task.Event{Kind: task.Acquire}, task.ErrNoEdge)
	p.refuse(task.Event{Kind: task.HandOver}, task.ErrNoEdge)
	wake := p.Wake
	p.apply(task.Event{Kind: task.Acquire, Worker: "p1"}, task.Acquired, task.Send)
	if p.Worker != "p1" || p.ClaimedAt != p.now || p.Wake != wake {
		t.Errorf("acquired: %+v", p.Task)
	}
	p.refuse(task.Event{Kind: task.Cancel}, task.ErrNoEdge)
	p.refuse(task.Event{Kind: task.Enqueue}, task.ErrNoEdge)
	p.apply(task.Event{Kind: task.Acquire, Worker: "p2"}, task.Acquired, task.Send)
	if p.Worker != "p2" || p.Enqueues != 2 {
		t.Errorf("acquired again: %+v", p.Task)
	}
	p.apply(task.Event{Kind: task.HandOver}, task.Delivered, task.None)
	if p.Ended != p.now || p.Wake != 0 || p.ExpireAt != p.now.Add(policy.Retention) || p.Attempt != 0 {
		t.Errorf("delivered: %+v", p.Task)
	}
}

// TestTombstonesLast checks how long an ended row is kept: longer than two full scans are apart, and counted
// from the due time if that is still to come, since until then a wake-up row of the task may come to light.
func TestTombstonesLast(t *testing.T) {
	const now = task.Instant(1_700_000_000_000_000)
	waiting := task.Task{ID: task.ID{1}, State: task.Scheduled, Seq: 1, Due: now.Add(time.Hour), Wake: now.Add(time.Hour)}
	for _, c := range []struct {
		at   task.Instant
		kept time.Duration
		want task.Instant
	}{
		{now, time.Second, waiting.Due.Add(task.EndedMin)},
		{now, 2 * time.Hour, waiting.Due.Add(2 * time.Hour)},
		{waiting.Due.Add(time.Minute), time.Second, waiting.Due.Add(time.Minute + task.EndedMin)},
	} {
		ended, _, err := waiting.Apply(task.Event{Kind: task.Cancel}, c.at, task.Policy{Retention: c.kept})
		if err != nil || ended.ExpireAt != c.want {
			t.Errorf("cancelled at %d, kept for %v: expires at %d, want %d (%v)", c.at, c.kept, ended.ExpireAt, c.want, err)
		}
	}
	sooner, _, err := waiting.Apply(task.Event{Kind: task.Reschedule, Due: now}, now, task.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if ended, _, err := sooner.Apply(task.Event{Kind: task.Cancel}, now, task.Policy{}); err != nil || ended.ExpireAt != waiting.Due.Add(task.EndedMin) {
		t.Errorf("of a task that was moved to an earlier time it expires at %d, before a wake-up row of the first time may come to light (%v)", ended.ExpireAt, err)
	}
}
