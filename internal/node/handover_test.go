package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// The highest cost of a hand-over, besides the lateness without one.
const (
	plannedMax   = 100 * time.Millisecond
	unplannedMax = 10 * time.Second
)

// distant is a store whose calls take a while, and a process's first scan of a partition longer.
type distant struct {
	store.Driver

	first time.Duration
	known *sync.Map
}

func newDistant(d store.Driver, first time.Duration) distant { return distant{d, first, &sync.Map{}} }

const storeAway = 5 * time.Millisecond

func (d distant) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	time.Sleep(storeAway)
	return d.Driver.Apply(ctx, ops)
}

func (d distant) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	time.Sleep(storeAway)
	return d.Driver.Controls(ctx, kind, name)
}

func (d distant) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if _, known := d.known.LoadOrStore(p, true); !known {
		time.Sleep(d.first)
	}
	time.Sleep(storeAway)
	return d.Driver.ScanSchedule(ctx, p, after, through, limit)
}

// crew is a fleet that changes while tasks become due all the time.
type crew struct {
	*rig

	began time.Time
	first time.Duration
	hosts map[*process]*host
	alive []*process
}

// inCrew runs a test with a fleet of one process, which serves the client and the workers and stays, and with
// tasks that are due 20 times a second. The first scan of a partition takes a while.
func inCrew(t *testing.T, load, first time.Duration, test func(c *crew)) {
	t.Helper()
	inFleet(t, 1, func(_ int, c *Config) { c.Store = newDistant(c.Store, first) }, func(r *rig, hosts []*host) {
		c := &crew{rig: r, first: first, hosts: map[*process]*host{r.nodes[0]: hosts[0]}, alive: slices.Clone(r.nodes)}
		r.lambda(admin.Lambda{Name: "mail", Shards: 24, Priorities: []string{"only"}, BackoffMin: time.Second, BackoffMax: 2 * time.Second})
		for i := range 2 {
			r.work(r.nodes[0], "mail", quick, sdk.Slots(20), sdk.Name(fmt.Sprint("w", i)))
		}
		c.began = time.Now()
		for d := 5 * time.Second; d < load; d += 50 * time.Millisecond {
			item := sdk.Item{Lambda: "mail", In: d}
			if r.schedule(item); d%time.Second == 0 {
				item.Key = d.String()
				r.schedule(item)
			}
		}
		test(c)
		time.Sleep(load - time.Since(c.began))
		r.settled(30 * time.Second)
		if runs := r.book.check(t, 1); runs != len(r.book.all()) {
			t.Errorf("%d runs of %d tasks", runs, len(r.book.all()))
		}
	})
}

// join starts one more process.
func (c *crew) join() *process {
	c.Helper()
	var h *host
	p := c.start(drivers{}, []string{""}, 0, func(cfg *Config) {
		h = &host{Away: storetest.NewAway(cfg.Store), Driver: cfg.Queue}
		remote(cfg)
		cfg.Membership, cfg.Store, cfg.Queue = nil, newDistant(hosted{h.Away}, c.first), h
	})
	h.cable.RoundTripper = p.transport
	c.nodes = append(c.nodes, p)
	c.alive = append(c.alive, p)
	c.hosts[p] = h
	return p
}

// ready waits until a process is ready, and returns how long that took.
func (c *crew) ready(p *process) time.Duration {
	c.Helper()
	began := time.Now()
	for p.node.NotReady() != "" {
		if time.Since(began) > 20*time.Second {
			c.Fatal(p.node.NotReady())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// leave ends a process in order.
func (c *crew) leave(p *process) time.Duration {
	began := time.Now()
	p.stop()
	c.alive = slices.DeleteFunc(c.alive, func(q *process) bool { return q == p })
	return time.Since(began)
}

// kill cuts a process off from everything.
func (c *crew) kill(p *process) {
	c.hosts[p].lose()
	c.alive = slices.DeleteFunc(c.alive, func(q *process) bool { return q == p })
}

// shared fails unless each partition has exactly one owner, which is warm.
func (c *crew) shared() (loads []int) {
	c.Helper()
	l, err := c.nodes[0].node.catalog.Lambda("mail")
	if err != nil {
		c.Fatal(err)
	}
	fired := map[task.Partition]int{}
	for _, p := range c.alive {
		share := p.node.scheduler.Assignment()
		if share.Warm == 0 || len(share.Members) != len(c.alive) {
			c.Errorf("a process knows %d members of %d, warm after %v", len(share.Members), len(c.alive), share.Warm)
		}
		loads = append(loads, share.Owned)
		for _, one := range l.Partitions() {
			if p.node.scheduler.Fires(one) {
				fired[one]++
			}
		}
	}
	for _, one := range l.Partitions() {
		if fired[one] != 1 {
			c.Errorf("%v is fired by %d processes", one, fired[one])
		}
	}
	return loads
}

// late returns the lateness of tasks due in a period, the latest first.
func (c *crew) late(from, to time.Time) (worst time.Duration, tasks int) {
	c.Helper()
	for _, id := range c.book.all() {
		info, err := c.client.Get(c.ctx, id)
		if err != nil {
			c.Fatal(err)
		}
		if info.Due.Before(from) || info.Due.After(to) || info.Started.IsZero() {
			continue
		}
		tasks++
		worst = max(worst, info.Started.Sub(info.Due))
	}
	return worst, tasks
}

func TestAFleetIsScaledUnderLoad(t *testing.T) {
	inCrew(t, 80*time.Second, time.Second, func(c *crew) {
		time.Sleep(6 * time.Second)
		var took []time.Duration
		for range 2 {
			took = append(took, c.ready(c.join()))
		}
		time.Sleep(8 * time.Second)
		t.Logf("3 processes, ready after %v, have %v", took, c.shared())
		took = nil
		first := []*process{c.join(), c.join(), c.join()} // at once
		for _, p := range first {
			took = append(took, c.ready(p))
		}
		time.Sleep(12 * time.Second)
		t.Logf("6 processes, ready after %v, have %v", took, c.shared())
		done := make(chan time.Duration, 4)
		for _, p := range slices.Clone(c.alive[1:5]) {
			go func() { began := time.Now(); p.stop(); done <- time.Since(began) }()
		}
		took = nil
		for range 4 {
			took = append(took, <-done)
		}
		c.alive = append(c.alive[:1], c.alive[5:]...)
		time.Sleep(10 * time.Second)
		t.Logf("2 processes, the others ended within %v, have %v", took, c.shared())
		time.Sleep(80*time.Second - time.Since(c.began))
		worst, tasks := c.late(c.began, time.Now())
		t.Logf("%d tasks, the latest by %v", tasks, worst)
		if worst > plannedMax {
			t.Errorf("a task started %v late", worst)
		}
	})
}

func TestAKilledProcessIsMissedForSeconds(t *testing.T) {
	inCrew(t, 80*time.Second, 0, func(c *crew) {
		for range 2 {
			c.ready(c.join())
		}
		time.Sleep(10*time.Second + 700*time.Millisecond)
		killed := time.Now()
		c.kill(c.alive[1])
		time.Sleep(12 * time.Second)
		t.Logf("have %v", c.shared())
		time.Sleep(80*time.Second - time.Since(c.began))
		before, _ := c.late(c.began, killed.Add(-time.Second))
		gap, _ := c.late(killed, killed.Add(unplannedMax))
		after, _ := c.late(killed.Add(unplannedMax), time.Now())
		t.Logf("before %v, then %v, after %v late", before, gap, after)
		// Wake-ups send the messages again that it had taken and not sent.
		if before > plannedMax || gap > task.EnqueueTimeout || after > plannedMax {
			t.Error("later than planned")
		}
	})
}

// TestAChangeDuringAnOutage ends one process and starts another while the store is away for all.
func TestAChangeDuringAnOutage(t *testing.T) {
	inCrew(t, 90*time.Second, 0, func(c *crew) {
		for range 2 {
			c.ready(c.join())
		}
		time.Sleep(10 * time.Second)
		set := func(away bool) {
			for _, p := range c.alive {
				c.hosts[p].Set(away, away)
			}
		}
		fresh := c.join()
		time.Sleep(20 * time.Millisecond)
		set(true)
		go c.alive[1].stop()
		leaver := c.alive[1]
		time.Sleep(10 * time.Second)
		set(false)
		back := time.Now()
		c.ready(fresh)
		c.alive = slices.DeleteFunc(c.alive, func(q *process) bool { return q == leaver })
		time.Sleep(12 * time.Second)
		t.Logf("have %v", c.shared())
		time.Sleep(90*time.Second - time.Since(c.began))
		gap, _ := c.late(back, back.Add(unplannedMax))
		after, _ := c.late(back.Add(unplannedMax), time.Now())
		t.Logf("due in the ten seconds after the outage: %v late, later: %v", gap, after)
		if after > plannedMax {
			t.Errorf("%v late after it was over", after)
		}
	})
}

func TestTheReadinessOfAProcess(t *testing.T) {
	inCrew(t, 20*time.Second, 0, func(c *crew) {
		if why := c.nodes[0].node.NotReady(); why != "" {
			t.Error(why)
		}
		p := c.join()
		if why := p.node.NotReady(); !strings.HasPrefix(why, "not ready: ") {
			t.Errorf("at once %q", why)
		}
		c.ready(p)
		if why := p.node.NotLive(); why != "" {
			t.Error(why)
		}
		go p.stop()
		time.Sleep(time.Millisecond)
		if why := p.node.NotReady(); !strings.Contains(why, "stopping") {
			t.Errorf("while it ends %q", why)
		}
		time.Sleep(fleet.FarewellMax)
	})
}

// TestDeliveriesChangeHandsInTime does the same with deliver lambdas, whose tasks must not be sent twice.
func TestDeliveriesChangeHandsInTime(t *testing.T) {
	inTown(t, func(w *town) {
		first := w.start(remote)
		first.lambda(12)
		second := w.start(remote)
		w.advance(5 * time.Second)
		var ids []string
		for n := range 1200 {
			i := item(2*time.Second + time.Duration(n)*50*time.Millisecond)
			if n%3 == 0 {
				i.Key = fmt.Sprint(n)
			}
			ids = append(ids, first.schedule(i)...)
		}
		w.advance(10 * time.Second)
		third := w.start(remote)
		w.advance(12 * time.Second)
		second.stop()
		w.advance(15 * time.Second)
		fourth := w.start(remote)
		third.stop()
		w.advance(30 * time.Second)
		w.wantDelivered(plannedMax, ids...)
		for _, p := range []*sender{second, third, fourth} {
			if p.steps("send") == 0 {
				t.Error("a process had no part")
			}
		}
	})
}

// TestPartitionsComeAndGoEverywhere creates and deletes lambdas at all times between two refreshes of the
// others.
func TestPartitionsComeAndGoEverywhere(t *testing.T) {
	inCrew(t, 0, 0, func(c *crew) {
		for range 2 {
			c.ready(c.join())
		}
		time.Sleep(5 * time.Second)
		const within = 2 * time.Second
		fired := func(ref uint32, shards int) (wrong int) {
			for shard := range shards {
				owners := 0
				for _, p := range c.alive {
					if p.node.scheduler.Assignment().Warm > 0 && p.node.scheduler.Fires(task.Partition{Lambda: ref, Shard: uint16(shard)}) {
						owners++
					}
				}
				if owners != 1 {
					wrong++
				}
			}
			return wrong
		}
		slowest := time.Duration(0)
		for n := range 12 {
			time.Sleep(time.Duration(n) * 130 * time.Millisecond)
			name := fmt.Sprint("come-", n)
			if _, _, err := admin.New(c.client).Lambdas.Create(c.ctx, admin.Lambda{Name: name, Shards: 9, Priorities: []string{"only"}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(within)
			l, err := c.nodes[0].node.catalog.Lambda(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range c.alive {
				slowest = max(slowest, p.node.scheduler.Assignment().Warm)
			}
			if wrong := fired(l.Ref, 9); wrong > 0 {
				t.Errorf("%d of 9 partitions are not fired by exactly one process %v after they came", wrong, within)
			}
			if n%3 == 0 {
				if _, err := admin.New(c.client).Lambdas.Delete(c.ctx, name, admin.LambdaDeleteOptions{DropTasks: true}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(within)
				for shard := range 9 {
					for _, p := range c.alive {
						if p.node.scheduler.Fires(task.Partition{Lambda: l.Ref, Shard: uint16(shard)}) {
							t.Errorf("a partition is fired %v after it went", within)
						}
					}
				}
			}
		}
		t.Logf("partitions are fired %v after they are known, at the latest", slowest)
	})
}

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
