package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// TestLambdasComeUnderLoad creates lambdas, each of which moves a few partitions of the others. For 1.5 s
// some processes know a lambda and some do not, so they disagree about the owners of those partitions; their
// rows, which hold a hash of the members alone, do not show that.
func TestLambdasComeUnderLoad(t *testing.T) {
	inCrew(t, 80*time.Second, time.Second, func(c *crew) {
		for range 5 {
			c.ready(c.join())
		}
		time.Sleep(8 * time.Second)
		for n := range 16 {
			time.Sleep(time.Duration(n) * 130 * time.Millisecond)
			c.lambda(admin.Lambda{Name: fmt.Sprint("come-", n), Shards: 1 + n%7, Priorities: []string{"only"}})
			time.Sleep(2 * time.Second)
		}
		c.allOnTime(80 * time.Second)
	})
}

// TestWhoCreatedALambdaLeaves ends a process with partitions of a lambda that the others do not know yet.
func TestWhoCreatedALambdaLeaves(t *testing.T) {
	inCrew(t, 60*time.Second, 0, func(c *crew) {
		home := c.client
		for n := range 5 {
			p := c.join()
			c.ready(p)
			time.Sleep(3*time.Second + time.Duration(n)*170*time.Millisecond)
			c.client = c.dial(p.transport)
			name := fmt.Sprint("new-", n)
			c.lambda(admin.Lambda{Name: name, Shards: 8, Priorities: []string{"only"}})
			c.work(c.nodes[0], name, quick, sdk.Slots(20), sdk.Name(name))
			for d := 100 * time.Millisecond; d < 8*time.Second; d += 300 * time.Millisecond {
				c.schedule(sdk.Item{Lambda: name, In: d})
			}
			c.client = home
			c.leave(p)
		}
		c.allOnTime(60 * time.Second)
	})
}

// TestOneCountsAKeyWhileLambdasCome creates lambdas that move shards whose tasks are limited by key. Never
// may two processes start the tasks of a shard.
func TestOneCountsAKeyWhileLambdasCome(t *testing.T) {
	const shards, moments = 96, 600
	inFleet(t, 6, func(_ int, c *Config) { c.Store = newDistant(c.Store, 0) }, func(r *rig, _ []*host) {
		r.lambda(admin.Lambda{Name: "mail", Shards: shards, Priorities: []string{"only"}, LimitKeyConcurrency: 1})
		mail, err := r.nodes[0].node.catalog.Lambda("mail")
		if err != nil {
			t.Fatal(err)
		}
		for n := range 16 {
			time.Sleep(time.Duration(n) * 130 * time.Millisecond)
			if _, _, err := r.admin().Lambdas.Create(r.ctx, admin.Lambda{Name: fmt.Sprint("come-", n), Shards: 1 + n%7, Priorities: []string{"only"}}); err != nil {
				t.Fatal(err)
			}
			for range moments {
				time.Sleep(10 * time.Millisecond)
				for _, p := range mail.Partitions() {
					if starts := r.starts(p); starts > 1 {
						t.Errorf("%d processes start the tasks of %v", starts, p)
						return
					}
				}
			}
		}
	})
}

// starts counts the processes that start tasks of a partition with a limit.
func (r *rig) starts(p task.Partition) (processes int) {
	for _, one := range r.nodes {
		if one.node.scheduler.FiresWithin(p, clock.Real().Now()) {
			processes++
		}
	}
	return processes
}

// allOnTime waits for the end of the load, and fails if any task was late.
func (c *crew) allOnTime(load time.Duration) {
	c.Helper()
	time.Sleep(load - time.Since(c.began))
	if worst, tasks := c.late(c.began, time.Now()); worst > plannedMax {
		c.Errorf("one of %d tasks started %v late", tasks, worst)
	}
}
