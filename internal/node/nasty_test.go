package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// TestANastyQueueCostsLittle runs tasks through a queue that delivers twice, loses messages for a visibility
// timeout and returns deleted ones: each task runs exactly once and in time, and duplicates are refused
// without a write.
func TestANastyQueueCostsLittle(t *testing.T) {
	for _, matched := range []bool{false, true} {
		t.Run(fmt.Sprintf("matched=%v", matched), func(t *testing.T) { nastyQueueCostsLittle(t, matched) })
	}
}

func nastyQueueCostsLittle(t *testing.T, matched bool) {
	t.Helper()
	var nasty *queuetest.Nasty
	d := drivers{
		queue: func() queue.Driver {
			below := queuemem.New(clock.Real(), queuemem.Config{DepthMax: 1 << 20})
			nasty = queuetest.NewNasty(below, clock.Real(), queuetest.Manners{Twice: 0.1, Lost: 0.05, Undead: 0.1, Seed: 1})
			return nasty
		},
	}
	inRig(t, d, 2, func(c *Config) { remote(c); c.NoMatch = !matched }, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Timeout: time.Hour, Shards: 2, BackoffMin: time.Second, BackoffMax: 2 * time.Second})
		failing := func(ctx context.Context, t *sdk.Task[[]byte]) error {
			if t.Failures == 0 && t.Payload[0] == '5' {
				return errors.New("not this time")
			}
			return lasts(ctx, t)
		}
		for i := range 4 {
			r.work(r.nodes[i%2], "mail", failing, sdk.Slots(50))
		}
		r.tally.take()
		const n, failed = 1000, 250
		for i := range n {
			ran := 20 * time.Millisecond
			switch i % 4 {
			case 0:
				ran = 50 * time.Millisecond // these fail once
			case 1:
				ran = time.Minute
			}
			r.lasting(ran, time.Duration(i)*50*time.Millisecond)
		}
		r.settled(30 * time.Minute)
		time.Sleep(5 * time.Minute) // what was deleted comes again
		runs := r.book.check(t, 2)
		if runs != n+failed {
			t.Errorf("%d runs, want %d", runs, n+failed)
		}
		got, stats := r.tally.take(), nasty.Stats()
		if stats.Twice == 0 || stats.Lost == 0 || stats.Undead == 0 || stats.TimedOut == 0 {
			t.Errorf("the queue was not nasty: %+v", stats)
		}
		// Five writes for each task, a start for long ones, three for a retry, or five if another process
		// owns its partition, so that its wake-up row moves; two for each message sent again because it was
		// invisible for longer than the enqueue timeout.
		most := n*5 + n/4 + failed*4 + 2*stats.Lost + 60
		if got.tasks > most {
			t.Errorf("%d writes, want %d at most", got.tasks, most)
		}
		if most := (stats.Twice + stats.Undead) / 3; got.beaten > most {
			t.Errorf("%d writes were refused, want %d at most", got.beaten, most)
		}
		t.Logf("%+v; %d writes of tasks, at most %d, %d of them refused, %d units, %d reads", stats, got.tasks, most, got.beaten, got.units, got.reads)
	})
}
