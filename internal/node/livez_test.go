package node

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
)

// awayQueue is a queue whose calls hang and then fail, for a while.
type awayQueue struct {
	queue.Driver

	takes atomic.Int64 // nanoseconds; 0: it is there
}

func (q *awayQueue) call() error {
	takes := time.Duration(q.takes.Load())
	if takes == 0 {
		return nil
	}
	time.Sleep(takes)
	return fmt.Errorf("after %v: %w", takes, storetest.ErrAway)
}

func (q *awayQueue) Send(ctx context.Context, messages []queue.Message) []error {
	err := q.call()
	if err == nil {
		return q.Driver.Send(ctx, messages)
	}
	errs := make([]error, len(messages))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (q *awayQueue) Depth(ctx context.Context, name queue.Name) (queue.Depth, error) {
	if err := q.call(); err != nil {
		return queue.Depth{}, err
	}
	return q.Driver.Depth(ctx, name)
}

// TestAnOutageIsNoStuckLoop makes every call hang and then fail, for ten minutes, under load: if that made a
// pod look stuck, an outage of the store or the queues would restart all pods.
func TestAnOutageIsNoStuckLoop(t *testing.T) {
	const takes = 9 * time.Second
	for _, c := range []struct {
		name         string
		store, queue bool
	}{{"store", true, false}, {"queue", false, true}, {"both", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			var away *storetest.Away
			over := func(d store.Driver) store.Driver { away = storetest.NewAway(d); return away }
			q := &awayQueue{Driver: queuemem.New(clock.Real(), queuemem.Config{DepthMax: 1 << 20})}
			inRig(t, drivers{over: over, queue: func() queue.Driver { return q }}, 1, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail"})
				for range 12 {
					r.work(r.nodes[0], "mail", lasts)
				}
				for i := range 100 {
					r.lasting(2*time.Minute, time.Duration(i)*100*time.Millisecond)
				}
				for i := range 200 {
					r.lasting(time.Millisecond, 30*time.Second+time.Duration(i)*3*time.Second)
				}
				time.Sleep(30 * time.Second)
				away.Takes(takes)
				away.Set(c.store, c.store)
				if c.queue {
					q.takes.Store(int64(takes))
				}
				var most time.Duration
				for range 600 {
					time.Sleep(time.Second)
					most = max(most, r.nodes[0].node.scheduler.Stalled())
					if why := r.nodes[0].node.notLive(); why != "" {
						t.Fatal(why)
					}
				}
				t.Logf("no progress for %v at most", most)
				away.Set(false, false)
				q.takes.Store(0)
				r.settled(30 * time.Minute)
			})
		})
	}
}
