package inbound

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/internal/where"
	"github.com/kinesin-io/kinesin/task"
)

// estimateRowsMax bounds the rows that an estimate reads.
const estimateRowsMax = 20_000

// Count counts the tasks that a filter selects, of those that the caller may read: from the store's own
// counts if those tell, else by reading them. A store whose reads cost money estimates, unless the call asks
// for an exact count.
func (in *Inbound) Count(ctx context.Context, r *kinesinv1.CountRequest) (*kinesinv1.CountResponse, error) {
	of, err := Select(r.Where, in.Clock.Now(), access.From(ctx).Grants)
	if err != nil {
		return nil, err
	}
	live, known := in.countDepths(&of)
	if known {
		if of.Live = false; !of.Ended {
			return &kinesinv1.CountResponse{Count: live, Exact: true}, nil
		}
	}
	count := in.CountOrEstimate
	if r.Exact {
		count = in.countSet
	}
	n, examined, exact, err := count(ctx, &of)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	return &kinesinv1.CountResponse{Count: live + n, Exact: exact, Examined: examined}, nil
}

// CountOrEstimate counts a set by reading it, or estimates it where reads cost money. It returns also how
// many rows it read of tasks that may be read.
func (in *Inbound) CountOrEstimate(ctx context.Context, of *Selection) (n, examined int64, exact bool, err error) {
	if in.Store.EndedExpire() {
		return in.estimate(ctx, of)
	}
	return in.countSet(ctx, of)
}

func (in *Inbound) countSet(ctx context.Context, of *Selection) (n, examined int64, exact bool, err error) {
	examined, exact, err = in.tally(ctx, of, true, func(_ *task.Task, weight int64) { n += weight })
	return n, examined, exact, err
}

func (in *Inbound) estimate(ctx context.Context, of *Selection) (n, examined int64, exact bool, err error) {
	examined, exact, err = in.tally(ctx, of, false, func(_ *task.Task, weight int64) { n += weight })
	return n, examined, exact, err
}

// CountDue counts the tasks of a set that wait for a start: those that may start at an instant, and those
// that may start later but by until. It reads only what wakes by then, or estimates where reads cost money.
func (in *Inbound) CountDue(ctx context.Context, of Selection, at, until task.Instant) (due, soon int64, exact bool, err error) {
	of.Live, of.Ended, of.WakesBy = true, false, until
	_, exact, err = in.tally(ctx, &of, !in.Store.EndedExpire(), func(t *task.Task, weight int64) {
		switch start, waits := startOf(t); {
		case !waits || start > until:
		case start <= at:
			due += weight
		default:
			soon += weight
		}
	})
	return due, soon, exact, err
}

// tally reads a set and calls visit with each task and for how many it stands: for itself. Unless the whole
// set is asked for, it reads one shard of each lambda and priority, over which tasks are spread evenly, and
// at most estimateRowsMax rows. Of ended tasks it then visits those that it reads. seen is how many of the rows
// that it read are of tasks that may be read.
func (in *Inbound) tally(ctx context.Context, of *Selection, whole bool, visit func(t *task.Task, weight int64)) (seen int64, exact bool, err error) {
	leave, err := in.enterWholeSet(ctx)
	if err != nil {
		return 0, false, err
	}
	defer leave()
	read := *of
	read.oneShard = !whole
	exact = whole || !in.hasMoreShards(of)
	var position []byte
	var examined int64
	for more := true; more; {
		page, err := in.Page(ctx, &read, position, setRowsPage)
		if err != nil {
			return 0, false, err
		}
		for i := range page.Rows {
			weight := int64(1)
			if !whole {
				weight = in.weight(&page.Rows[i].Task)
			}
			exact = exact && weight == 1
			visit(&page.Rows[i].Task, weight)
		}
		seen, examined = seen+int64(page.Seen), examined+int64(page.Examined)
		position, more = page.Next, len(page.Next) > 0
		if more && !whole && examined >= estimateRowsMax {
			return seen, false, nil
		}
	}
	return seen, exact, nil
}

// weight returns for how many tasks one stands in an estimate.
func (in *Inbound) weight(t *task.Task) int64 {
	if l := in.Catalog.ByRef(t.Partition.Lambda); l != nil && !t.State.IsEnd() {
		return int64(max(1, l.Shards))
	}
	return 1
}

func (in *Inbound) hasMoreShards(of *Selection) bool {
	return of.Live && len(of.partitions(in.Catalog, liveStates())) > len(of.sampled().partitions(in.Catalog, liveStates()))
}

func (s Selection) sampled() *Selection {
	s.oneShard = true
	return &s
}

// countDepths counts the live tasks of a set from the counts of the store; known is false if they do not follow from
// lambda, priority and state alone, or the caller may read only some collections.
func (in *Inbound) countDepths(of *Selection) (n int64, known bool) {
	depths, ready := in.Store.Depths()
	if !ready {
		return 0, false
	}
	for _, p := range of.partitions(in.Catalog, liveStates()) {
		lambda, priority := namesOf(in.Catalog, p)
		if !of.By.Allow(access.Read, lambda) {
			return 0, false
		}
		depth := depths[p]
		for _, state := range liveStates() {
			t := task.Task{State: state}
			switch of.Filter.Decide(&where.Subject{Lambda: lambda, Priority: priority, Task: &t, Known: where.KnowLambda | where.KnowPriority | where.KnowState}) {
			case where.Maybe:
				return 0, false
			case where.Always:
				n += depth[state]
			case where.Never:
			}
		}
	}
	return n, true
}
