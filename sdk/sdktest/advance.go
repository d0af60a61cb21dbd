package sdktest

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// looksPerPatience is how often a wait for handlers is looked at.
const looksPerPatience = 8

// Advance moves virtual time by d, through every moment at which something falls due, and returns when all
// that fell due has ended: tasks that became due, retries and snoozes among them, and what handlers
// scheduled. Advance(0) waits for what is due now.
//
// It fails the test, and names the tasks, when something that is due does not happen because a handler does
// not return (see Stall). A handler that waits for virtual time is no reason to wait for it; if its time has
// not come at the end, it is left waiting. A task for which no worker has a slot stays in its queue.
func (k *Kinesin) Advance(d time.Duration) {
	k.tb.Helper()
	if d < 0 {
		k.tb.Fatalf("sdktest: advance by %v: time does not go back", d)
	}
	k.advancing.Lock()
	defer k.advancing.Unlock()
	k.advanceTo(k.time.Now().Add(d))
}

// AdvanceTo is Advance up to a moment; one in the past is no reason to move.
func (k *Kinesin) AdvanceTo(t time.Time) {
	k.tb.Helper()
	k.advancing.Lock()
	defer k.advancing.Unlock()
	k.advanceTo(max(task.InstantOf(t), k.time.Now()))
}

func (k *Kinesin) advanceTo(end task.Instant) {
	k.tb.Helper()
	k.settle()
	for k.jumpToNext(end) {
		k.settle()
	}
	k.jump(end)
	k.settle()
	k.sweep()
}

// jumpToNext moves to the next moment at which something falls due; false when there is none up to end.
func (k *Kinesin) jumpToNext(end task.Instant) bool {
	k.tracker.mu.Lock()
	defer k.tracker.mu.Unlock()
	next, found := k.tracker.nextLocked(k.time.Now())
	if !found || next > end {
		return false
	}
	k.jumpLocked(next)
	return true
}

func (k *Kinesin) jump(to task.Instant) {
	k.tracker.mu.Lock()
	defer k.tracker.mu.Unlock()
	k.jumpLocked(to)
}

func (k *Kinesin) jumpLocked(to task.Instant) {
	clear(k.tracker.starts)
	k.time.Jump(to)
}

// settle waits until all that is due has ended.
func (k *Kinesin) settle() {
	k.tb.Helper()
	every := max(k.cfg.patience/looksPerPatience, time.Millisecond)
	timer := clock.Real().NewTimer(every)
	defer timer.Stop()
	since, seen := clock.Real().Now(), uint64(0)
	for {
		owes, progress, spinning := k.tracker.owes(k.time.Now())
		switch {
		case spinning != nil:
			k.tb.Fatalf("sdktest: %v started %d times without time moving on; does its handler snooze for no time?", spinning, spinsMax)
		case !owes:
			return
		}
		if progress != seen {
			since, seen = clock.Real().Now(), progress
		}
		select {
		case <-k.tracker.events:
		case <-k.nodeOver:
			k.tb.Fatalf("sdktest: the server has ended: %v", k.nodeErr)
		case <-timer.C():
			k.lookAt(clock.Real().Now().Sub(since))
			timer.Reset(every)
		}
	}
}

// lookAt judges how long nothing has happened.
func (k *Kinesin) lookAt(quiet time.Duration) {
	k.tb.Helper()
	if quiet >= k.cfg.stall {
		k.tb.Fatalf("sdktest: nothing has happened for %v of real time, but this is due at %v:%s\n"+
			"A handler that waits for time is to wait on its context or with Kinesin.Sleep; one that is slow needs the option Stall.",
			k.cfg.stall, k.Now().Format(time.RFC3339Nano), k.tracker.describe(k.time.Now()))
	}
	if quiet >= k.cfg.patience {
		k.tracker.beWaiting()
	}
}

// sweepRowsMax bounds one deletion.
const sweepRowsMax = 1000

// sweep forgets ended tasks whose retention is over, as the server does by itself but at no certain moment.
func (k *Kinesin) sweep() {
	k.tb.Helper()
	for {
		n, err := k.store.Sweep(k.base, k.time.Now(), sweepRowsMax)
		if err != nil {
			k.tb.Fatalf("sdktest: delete expired tasks: %v", err)
		}
		if n < sweepRowsMax {
			return
		}
	}
}
