package task_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// expiring is a path of a task that must start within ten seconds.
func expiring(t *testing.T) *path {
	t.Helper()
	p := newPath(t)
	p.StartBefore = p.Due.Add(10 * time.Second)
	return p
}

// expire lets the time come by which the task had to start.
func (p *path) expire() { p.now = p.StartBefore }

func TestATaskThatWaitsTooLongExpires(t *testing.T) {
	p := expiring(t)
	p.expire()
	p.refuse(task.Event{Kind: task.Match, Worker: "w1", Lease: lease}, task.ErrExpired)
	p.apply(task.Event{Kind: task.Enqueue}, task.Expired, task.None)
	if !p.Wake.IsZero() || p.Ended != p.now || p.ExpireAt != p.now.Add(policy.Retention) || p.Attempt != 0 {
		t.Errorf("expired: %+v", p.Task)
	}
}

func TestAMessageOfAnExpiredTaskClaimsNothing(t *testing.T) {
	p := expiring(t)
	p.enqueue()
	if p.Wake != p.StartBefore {
		t.Errorf("wakes at %v, want %v, when it expires", p.Wake, p.StartBefore)
	}
	sent := p.Task
	p.now = p.StartBefore - 1
	if _, _, err := sent.Apply(task.Event{Kind: task.Claim, Seq: sent.Seq, Worker: "w1"}, p.now, policy); err != nil {
		t.Errorf("a claim just in time: %v", err)
	}
	p.expire()
	claim := task.Event{Kind: task.Claim, Seq: p.Seq, Worker: "w1", Lease: lease}
	p.refuse(claim, task.ErrExpired)
	if _, _, err := p.Apply(claim, p.now, policy); !strings.Contains(err.Error(), "before 2023-11-14T22:14:30Z") {
		t.Errorf("refused with %q, want when it had to start", err)
	}
	p.apply(task.Event{Kind: task.Enqueue, By: "p"}, task.Expired, task.None)
	if p.Worker != "" {
		t.Errorf("an ended task names %q", p.Worker)
	}
}

// An attempt that never ran is no start.
func TestWhatComesBackUnstartedExpires(t *testing.T) {
	for name, comesBack := range map[string]func(p *path) task.Event{
		"released":    func(p *path) task.Event { e := p.finish(task.OutcomeReleased); e.Started = 0; return e },
		"unconfirmed": func(p *path) task.Event { return p.event(task.Unconfirmed) },
	} {
		p := expiring(t)
		p.enqueue()
		p.claim("w1")
		p.apply(comesBack(p), task.Enqueued, task.Send)
		p.claim("w2")
		p.expire()
		p.apply(comesBack(p), task.Expired, task.None)
		if len(p.History) != 2 {
			t.Errorf("%s: history %+v", name, p.History)
		}
	}
}

// StartBefore bounds the first start alone, also where a worker does not say when that was.
func TestWhatHasStartedGoesOn(t *testing.T) {
	for name, attempt := range map[string]func(p *path){
		"failed":   func(p *path) { p.apply(unstamped(p, task.OutcomeRetriable), task.RetriableFailure, task.None) },
		"snoozed":  func(p *path) { p.apply(unstamped(p, task.OutcomeSnoozed), task.Scheduled, task.None) },
		"lost":     func(p *path) { p.apply(p.lost(false), task.Enqueued, task.Send) },
		"released": func(p *path) { p.apply(p.finish(task.OutcomeReleased), task.Enqueued, task.Send) },
		"started": func(p *path) {
			e := p.event(task.Start)
			e.Started = 0
			p.apply(e, task.Processing, task.None)
			p.apply(unstamped(p, task.OutcomeReleased), task.Enqueued, task.Send)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := expiring(t)
			p.enqueue()
			p.claim("w1")
			attempt(p)
			p.expire()
			p.enqueue()
			p.claim("w2")
		})
	}
}

func unstamped(p *path, o task.Outcome) task.Event {
	e := p.finish(o)
	e.Started = 0
	return e
}

func TestARequestedCancelComesBeforeExpiry(t *testing.T) {
	p := expiring(t)
	p.enqueue()
	p.claim("w1")
	p.apply(task.Event{Kind: task.Cancel}, task.Claimed, task.TellWorker)
	p.expire()
	p.apply(p.event(task.Unconfirmed), task.Cancelled, task.None)
}

func TestThePoisonBound(t *testing.T) {
	for bound, wantBlamed := range map[uint32][]uint32{
		0: {0, 1}, 2: {1}, 3: {0, 1}, 5: {0, 1, 2, 3},
	} {
		p, with := newPath(t), policy
		with.PoisonBound = bound
		for n := 0; ; n++ {
			p.run("w1")
			next, _, err := p.Apply(p.lost(p.Blamed > 0), p.now, with)
			if err != nil {
				t.Fatal(err)
			}
			if p.Task = next; p.State.IsEnd() {
				break
			}
			if n >= len(wantBlamed) || p.Blamed != wantBlamed[n] {
				t.Fatalf("bound %d: blamed %d times after loss %d, want %v", bound, p.Blamed, n+1, wantBlamed)
			}
		}
		want := map[uint32]string{0: "3 attempts", 2: "2 attempts", 3: "3 attempts", 5: "5 attempts"}[bound] +
			" in a row were lost with their workers, the last one alone in its process"
		if got := p.History[len(p.History)-1].Error; p.State != task.Dead || !strings.HasSuffix(got, want) {
			t.Errorf("bound %d: %s, %q, want %q", bound, p.State, got, want)
		}
	}
}

// A task that is lost outside its quarantine is not known to be the cause.
func TestOnlyALossInQuarantineCountsAsTheLast(t *testing.T) {
	p := newPath(t)
	for range 6 {
		p.run("w1")
		p.apply(p.lost(false), task.Enqueued, task.Send)
	}
	p.run("w1")
	p.apply(p.lost(true), task.Dead, task.None)
	if got := p.History[len(p.History)-1].Error; !strings.Contains(got, ": 7 attempts in a row") {
		t.Errorf("%q", got)
	}
}

func TestASuccessHasAResult(t *testing.T) {
	p := newPath(t)
	p.run("w1")
	failed := p.finish(task.OutcomeRetriable)
	failed.Result = []byte("half")
	p.apply(failed, task.RetriableFailure, task.None)
	if p.Result != nil {
		t.Errorf("a failure has the result %q", p.Result)
	}
	p.run("w1")
	done := p.finish(task.OutcomeSuccess)
	done.Result = []byte("42")
	p.apply(done, task.Success, task.None)
	if string(p.Result) != "42" {
		t.Errorf("result %q, want 42", p.Result)
	}
}
