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
