package sdktest

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// checksPerPatience is how often a wait for handlers is checked in the time of Patience.
const checksPerPatience = 8

// Advance moves virtual time by d, from one due time to the next, and returns when all that became due has
// ended: tasks, their retries and snoozes, and the tasks that handlers scheduled. Advance(0) waits for what
// is due now.
//
// It fails the test, and names the tasks, when a handler does not return (see Stall). It does not wait for
// handlers that wait for virtual time; one whose time has not come continues to wait. A task for which no
// worker has a free slot stays in its queue, and one that the server holds where it is.
func (k *Kinesin) Advance(d time.Duration) {
	k.tb.Helper()
	if d < 0 {
		k.tb.Fatalf("sdktest: advance by %v: time cannot go back", d)
	}
	k.advancing.Lock()
	defer k.advancing.Unlock()
	k.advanceTo(k.time.Now().Add(d))
}

// AdvanceTo is Advance up to t. It does not move time if t is in the past.
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

// jumpToNext moves time to the next due time; false if there is none up to end.
func (k *Kinesin) jumpToNext(end task.Instant) bool {
	k.tracker.Lock()
	defer k.tracker.Unlock()
	next, found := k.tracker.nextLocked(k.time.Now())
	if !found || next > end {
		return false
	}
	k.jumpLocked(next)
	return true
}

func (k *Kinesin) jump(to task.Instant) {
	k.tracker.Lock()
	defer k.tracker.Unlock()
	k.jumpLocked(to)
}

func (k *Kinesin) jumpLocked(to task.Instant) {
	clear(k.tracker.starts)
	k.time.Jump(to)
}

// settle waits until all that is due has ended.
func (k *Kinesin) settle() {
	k.tb.Helper()
	every := max(k.cfg.patience/checksPerPatience, time.Millisecond)
	timer := clock.Real().NewTimer(every)
	defer timer.Stop()
	since, seen := clock.Real().Now(), uint64(0)
	for {
		busy, progress, spinning := k.tracker.busy(k.time.Now())
		switch {
		case spinning != nil:
			k.tb.Fatalf("sdktest: %v started %d times without time moving on; does its handler snooze for no time?", spinning, spinsMax)
		case !busy:
			return
		}
		if progress != seen {
			since, seen = clock.Real().Now(), progress
		}
		select {
		case <-k.tracker.Events:
		case <-k.nodeOver:
			k.tb.Fatalf("sdktest: the server has ended: %v", k.nodeErr)
		case <-timer.C():
			k.checkQuiet(clock.Real().Now().Sub(since))
			timer.Reset(every)
		}
	}
}

// checkQuiet acts on how long nothing has happened, in real time.
func (k *Kinesin) checkQuiet(quiet time.Duration) {
	k.tb.Helper()
	if quiet >= k.cfg.stall {
		k.tb.Fatalf("sdktest: nothing has happened for %v of real time, but this is due at %v:%s\n"+
			"A handler that waits for time must wait on its context or with Kinesin.Sleep; a slow one needs the option Stall.",
			k.cfg.stall, k.Now().Format(time.RFC3339Nano), k.tracker.describe(k.time.Now()))
	}
	if quiet >= k.cfg.patience {
		k.tracker.assumeWaiting()
	}
}

// sweepRowsMax bounds one deletion.
const sweepRowsMax = 1000

// sweep deletes ended tasks whose retention is over. The server does that too, but not at a known time.
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
