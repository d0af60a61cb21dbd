package node

import (
	"time"

	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// downtime has the scheduler set aside what may have run though no row tells, in the same place as what comes
// through the inbound buffer. That takes no role. nil where ended rows stay as long as they are needed.
func (n *Node) downtime(c *Config, seal *task.Sealer) *scheduler.Downtime {
	if !n.store.EndedExpire() {
		return nil
	}
	return &scheduler.Downtime{
		Rows: n.store,
		Retention: func(lambda uint32) (time.Duration, bool) {
			l, known := n.Lambda(lambda)
			return l.Retention, known
		},
		Aside: inbound.New(inbound.Config{
			Store: n.store, Catalog: n.catalog, Sealer: seal, Clock: c.Clock, Hooks: n.withBufferHooks(inbound.Hooks{}),
		}),
	}
}
