package node

import (
	"context"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// expiring is a store whose ended rows expire when the test says so.
type expiring struct{ store.Driver }

func (e expiring) Capabilities() store.Capabilities {
	c := e.Driver.Capabilities()
	c.EndedExpire = true
	return c
}

func (expiring) Sweep(context.Context, task.Instant, int) (int, error) { return 0, nil }

// TestWhatMayHaveRunBeforeALongGapIsSetAside has all processes die during the delete of a wake-up row, and
// return when the row with the task's end has expired. The scheduler's process has no inbound role.
func TestWhatMayHaveRunBeforeALongGapIsSetAside(t *testing.T) {
	d := drivers{over: func(d store.Driver) store.Driver { return expiring{d} }}
	fires := func(c *Config) { c.Roles = []string{RoleScheduler, RoleDispatcher, RoleHSC} }
	inRig(t, d, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Retention: time.Hour})
		r.work(r.nodes[0], "mail", lasts)
		r.lasting(0, time.Minute)
		time.Sleep(30 * time.Second)
		l := r.nodes[0].node.catalog.All()[0]
		p := task.Partition{Lambda: l.Ref, Priority: 1}
		rows, err := r.tally.ScanSchedule(r.ctx, p, store.WakeKey{}, task.InstantOf(time.Now().Add(time.Hour)), 10)
		if err != nil || len(rows) != 1 || rows[0].State != task.Scheduled {
			t.Fatalf("%v, %v", rows, err)
		}
		r.settled(time.Minute)
		time.Sleep(6 * time.Minute)
		r.nodes[0].stop()

		if _, err := r.tally.Apply(r.ctx, []store.Op{{Kind: store.PutWakeup, Task: rows[0]}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if n, err := r.tally.Sweep(r.ctx, task.InstantOf(time.Now()), 10); n != 1 || err != nil {
			t.Fatalf("%d expired, %v", n, err)
		}
		if _, err := r.tally.Apply(r.ctx, []store.Op{{Kind: store.PutWakeup, Task: rows[0]}}); err != nil { // the sweep took it along
			t.Fatal(err)
		}
		r.nodes = append(r.nodes, r.start(d, []string{"node-0"}, 0, fires))
		serves := r.start(d, []string{"node-0"}, 0, func(c *Config) { c.Roles = []string{RoleInbound} })
		r.nodes, r.client = append(r.nodes, serves), r.dial(serves.transport)
		r.work(r.nodes[1], "mail", lasts)
		time.Sleep(10 * time.Minute)
		if runs := r.book.check(t, 1); runs != 1 {
			t.Fatalf("it ran %d times", runs)
		}
		all, err := r.rejected()
		if err != nil || len(all) != 1 || all[0].Reason != "stale" || all[0].ID != r.book.all()[0] {
			t.Fatalf("set aside: %+v, %v", all, err)
		}
		if left, err := r.tally.ScanSchedule(r.ctx, p, store.WakeKey{}, task.InstantOf(time.Now()), 10); len(left) != 0 || err != nil {
			t.Errorf("its wake-up row is there still: %v, %v", left, err)
		}

		results, err := r.admin().Rejected.Retry(r.ctx, all[0].Name)
		if err != nil || results[0].Err != nil || results[0].ID != all[0].ID {
			t.Fatalf("%+v, %v", results, err)
		}
		r.settled(time.Minute)
		time.Sleep(10 * time.Minute)
		if runs := r.book.check(t, 2); runs != 2 {
			t.Errorf("after a retry it ran %d times", runs)
		}
		if all, err := r.rejected(); len(all) != 0 || err != nil {
			t.Errorf("set aside still: %v, %v", all, err)
		}
	})
}

// rejected reads all that is set aside.
func (r *rig) rejected() (all []admin.RejectedMessage, err error) {
	for one, err := range r.admin().Rejected.List(r.ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// TestEndedRowsThatStayNeedNoNote uses a store that deletes an ended row together with its wake-up row.
func TestEndedRowsThatStayNeedNoNote(t *testing.T) {
	for _, own := range []bool{false, true} {
		d := drivers{}
		if own {
			d.over = func(d store.Driver) store.Driver { return expiring{d} }
		}
		inRig(t, d, 1, nil, func(r *rig) {
			time.Sleep(2 * time.Minute)
			rows, err := r.tally.Controls(r.ctx, "passes", "")
			if noted := len(rows) == 1; noted != own || err != nil {
				t.Errorf("rows that expire: %v, notes %v, %v", own, rows, err)
			}
		})
	}
}
