package inbound

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// withKeys returns ids followed by the ids of the newest tasks with some keys; an empty one for a key that no
// task has. So a key names the task that it names now, whatever becomes of the key while the call goes on.
func (in *Inbound) withKeys(ctx context.Context, ids []string, keys []*kinesinv1.TaskKey) ([]string, error) {
	if n := len(ids) + len(keys); n == 0 || n > IDsMax {
		return nil, refusal.Invalid("a call names 1 to %d tasks by ids and keys, this one has %d", IDsMax, n)
	}
	if len(keys) == 0 {
		return ids, nil
	}
	derived := make([]task.ID, len(keys))
	for i, k := range keys {
		if k.GetKey() == "" {
			return nil, refusal.Invalid("a key is empty; want the key with which the task was scheduled")
		}
		l, err := in.Catalog.Find(ctx, k.GetLambda())
		if err != nil {
			return nil, refusal.Wire(err)
		}
		derived[i] = task.KeyedID(l.Ref, k.GetKey())
	}
	rows, err := in.Store.Tasks(ctx, derived)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	all := make([]string, 0, len(ids)+len(keys))
	all = append(all, ids...)
	for i := range rows {
		id := ""
		if !rows[i].ID.IsZero() && !rows[i].IsBare() {
			id = in.Sealer.SealTask(&rows[i])
		}
		all = append(all, id)
	}
	return all, nil
}
