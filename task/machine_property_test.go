package task_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

// fitting are the kinds that a task in a state is made for; drawn more often, they lead deeper.
var fitting = map[task.State][]task.EventKind{
	task.Scheduled:        {task.Enqueue, task.Match, task.Acquire},
	task.Acquired:         {task.Acquire, task.HandOver},
	task.Enqueued:         {task.Claim, task.Claim, task.Enqueue},
	task.Claimed:          {task.Start, task.Finish, task.WorkerLost, task.Unconfirmed},
	task.Processing:       {task.Finish, task.WorkerLost},
	task.RetriableFailure: {task.Enqueue, task.Match},
}

func anyKind(t *rapid.T, s task.State) task.EventKind {
	if kinds := fitting[s]; kinds != nil && rapid.IntRange(0, 3).Draw(t, "fits") > 0 {
		return rapid.SampledFrom(kinds).Draw(t, "kind")
	}
	return task.EventKind(rapid.IntRange(0, 15).Draw(t, "any kind"))
}

// anyEvent draws an event that often, but not always, fits the task.
func anyEvent(t *rapid.T, now task.Task, at task.Instant) task.Event {
	worker := rapid.SampledFrom([]string{now.Worker, now.Worker, now.Worker, "w1", "w2", ""})
	off := rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1})
	return task.Event{
		Kind:    anyKind(t, now.State),
		Seq:     now.Seq + uint64(off.Draw(t, "seq")),
		Worker:  worker.Draw(t, "worker"),
		Attempt: now.Attempt + uint32(off.Draw(t, "attempt")),
		Lease:   time.Duration(rapid.IntRange(3, 60).Draw(t, "lease")) * time.Second,
		Outcome: task.Outcome(rapid.IntRange(0, 9).Draw(t, "outcome")),
		Started: rapid.SampledFrom([]task.Instant{0, at, at - 1000}).Draw(t, "started"),
		Error:   rapid.StringN(0, 20, 2*task.ErrorBytesMax).Draw(t, "error"),
		Delay:   time.Duration(rapid.Int64().Draw(t, "delay")),
		Jitter:  rapid.Uint64().Draw(t, "jitter"),
		Blame:   rapid.Bool().Draw(t, "blame"),
		Result:  rapid.SampledFrom([][]byte{nil, []byte("42")}).Draw(t, "result"),
		By:      rapid.SampledFrom([]string{"", "p1", "p2"}).Draw(t, "by"),
		Due:     at.Add(time.Duration(rapid.IntRange(-60, 60).Draw(t, "due")) * time.Second),
		Force:   rapid.Bool().Draw(t, "force"),
	}
}

// step is one accepted event.
type step struct {
	before, after task.Task
	event         task.Event
	effect        task.Effect
	now           task.Instant
	policy        task.Policy
}

// walk applies random events to a new task and shows each accepted one to check.
func walk(t *rapid.T, check func(t *rapid.T, s step)) {
	p := policy
	p.MaxAttempts = rapid.Uint32Range(1, 4).Draw(t, "max attempts")
	p.PoisonBound = rapid.SampledFrom([]uint32{0, 0, 2, 3, 5}).Draw(t, "poison bound")
	current, now := scheduled(), start
	if rapid.Bool().Draw(t, "may expire") {
		current.StartBefore = current.Due.Add(time.Duration(rapid.IntRange(1, 400_000).Draw(t, "start within ms")) * time.Millisecond)
	}
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		now = now.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "ms")) * time.Millisecond)
		e := anyEvent(t, current, now)
		next := applyChecked(t, current, e, now, p, check)
		if !next.State.IsEnd() || rapid.IntRange(0, 3).Draw(t, "stay") > 0 {
			current = next // otherwise it goes on from before the end
		}
	}
}

func applyChecked(t *rapid.T, current task.Task, e task.Event, now task.Instant, p task.Policy, check func(*rapid.T, step)) task.Task {
	before := current
	before.History = slices.Clone(current.History)
	next, effect, err := current.Apply(e, now, p)
	if !reflect.DeepEqual(before, current) {
		t.Fatalf("%s changed the task it was applied to:\n%+v\n%+v", e.Kind, before, current)
	}
	if err != nil {
		if !reflect.DeepEqual(next, before) || effect != task.None {
			t.Fatalf("refused %s (%v) changed\n%+v to\n%+v", e.Kind, err, before, next)
		}
		if !isRefusal(err) {
			t.Fatalf("%s: %v is none of the refusals", e.Kind, err)
		}
		return current
	}
	check(t, step{before: current, after: next, event: e, effect: effect, now: now, policy: p})
	return next
}

func isRefusal(err error) bool {
	return errors.Is(err, task.ErrEnded) || errors.Is(err, task.ErrFenced) || errors.Is(err, task.ErrStale) || errors.Is(err, task.ErrExpired) || errors.Is(err, task.ErrNoEdge)
}

// changeRules hold for every accepted change by a user.
var changeRules = map[string]func(step) bool{
	"the diagram has the edge": func(s step) bool { return s.before.State.CanBecome(s.after.State) },
	"no worker has the task":   func(s step) bool { return !s.before.State.IsRunning() && s.before.State != task.Acquired },
	"only a redrive of an end": func(s step) bool { return s.before.State.IsEnd() == (s.event.Kind == task.Redrive) },
	"success is redriven by force": func(s step) bool {
		return s.event.Force || s.before.State != task.Success && s.before.State != task.Delivered
	},
	"it waits":             func(s step) bool { return s.after.State == task.Scheduled || s.after.State == task.RetriableFailure },
	"nobody has it":        func(s step) bool { return s.after.Worker == "" && s.effect == task.None },
	"its wake-up is known": func(s step) bool { return s.after.Wake > 0 && s.after.Ended == 0 && s.after.ExpireAt == 0 },
	"an update moves nothing": func(s step) bool {
		return s.event.Kind != task.Update || s.after.Due == s.before.Due && (s.before.State == task.Enqueued || s.after.Wake == s.before.Wake)
	},
	"others wake when due": func(s step) bool {
		return s.event.Kind == task.Update || s.after.Due == s.event.Due && s.after.Wake == s.event.Due
	},
	"seq rises":         func(s step) bool { return s.after.Seq == s.before.Seq+1 },
	"attempts stay":     func(s step) bool { return s.after.Attempt == s.before.Attempt },
	"the history stays": func(s step) bool { return reflect.DeepEqual(s.before.History, s.after.History) },
	"a redrive counts anew": func(s step) bool {
		a := s.after
		return s.event.Kind != task.Redrive || a.Failures+a.Lost+a.Blamed == 0 && !a.Suspect && !a.CancelRequested && a.FirstStarted == 0 && a.StartBefore == 0
	},
	"the id stays": func(s step) bool { return task.TokenOf(&s.before) == task.TokenOf(&s.after) },
}

func (s step) isChange() bool {
	return s.event.Kind == task.Reschedule || s.event.Kind == task.Update || s.event.Kind == task.Redrive
}

// rules hold for every other accepted event.
var rules = map[string]func(step) bool{
	"the diagram has the edge":  func(s step) bool { return s.before.State.CanBecome(s.after.State) },
	"ends are final":            func(s step) bool { return !s.before.State.IsEnd() },
	"seq rises by one":          func(s step) bool { return s.after.Seq == s.before.Seq+1 },
	"a live task has a wake-up": func(s step) bool { return s.after.State.IsEnd() || s.after.Wake > 0 },
	"an end has none":           func(s step) bool { return !s.after.State.IsEnd() || s.after.Wake == 0 },
	"an end says when": func(s step) bool {
		return s.after.State.IsEnd() == (s.after.Ended == s.now && s.after.ExpireAt > s.now)
	},
	"only a claim makes an attempt":     func(s step) bool { return s.after.Attempt == s.before.Attempt+one(s.claims()) },
	"only a retriable failure counts":   func(s step) bool { return s.after.Failures == s.before.Failures+one(s.reports(task.OutcomeRetriable)) },
	"only a lost worker counts as lost": func(s step) bool { return s.after.Lost == s.before.Lost+one(s.event.Kind == task.WorkerLost) },
	"running tasks have an owner":       func(s step) bool { return !s.after.State.IsRunning() || s.after.Attempt > 0 },
	"waiting tasks have none": func(s step) bool {
		return s.after.State.IsRunning() || s.after.State.IsEnd() || s.after.State == task.Acquired || s.after.Worker == s.enqueuer()
	},
	"acquired by somebody, now": func(s step) bool {
		return s.after.State != task.Acquired || s.event.Worker != "" && s.after.Worker == s.event.Worker && s.after.ClaimedAt == s.now
	},
	"acquired tasks are delivered or dropped": func(s step) bool {
		return s.before.State != task.Acquired || s.after.State == task.Acquired || s.after.State == task.Delivered || s.after.State == task.Dropped
	},
	"only acquired tasks are delivered": func(s step) bool { return s.after.State != task.Delivered || s.before.State == task.Acquired },
	"a message is owed for a send":      func(s step) bool { return (s.effect == task.Send) == s.isSend() },
	"a cancel of a running task is told": func(s step) bool {
		return (s.effect == task.TellWorker) == (s.event.Kind == task.Cancel && s.before.State.IsRunning())
	},
	"a wanted cancel sticks": func(s step) bool { return !s.before.CancelRequested || s.after.CancelRequested },
	"a wanted cancel ends the task": func(s step) bool {
		return !s.before.CancelRequested || s.after.State.IsRunning() || s.after.State.IsEnd()
	},
	"dead for a reason":             func(s step) bool { return s.after.State != task.Dead || s.hasReasonToDie() },
	"no more failures than allowed": func(s step) bool { return s.after.Failures <= s.policy.MaxAttempts },
	"only suspects are blamed":      func(s step) bool { return s.after.Blamed == 0 || s.after.Suspect },
	"blame comes with the loss of a suspect": func(s step) bool {
		return s.after.Blamed <= s.before.Blamed || s.event.Kind == task.WorkerLost && (s.before.Suspect || s.policy.PoisonBound == 2)
	},
	"a loss in quarantine ends a blamed task": func(s step) bool {
		inQuarantine := s.event.Kind == task.WorkerLost && s.event.Blame && s.before.Blamed > 0
		enough := s.policy.PoisonBound <= 3 || s.before.Blamed+2 >= s.policy.PoisonBound // a suspect was lost once before it was blamed
		return (inQuarantine && enough) == (s.event.Kind == task.WorkerLost && s.after.State == task.Dead)
	},
	"no attempt begins when the task has expired": func(s step) bool {
		return !s.claims() || !s.before.IsExpired(s.now)
	},
	"no expired task waits": func(s step) bool {
		return s.after.State != task.Enqueued || !s.after.IsExpired(s.now)
	},
	"a queued task wakes when it expires": func(s step) bool {
		return s.after.State != task.Enqueued || s.after.StartBefore == 0 || s.wasTried() || s.after.Wake <= s.after.StartBefore
	},
	"only what never started expires": func(s step) bool {
		return s.after.State != task.Expired || s.event.Kind == task.Expire || !s.wasTried() && s.after.StartBefore > 0 && s.now >= s.after.StartBefore
	},
	"a result comes with success": func(s step) bool {
		return string(s.after.Result) == string(s.event.Result) || !s.reports(task.OutcomeSuccess) && s.after.Result == nil
	},
	"quarantines get longer with each blame": func(s step) bool {
		return s.after.Blamed <= s.before.Blamed || s.after.Quarantine() > s.before.Quarantine() || s.after.Blamed > 20
	},
	"an attempt that ends clears":     func(s step) bool { return !s.clears() || !s.after.Suspect && s.after.Blamed == 0 },
	"history is bounded":              func(s step) bool { return len(s.after.History) <= task.HistoryMax },
	"history grows with each attempt": func(s step) bool { return s.historyGrows() },
	"the first start stays":           func(s step) bool { return s.before.FirstStarted == 0 || s.after.FirstStarted == s.before.FirstStarted },
	"what was scheduled stays":        func(s step) bool { return reflect.DeepEqual(birth(s.before), birth(s.after)) },
	"the event was the owner's": func(s step) bool {
		return !s.isOwners() || s.event.Worker == s.before.Worker && s.event.Attempt == s.before.Attempt
	},
	"a claim shows the newest message": func(s step) bool { return s.event.Kind != task.Claim || s.event.Seq == s.before.Seq },
	"a claim is found in lease time": func(s step) bool {
		return !s.claims() || s.after.Wake <= max(s.now, s.after.Due).Add(s.event.Lease+task.ClockBound)
	},
	"no suspect is matched": func(s step) bool { return s.event.Kind != task.Match || !s.before.Suspect },
	"a match is an enqueue and its claim": func(s step) bool {
		if s.event.Kind != task.Match {
			return true
		}
		sent, _, err := s.before.Apply(task.Event{Kind: task.Enqueue}, s.now, s.policy)
		claim := s.event
		claim.Kind, claim.Seq = task.Claim, sent.Seq
		claimed, _, claimErr := sent.Apply(claim, s.now, s.policy)
		claimed.Seq-- // one write instead of two
		return err == nil && claimErr == nil && reflect.DeepEqual(claimed, s.after)
	},
}

func one(yes bool) uint32 {
	if yes {
		return 1
	}
	return 0
}

func (s step) reports(o task.Outcome) bool {
	return s.event.Kind == task.Finish && s.event.Outcome == o
}

// isOwners tells the events that only the owner of an attempt may cause.
func (s step) isOwners() bool {
	switch s.event.Kind {
	case task.Start, task.Finish, task.WorkerLost, task.Unconfirmed:
		return true
	default:
		return false
	}
}

// enqueuer is whom a waiting task names: the process that puts its message on the queue, and nobody where
// there is none.
func (s step) enqueuer() string {
	if s.effect == task.Send && s.after.State == task.Enqueued {
		return s.event.By
	}
	return ""
}

// wasTried reports whether a handler may have run the task.
func (s step) wasTried() bool {
	return s.after.FirstStarted > 0 || s.after.Lost > 0 || s.after.Failures > 0
}

// claims tells the events that begin an attempt.
func (s step) claims() bool { return s.event.Kind == task.Claim || s.event.Kind == task.Match }

// isSend tells the events after which the queue must have a message.
func (s step) isSend() bool {
	return s.after.State == task.Enqueued || s.event.Kind == task.Acquire
}

func (s step) hasReasonToDie() bool {
	return s.reports(task.OutcomeRetriable) && s.after.Failures >= s.policy.MaxAttempts ||
		s.event.Kind == task.WorkerLost && s.before.Blamed > 0 && s.event.Blame && s.after.Lost >= max(s.policy.PoisonBound, 2)
}

func (s step) clears() bool { return s.event.Kind == task.Finish && !s.reports(task.OutcomeReleased) }

func (s step) historyGrows() bool {
	over := s.event.Kind == task.Finish || s.event.Kind == task.WorkerLost || s.event.Kind == task.Unconfirmed
	if s.event.Kind == task.Drop && s.event.Error != "" {
		last := s.after.History[len(s.after.History)-1]
		return last.Outcome == task.OutcomeDropped && last.Worker == "" && last.Start.IsZero() && last.End == s.now
	}
	if !over {
		return reflect.DeepEqual(s.before.History, s.after.History)
	}
	last := s.after.History[len(s.after.History)-1]
	return len(s.after.History) == min(len(s.before.History)+1, task.HistoryMax) &&
		last.Number == s.before.Attempt && last.Worker == s.before.Worker && last.End == s.now
}

// birth is what no event changes. Where the wake-up row is, only package store decides.
func birth(t task.Task) task.Task {
	return task.Task{
		ID: t.ID, Partition: t.Partition, Due: t.Due, Created: t.Created, Collection: t.Collection, Key: t.Key, LimitKey: t.LimitKey,
		Digest: t.Digest, Payload: t.Payload, PayloadSize: t.PayloadSize, Overrides: t.Overrides,
		Traceparent: t.Traceparent, WakeRow: t.WakeRow, Tags: t.Tags, Life: t.Life, Request: t.Request, RedriveRequest: t.RedriveRequest, StartBefore: t.StartBefore,
		Blob: t.Blob,
	}
}

func TestRulesOfTheMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		walk(t, func(t *rapid.T, s step) {
			mine := rules
			if s.isChange() {
				mine = changeRules
			}
			for name, holds := range mine {
				if !holds(s) {
					t.Fatalf("not so: %s\nevent %s %+v\nbefore %+v\nafter %+v", name, s.event.Kind, s.event, s.before, s.after)
				}
			}
		})
	})
}

func TestAnEndRefusesEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ended := scheduled()
		ended.State = rapid.SampledFrom(task.States()).Filter(task.State.IsEnd).Draw(t, "state")
		ended.Wake, ended.Worker, ended.Attempt = 0, "w1", 1
		e := anyEvent(t, ended, start)
		if e.Kind == task.Redrive {
			e.Kind = task.Reschedule
		}
		if _, _, err := ended.Apply(e, start, policy); !errors.Is(err, task.ErrEnded) {
			t.Fatalf("an end answered %v", err)
		}
	})
}

// Whoever does not own the attempt changes nothing, whatever they say.
func TestOthersAreFenced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owned := scheduled()
		owned.State = rapid.SampledFrom([]task.State{task.Claimed, task.Processing}).Draw(t, "state")
		owned.Worker, owned.Attempt = "w1", 5
		e := anyEvent(t, owned, start)
		e.Kind = rapid.SampledFrom([]task.EventKind{task.Start, task.Finish, task.WorkerLost, task.Unconfirmed}).Draw(t, "kind of owner")
		if e.Worker == owned.Worker && e.Attempt == owned.Attempt {
			e.Attempt--
		}
		if _, _, err := owned.Apply(e, start, policy); !errors.Is(err, task.ErrFenced) {
			t.Fatalf("%s by %q at attempt %d: %v", e.Kind, e.Worker, e.Attempt, err)
		}
	})
}
