package intake

import (
	"context"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Plan decides how a task is stored. requested is its due time before it was rounded up.
func (b *Batch) Plan(ctx context.Context, c *Incoming, l *catalog.Entry, t *task.Task, requested task.Instant) error {
	c.Lambda, c.Task, c.requested = l, t, requested
	switch {
	case b.goesDirect(c):
		c.direct = true
	case l.Mode == task.Managed && !t.IsExpired(b.Now) && b.isNear(ctx, t): // the scheduler ends what comes out of the buffer too late
		return b.planNear(ctx, c)
	case t.Key != "" || c.WithRow:
		t.Wake = t.Due
		b.put(c, store.FirstWithRow(*t))
	default:
		b.putAlone(c, t)
	}
	return nil
}
