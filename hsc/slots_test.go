package hsc

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

func TestPaceGivesExtraTasksOnlyWhileAttemptsAreShort(t *testing.T) {
	const now = task.Instant(1_000_000_000)
	var p durations
	if got := p.prefetch(10); got != 0 {
		t.Errorf("extra %d before anything is known, want 0", got)
	}
	p.add(now.Add(-time.Millisecond), now, 0)
	if got := p.prefetch(10); got != 10*prefetchPerSlot {
		t.Errorf("extra %d after a short attempt, want %d", got, 10*prefetchPerSlot)
	}
	if got := p.prefetch(10_000); got != prefetchMax {
		t.Errorf("extra %d for many slots, want %d", got, prefetchMax)
	}
	p.add(0, now, 0)
	if got := p.prefetch(10); got != 0 {
		t.Errorf("extra %d after one came back unstarted, want 0", got)
	}
	for range 40 {
		p.add(now.Add(-time.Millisecond), now, 0)
	}
	if got := p.prefetch(10); got == 0 {
		t.Error("no extra after many short attempts")
	}
	p.add(now.Add(-time.Hour), now, time.Millisecond)
	if got := p.prefetch(10); got == 0 {
		t.Error("no extra after a result that was on its way for long")
	}
	p.add(now.Add(-time.Hour), now, 0)
	if got := p.prefetch(10); got != 0 {
		t.Errorf("extra %d after a long attempt, want 0", got)
	}
}

// A process whose heartbeat is refused loses its lease.
func TestAProcessMayNameAllThatItGets(t *testing.T) {
	const groups = 20 // of 500 slots: beyond all of them, prefetchMax each
	short := slotGroup{slots: SlotsMax / groups}
	short.durations.add(1, 2, 0)
	if most := groups * short.room(); most > HeldMax {
		t.Errorf("%d tasks held, of which a heartbeat names at most %d", most, HeldMax)
	}
}

func TestShortAttemptsAreClaimedBeyondTheSlots(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(1, "mail"))
		f.enqueueMany("mail", 10)
		first := w.wantClaimed(1)
		started := result(first[0], "success")
		started.Started = int64(f.clock.Now())
		w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{started}})
		w.wantClaimed(1 + 1 + prefetchPerSlot)
	})
}

func TestSlotsOnlyMeansNoTasksBeyondThem(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.svc.SlotsOnly = true
		w := f.work(slots(2, "mail"))
		f.enqueueMany("mail", 10)
		first := w.wantClaimed(2)
		started := result(first[0], "success")
		started.Started = int64(f.clock.Now())
		w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{started}})
		w.wantClaimed(2 + 1)
	})
}
