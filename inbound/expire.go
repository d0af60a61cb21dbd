package inbound

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// ExpireRows ends tasks of a set that no worker has as expired, in one write.
func (in *Inbound) ExpireRows(ctx context.Context, rows []Row) []Changed {
	changed := in.endRows(ctx, rows, task.Expire)
	for i := range changed {
		for tries := 0; isMoving(changed[i].Err) && tries < casTriesMax; tries++ {
			changed[i] = in.expireAgain(ctx, &rows[i])
		}
		switch {
		case isMoving(changed[i].Err):
			changed[i].Err = errMoving
		case errors.Is(changed[i].Err, task.ErrNoEdge):
			changed[i].Err = api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "a worker has the task, or it may be on the queue of its lambda: only what waits can expire")
		}
	}
	return changed
}

// expireAgain expires a task that moved.
func (in *Inbound) expireAgain(ctx context.Context, row *Row) Changed {
	t, err := in.find(ctx, task.TokenOf(&row.Task))
	switch {
	case err != nil:
		return Changed{Err: err}
	case t.State == task.Expired:
		return Changed{Outcome: t.State.String()} // by a write whose answer was lost
	}
	return in.endRows(ctx, []Row{t}, task.Expire)[0]
}
