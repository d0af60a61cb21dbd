package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// late is a store whose reads of lambdas return late, with the state from when they were asked.
type late struct {
	store.Driver

	mu sync.Mutex // guards by
	by time.Duration
}

func (l *late) set(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by = by
}

func (l *late) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	rows, err := l.Driver.Controls(ctx, kind, name)
	l.mu.Lock()
	by := l.by
	l.mu.Unlock()
	if kind == catalog.Kind && name == "" {
		time.Sleep(by)
	}
	return rows, err
}

// shardsOf counts the wake-up rows in each shard of a lambda, and fails unless each is where its id says.
func (r *rig) shardsOf(l *catalog.Entry) map[uint16]int {
	r.Helper()
	shards := map[uint16]int{}
	for _, p := range l.Partitions() {
		rows, err := r.store.ScanSchedule(r.ctx, p, store.WakeKey{}, task.InstantOf(time.Now().Add(24*time.Hour)), 10_000)
		if err != nil {
			r.Fatal(err)
		}
		for i := range rows {
			shards[p.Shard]++
			if want := partition.ShardOf(rows[i].ID, l.ShardsFor(rows[i].ID)); p.Shard != want {
				r.Errorf("task %s is in shard %d, and nobody looks for it there but in %d", rows[i].ID, p.Shard, want)
			}
		}
	}
	return shards
}

// TestShardsGrowUnderLoad grows the shards of a lambda twice while two processes accept tasks for it, one of
// which learns of it late: no task is lost, none runs twice, and later ones are spread over all shards.
func TestShardsGrowUnderLoad(t *testing.T) {
	slow := &late{}
	config := func(i int, c *Config) {
		if i == 1 {
			slow.Driver = c.Store
			c.Store = slow
		}
	}
	inFleet(t, 2, config, func(r *rig, _ []*host) {
		r.lambda(admin.Lambda{Name: "mail", Shards: 2})
		for _, p := range r.nodes {
			r.work(p, "mail", quick, sdk.Slots(20))
		}
		clients := []*sdk.Client{r.dial(r.nodes[0].transport), r.dial(r.nodes[1].transport)}
		slow.set(2 * time.Second)
		began := time.Now()
		for i := 0; time.Since(began) < 15*time.Minute; i++ {
			switch i {
			case 300, 900: // 1 and 3 minutes: the second one before the first is in force
				l, err := admin.New(clients[0]).Lambdas.Update(r.ctx, admin.Lambda{Name: "mail", Shards: i / 75}, admin.LambdaUpdateOptions{})
				if err != nil || l.Shards != i/75 || !l.ShardsFrom.After(time.Now()) {
					t.Fatalf("%+v, %v", l, err)
				}
			}
			r.client = clients[i%2]
			item := sdk.Item{Lambda: "mail", In: []time.Duration{0, 2 * time.Second, 20 * time.Second, 3 * time.Minute, time.Minute}[i%5]}
			if i%7 == 0 {
				item.Key = fmt.Sprint("key-", i)
			}
			id := r.schedule(item)
			if i%7 == 0 && i > 700 { // one of a minute or two ago
				r.client = clients[(i+1)%2]
				again, err := r.client.Schedule(r.ctx, sdk.Item{Lambda: "mail", In: time.Minute, Key: fmt.Sprint("key-", i)})
				if err != nil || again.ID != id && again.Duplicate {
					t.Errorf("key-%d again is %v, %v; it was %s", i, again, err, id)
				}
				if err == nil && again.ID != id {
					r.book.accepted(again.ID)
				}
			}
			time.Sleep(200 * time.Millisecond)
		}
		l, err := r.nodes[0].node.catalog.Lambda("mail")
		if err != nil {
			t.Fatal(err)
		}
		if shards := r.shardsOf(l); len(shards) != 12 {
			t.Errorf("tasks wait in shards %v, want all of 12", shards)
		}
		if _, wrong := r.owners("mail"); wrong > 0 {
			t.Errorf("%d partitions are not fired by exactly one", wrong)
		}
		time.Sleep(4 * time.Minute)
		r.settled(time.Minute)
		r.book.check(t, 1)
		r.onTime(5 * time.Second) // partitions move when there are more of them, and who hears of that late takes over late
	})
}

// TestAProcessThatStoodStillPlacesNothingByAnOldCount delays all that one process reads of lambdas until a
// new number of shards is in force, and has it accept tasks at that moment.
func TestAProcessThatStoodStillPlacesNothingByAnOldCount(t *testing.T) {
	slow := &late{}
	config := func(i int, c *Config) {
		if i == 1 {
			slow.Driver = c.Store
			c.Store = slow
		}
	}
	inFleet(t, 2, config, func(r *rig, _ []*host) {
		r.lambda(admin.Lambda{Name: "mail", Shards: 2})
		r.work(r.nodes[0], "mail", quick, sdk.Slots(20))
		slow.set(catalog.GrownAfter + 30*time.Second)
		time.Sleep(5 * time.Second)
		if _, err := r.admin().Lambdas.Update(r.ctx, admin.Lambda{Name: "mail", Shards: 16}, admin.LambdaUpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(catalog.GrownAfter + time.Second)
		if l, err := r.nodes[1].node.catalog.Lambda("mail"); err != nil || l.Shards != 2 {
			t.Fatalf("it knows of %d shards, %v", l.Shards, err)
		}
		slow.set(0)
		stale := r.dial(r.nodes[1].transport)
		items := make([]sdk.Item, 50)
		for i := range items {
			items[i] = sdk.Item{Lambda: "mail", In: time.Minute}
		}
		results, err := stale.ScheduleMany(r.ctx, items)
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range results {
			r.book.accepted(result.ID)
		}
		l, err := r.nodes[0].node.catalog.Lambda("mail")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		shards := r.shardsOf(l)
		for _, rows := range shards {
			n += rows
		}
		if n != 50 || len(shards) < 12 {
			t.Errorf("%d wake-up rows of 50 tasks, in shards %v", n, shards)
		}
		time.Sleep(2 * time.Minute)
		r.settled(time.Minute)
		r.book.check(t, 1)
	})
}
