package node

import (
	"time"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// doubts returns how the scheduler rejects tasks that may have run already: they are kept with the rejected
// messages of the inbound buffer. That takes no role. nil where ended rows stay as long as they are needed.
func (n *Node) doubts(c *Config, seal *task.Sealer) *scheduler.Doubts {
	if !n.store.EndedExpire() {
		return nil
	}
	return &scheduler.Doubts{
		Rows: n.store,
		Retention: func(lambda uint32) (time.Duration, bool) {
			l, known := n.Lambda(lambda)
			return l.Retention, known
		},
		Aside: n.newRejected(intake.New(intake.Config{Store: n.store, Catalog: n.catalog, Sealer: seal, Clock: c.Clock})),
	}
}
