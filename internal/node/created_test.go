package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

// newcomerMax bounds how late a task may be while the members do not agree about a new lambda: the owner of a
// partition that moved may know of it only with its next look, half a second later.
const newcomerMax = 600 * time.Millisecond

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
			c.lambda(sdk.LambdaInfo{Name: fmt.Sprint("come-", n), Shards: 1 + n%7, Priorities: []string{"only"}})
			time.Sleep(2 * time.Second)
		}
		c.allOnTime(80*time.Second, newcomerMax)
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
			c.lambda(sdk.LambdaInfo{Name: name, Shards: 8, Priorities: []string{"only"}})
			c.work(c.nodes[0], name, quick, sdk.Slots(20), sdk.Name(name))
			for d := 100 * time.Millisecond; d < 8*time.Second; d += 300 * time.Millisecond {
				c.schedule(sdk.Item{Lambda: name, In: d})
			}
			c.client = home
			c.leave(p)
		}
		c.allOnTime(60*time.Second, plannedMax)
	})
}

// allOnTime waits for the end of the load, and fails if any task was later than most.
func (c *crew) allOnTime(load, most time.Duration) {
	c.Helper()
	time.Sleep(load - time.Since(c.began))
	if worst, tasks := c.late(c.began, time.Now()); worst > most {
		c.Errorf("one of %d tasks started %v late", tasks, worst)
	}
}
