package hsc

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// again is a queue that marks messages as delivered before, and that may be full.
type again struct {
	*queue.Queue

	says atomic.Bool
	full atomic.Bool
}

func (a *again) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	messages, err := a.Queue.Receive(ctx, names, limit, ahead)
	for i := range messages {
		messages[i].Again = a.says.Load()
	}
	return messages, err
}

func (a *again) Send(ctx context.Context, messages []queue.Message) []error {
	if !a.full.Load() {
		return a.Queue.Send(ctx, messages)
	}
	errs := make([]error, len(messages))
	for i := range errs {
		errs[i] = queue.ErrFull
	}
	return errs
}

func (a *again) Durable() bool { return true }

// overDurable puts a durable queue under the service, before anything is served.
func (f *fixture) overDurable() *again {
	a := &again{Queue: f.queue}
	f.svc.Queue, f.svc.recentClaims = a, newRecentClaims()
	return a
}

func TestAMessageThatComesAgainIsRefusedWithoutTheStore(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.overDurable()
		w, c := f.one()
		row := f.row(id(c))
		stale := row
		stale.Seq, stale.State = row.Seq-1, task.Enqueued
		reads, writes := f.store.rows, f.store.writes
		w.report("success", c)
		w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
		f.send(stale, stale)
		synctest.Wait()
		w.wantClaimed(1)
		f.wantQueued(stale, 0, 0)
		if f.store.rows != reads || f.store.writes != writes+1 {
			t.Errorf("%d reads and %d writes", f.store.rows-reads, f.store.writes-writes)
		}
		if f.refused[RefusedAgain]+f.refused[RefusedTwice] != 2 {
			t.Errorf("refused: %v", f.refused)
		}
	})
}

// Another process claimed the task: then a read tells.
func TestAMessageThatCameBeforeElsewhereIsRefusedByARead(t *testing.T) {
	bubble(t, func(f *fixture) {
		a := f.overDurable()
		ended := f.task("mail", func(t *task.Task) {
			t.State, t.Seq, t.Wake, t.Ended, t.ExpireAt = task.Success, 3, 0, t.Due, t.Due.Add(time.Hour)
		})
		taken := f.task("mail", func(t *task.Task) {
			t.State, t.Seq, t.Attempt, t.Worker, t.ClaimedAt = task.Claimed, 2, 1, "other", t.Due
		})
		good := f.task("mail")
		gone := f.task("mail")
		f.put(ended, taken, good)
		a.says.Store(true)
		w := f.work(slots(4, "mail"))
		writes := f.store.writes
		old := func(t task.Task) task.Task { t.Seq, t.State = 1, task.Enqueued; return t }
		f.send(old(ended), old(taken), good, gone)
		if c := w.wantClaimed(1)[0]; id(c) != good.ID {
			t.Errorf("claimed %v", id(c))
		}
		if f.store.writes != writes+1 {
			t.Errorf("%d writes", f.store.writes-writes)
		}
		if f.refused[RefusedEnded] != 1 || f.refused[RefusedTaken] != 1 || f.refused[RefusedGone] != 1 {
			t.Errorf("refused: %v", f.refused)
		}
		f.wantQueued(good, 0, 0)
	})
}

func TestAMessageThatCameBeforeIsClaimedThoughRowsCannotBeRead(t *testing.T) {
	bubble(t, func(f *fixture) {
		a := f.overDurable()
		a.says.Store(true)
		w := f.work(slots(1, "mail"))
		f.store.reads = 1
		f.enqueue(f.task("mail"))
		w.wantClaimed(1)
	})
}

// The message of the suspect that runs here comes again: it must not let another suspect in beside it.
func TestAMessageOfTheSuspectInHandThatComesAgain(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.overDurable()
		one := f.task("mail", suspect(1))
		w := f.work(slots(3, "mail"))
		f.enqueue(one)
		w.wantClaimed(1)
		f.send(one)
		f.enqueue(f.task("mail", suspect(1)))
		time.Sleep(time.Second)
		w.wantClaimed(1)
	})
}

func TestRecentClaimsForgetTheOldestAndNothingElse(t *testing.T) {
	s := newRecentClaims()
	idOf := func(n int) task.ID { return task.ID{byte(n), byte(n >> 8), byte(n >> 16)} }
	const n = 3 * recentClaimsMax
	for i := range n {
		s.add(idOf(i), 4)
		if len(s.newer)+len(s.older) > recentClaimsMax {
			t.Fatalf("remembers %d", len(s.newer)+len(s.older))
		}
	}
	for i := n - recentClaimsMax/2; i < n; i++ {
		old, same, newer := task.Task{ID: idOf(i), Seq: 3}, task.Task{ID: idOf(i), Seq: 4}, task.Task{ID: idOf(i), Seq: 5}
		if !s.has(&old) || !s.has(&same) || s.has(&newer) {
			t.Fatalf("the %dth last", n-i)
		}
	}
	if first := (task.Task{ID: idOf(0), Seq: 4}); s.has(&first) {
		t.Error("the first is remembered")
	}
	if unknown := (task.Task{ID: task.ID{15: 1}, Seq: 1}); s.has(&unknown) || (*recentClaims)(nil).has(&unknown) {
		t.Error("has what it never saw")
	}
}

// A key that is used again gives another task the same id, with sequence numbers that begin anew.
func TestRecentClaimsIgnoreTasksWithAKey(t *testing.T) {
	s, again := newRecentClaims(), task.Task{ID: task.ID{0: 1, 6: 8 << 4}, Seq: 2}
	s.add(again.ID, 6)
	if s.has(&again) {
		t.Error("the message of a new task is taken for one of the task that had its key before")
	}
}

// A task that is released while its queue is full is sent when there is room, long before its wake-up.
func TestAMessageThatFindsNoRoomFollows(t *testing.T) {
	bubble(t, func(f *fixture) {
		a := f.overDurable()
		w, c := f.one()
		w.send(&kinesinv1.WorkRequest{Drain: true})
		a.full.Store(true)
		w.report("released", c)
		row := f.wantState(id(c), task.Enqueued)
		time.Sleep(10 * time.Second)
		f.wantQueued(row, 0, 0)
		f.mu.Lock()
		if tries := f.failed["send messages"]; tries < 5 || tries > 40 {
			t.Errorf("tried %d times in ten seconds", tries)
		}
		f.mu.Unlock()
		a.full.Store(false)
		time.Sleep(workRetry.Max)
		synctest.Wait()
		f.wantQueued(row, 1, 0)
	})
}

func TestUnsentMessagesAreBounded(t *testing.T) {
	w := newWorkList(clock.Real())
	for range 3 * messagesMax {
		w.addMessages(queue.Message{})
	}
	if len(w.messages) != messagesMax {
		t.Errorf("%d kept", len(w.messages))
	}
}

// A store that takes claims and no results stops the claiming before the memory fills up.
func TestResultsThatCannotBeStoredStopTheClaiming(t *testing.T) {
	bubble(t, func(f *fixture) {
		const n = 2
		f.store.refuse = func(op *store.Op) bool { return op.Task.State.IsEnd() }
		w := f.work(slots(n, "mail"))
		f.enqueueMany("mail", 3*unstoredMax)
		reported := 0
		for {
			all := w.claimed()
			if len(all) == reported {
				break
			}
			w.report("success", all[reported:]...)
			reported = len(all)
			time.Sleep(acksLinger)
		}
		if most := n + unstoredMax + n*(1+prefetchPerSlot); reported < unstoredMax || reported > most {
			t.Errorf("%d tasks were claimed, want %d at most", reported, most)
		}
		f.store.refuse = nil
		w.report("success", w.claimed()...)
		synctest.Wait()
		if more := len(w.claimed()); more <= reported {
			t.Error("claiming did not go on")
		}
	})
}

// A service takes a moment to answer: a claim that does not want to wait waits that long.
func TestAClaimThatDoesNotWaitWaitsForAService(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.overDurable()
		worker := f.register()
		go func() {
			time.Sleep(claimWaitRemote / 2)
			f.enqueueMany("mail", 1)
		}()
		began := f.clock.Now()
		if got, err := f.claim(worker, 1, 0); len(got) != 1 || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		if waited := f.clock.Now().Sub(began); waited > claimWaitRemote/2 {
			t.Errorf("waited %v", waited)
		}
	})
}
