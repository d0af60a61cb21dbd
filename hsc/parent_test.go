package hsc

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// followup makes a task the follow-up of another whose outcome is in that one's row.
func (f *fixture) followup() (parent task.ID, as func(t *task.Task)) {
	f.Helper()
	before := f.task("mail", func(t *task.Task) {
		t.State, t.Wake, t.Ended, t.ExpireAt, t.Result = task.Success, 0, t.Due, t.Due.Add(time.Hour), []byte("large")
	})
	f.put(before)
	return before.ID, func(t *task.Task) {
		link := task.LinkTo(&before)
		t.Chain = &task.Chain{Root: link, Parent: link, Edge: task.Then, Depth: 1, FromParent: true, Outcome: []byte("\x12\x07success")}
	}
}

// A follow-up whose parent is damaged has failed for good, and says why: it would go back forever. So it is
// where the task came from its queue and where it was matched.
func TestAFollowUpWhoseParentIsDamagedFails(t *testing.T) {
	for name, run := range map[string]func(f *fixture, as func(*task.Task)) task.ID{
		"from its queue": func(f *fixture, as func(*task.Task)) task.ID {
			row := f.task("mail", as)
			f.enqueue(row)
			return row.ID
		},
		"matched": func(f *fixture, as func(*task.Task)) task.ID {
			return f.wantMatch(f.waiting("mail", as)).ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				w := f.idle(slots(1, "mail"))
				parent, as := f.followup()
				f.damage(parent)
				id := run(f, as)
				synctest.Wait()
				time.Sleep(time.Second)
				row := f.wantState(id, task.FatalFailure)
				if n := len(row.History); n != 1 || !strings.Contains(row.History[0].Error, "damaged") {
					t.Errorf("history %+v", row.History)
				}
				f.enqueueMany("mail", 1)
				w.wantClaimed(1) // its slot is free
			})
		})
	}
}

// A follow-up whose parent cannot be read for now goes back, and gets its parent when it can.
func TestAFollowUpWhoseParentCannotBeReadGoesBack(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.idle(slots(1, "mail"))
		_, as := f.followup()
		f.store.reads = 1 // the read that fails first
		row := f.task("mail", as)
		f.enqueue(row)
		time.Sleep(putBackDelay)
		got := w.wantClaimed(1)[0]
		if p := got.GetParent(); string(p.GetResult()) != "large" || p.GetEdge() != "then" {
			t.Errorf("parent %+v", p)
		}
		w.report("success", got)
	})
	if isDamaged(store.ErrVersion) || isDamaged(store.ErrUnknown) || !isDamaged(store.ErrCorrupt) {
		t.Error("a row of a newer version can be read by other servers, and is not damaged")
	}
}
