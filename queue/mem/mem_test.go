package mem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/task"
)

const start = task.Instant(1_700_000_000_000_000)

func TestConformance(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queuetest.Harness {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(30 * time.Millisecond)
		const depthMax = 8
		return queuetest.Harness{
			Driver: mem.New(c, mem.Config{DepthMax: depthMax}), Now: c.Now, Advance: v.Advance,
			DepthMax: depthMax, Exact: true,
		}
	})
}
