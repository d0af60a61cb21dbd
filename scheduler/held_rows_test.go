package scheduler_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A task of before the gate has ended, and the delete of its wake-up row was lost. Read-ahead meets that row
// while the ended row tells, although the gate selects it: when the gate ends it must not start again.
func TestALeftoverRowThatAGateSelectsIsMet(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		g.parts.all = []task.Partition{high}
		g.downtime = &scheduler.Downtime{Rows: g.rows.Store, Retention: g.gating.Retention}
		g.settled()
		g.advance(time.Minute)
		first := g.next(high, 0)
		first.Collection = "a"
		first.Wake, first.WakeRow = first.Due, task.WakeRow{At: first.Due, Seq: 1}
		ended := first
		ended.State, ended.Seq, ended.Attempt, ended.Wake, ended.Ended = task.Success, 4, 1, 0, first.Due
		ended.ExpireAt = first.Due.Add(7 * 24 * time.Hour)
		g.apply(store.Op{Kind: store.PutWakeup, Task: first}, store.Op{Kind: store.PutTask, Task: ended, Follows: true})
		g.advance(time.Second)
		gate := pauseA()
		gate.Created = g.clock.Now()
		g.set(gate)
		held := g.of("a", 10*time.Second)
		g.advance(time.Hour + 2*fullScanLatest)
		if rows := g.schedule(high); len(rows) != 1 || rows[0].ID != held.ID {
			t.Errorf("%d rows are there, want the one that is held", len(rows))
		}
	})
}

// Rows that do not tell their collection go at the pace, too.
func TestMovedTasksResumeAtThePace(t *testing.T) {
	inGated(t, 10_000, func(g *gated) {
		g.parts.all = []task.Partition{high}
		const pace, count = 50, 500
		left, at := 0.0, start
		g.gating.Pace = func(*hold.Gate, task.Partition) (bool, task.Instant) {
			now := g.clock.Now()
			left = min(left+now.Sub(at).Seconds()*pace, pace/10)
			at = now
			if left < 1 {
				return false, now.Add(time.Second / pace)
			}
			left--
			return true, 0
		}
		gate := pauseA()
		g.set(gate)
		g.settled()
		for range count {
			g.moved(high, -time.Minute, func(t *task.Task) { t.State, t.Attempt, t.Collection = task.RetriableFailure, 1, "a" })
		}
		g.advance(10 * time.Minute)
		gate.Resumed, gate.Pace = g.clock.Now(), pace
		at = g.clock.Now()
		g.set(gate)
		g.advance(20 * time.Second)
		if n := len(g.sent.fired()); n < count {
			t.Errorf("%d of %d dispatched in 20 s at %d/s", n, count, pace)
		}
	})
}
