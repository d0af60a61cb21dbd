package node

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// The history of a process tells a minute, an hour and a day, and forgets what is older.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(clock.Real())
		for i := range 600 { // one a second for ten minutes, later ones later
			h.started(time.Duration(1+i/300) * 100 * time.Millisecond)
			h.ended(task.Success)
			if i%2 == 0 {
				h.failed()
			}
			time.Sleep(time.Second)
		}
		for _, c := range []struct {
			length  time.Duration
			started float64
			late50  time.Duration
		}{{time.Minute, 1, 200 * time.Millisecond}, {time.Hour, 1, 100 * time.Millisecond}, {24 * time.Hour, 1, 100 * time.Millisecond}} {
			w := h.window(c.length)
			if w.Started < c.started*0.9 || w.Started > c.started*1.1 || w.Ended["success"] != w.Started || w.Failed == 0 || w.Late50 < c.late50*9/10 || w.Late50 > c.late50*11/10 || w.Late99 < 180*time.Millisecond {
				t.Errorf("of %v: %+v", c.length, w)
			}
		}
		if minutes := h.since(60); len(minutes) < 10 || len(minutes) > 12 || minutes[5].Started != 60 || minutes[5].Ended != 60 || minutes[5].Failed != 30 || minutes[1].Late50 > 110*time.Millisecond || minutes[8].Late99 < 180*time.Millisecond {
			t.Errorf("by the minute: %+v", minutes)
		}
		time.Sleep(2 * time.Hour)
		if w := h.window(time.Hour); w.Started != 0 || w.Late99 != 0 {
			t.Errorf("two hours later: %+v", w)
		}
		if w := h.window(24 * time.Hour); w.Started == 0 || w.Late99 == 0 {
			t.Errorf("the day has forgotten: %+v", w)
		}
		if minutes := h.since(60); len(minutes) != 60 || minutes[59].Started != 0 {
			t.Errorf("an hour without starts: %+v", minutes)
		}
		time.Sleep(26 * time.Hour)
		if w := h.window(24 * time.Hour); w.Started != 0 {
			t.Errorf("a day later: %+v", w)
		}
	})
}

// Tasks that calls end count among the ends, by their state, as those that workers end do.
func TestEndsByCallsAreCounted(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		r.cancel(r.schedule(sdk.Item{Lambda: "mail", In: time.Hour}))
		r.cancel(r.schedule(sdk.Item{Lambda: "mail", In: time.Hour}))
		time.Sleep(5 * time.Second)
		if w := r.nodes[0].node.history.window(time.Minute); math.Round(w.Ended["cancelled"]*w.Length.Seconds()) != 2 {
			t.Errorf("ended: %+v", w)
		}
		if s := r.live(false); s.EndedPerSecond == 0 {
			t.Errorf("of the lambda: %+v", s)
		}
	})
}
