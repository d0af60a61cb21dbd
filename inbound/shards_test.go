package inbound_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// grow gives lambda mail more shards, which come into force after catalog.GrownAfter.
func (f *fixture) grow(shards uint32) *kinesinv1.Lambda {
	f.t.Helper()
	r, err := f.UpdateLambda(f.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: &lambda{Name: "mail", Shards: shards}}))
	if err != nil {
		f.t.Fatal(err)
	}
	f.relearn()
	return r.Lambda
}

// relearn has the fixture read all partitions that there are by now.
func (f *fixture) relearn() {
	f.t.Helper()
	var err error
	if f.lambda, err = f.Catalog.Lambda("mail"); err != nil {
		f.t.Fatal(err)
	}
}

// requestAt is a request id that a client made then.
func requestAt(at task.Instant, n int) []byte {
	id := task.NewID(at, uint64(n), uint64(n)*0x9e3779b97f4a7c15)
	return id[:]
}

// spread counts the shards that wake-up rows are in.
func (f *fixture) spread() map[uint16]int {
	f.t.Helper()
	shards := map[uint16]int{}
	for _, row := range f.wakeupRows() {
		shards[row.Partition.Shard]++
	}
	return shards
}

func TestShardsGrow(t *testing.T) {
	run(t, func(f *fixture) {
		grown := f.grow(8)
		from := f.clock.Now().Add(catalog.GrownAfter)
		if grown.Shards != 8 || grown.ShardsFrom != int64(from) {
			t.Errorf("%v", grown)
		}
		if again := f.grow(8); again.Version != grown.Version {
			t.Errorf("the same again: %v", again)
		}
		for range 100 {
			f.accept(in(time.Hour))
		}
		if got := f.spread(); len(got) != 2 {
			t.Errorf("before they are in force tasks are spread as %v", got)
		}
		f.time.Advance(catalog.GrownAfter)
		var ids []string
		for range 400 {
			ids = append(ids, f.accept(in(time.Hour)))
		}
		if got := f.spread(); len(got) != 8 {
			t.Errorf("then as %v", got)
		}
		if outcome := f.cancel(ids[17]).Outcome; outcome != "cancelled" || f.get(ids[17]).Task.State != "cancelled" {
			t.Errorf("a cancel is %q", outcome)
		}
		if listed, _ := f.list("scheduled", 50); len(listed) != 499 {
			t.Errorf("%d are listed", len(listed))
		}
		if _, err := f.remove(time.Minute, false); err == nil {
			t.Error("deleted with live tasks in shards that it did not always have")
		}
		if dropped, err := f.remove(time.Minute, true); err != nil || dropped != 499 {
			t.Errorf("dropped %d, %v", dropped, err)
		}
	})
}

// TestAListGoesOnWhileShardsGrow: what was there before the first page is on one page, and on no other.
func TestAListGoesOnWhileShardsGrow(t *testing.T) {
	run(t, func(f *fixture) {
		for n := range 60 {
			f.accept(with(in(time.Hour), func(i *item) { i.Priority = []string{"high", "normal", "low"}[n%3] }))
		}
		seen, cursor := map[string]int{}, []byte(nil)
		for page := 0; page == 0 || len(cursor) > 0; page++ {
			r, err := f.List(f.ctx, &kinesinv1.ListRequest{Lambda: "mail", Limit: 7, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Tasks {
				seen[v.Id]++
			}
			if cursor = r.Next; page == 3 {
				f.grow(16)
			}
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%s came %d times", id, n)
			}
		}
		if len(seen) != 60 {
			t.Errorf("%d of 60 tasks", len(seen))
		}
	})
}

// TestACallIsTheSameAcrossAGrowth repeats calls, by request id and by key, before and after a new count of
// shards comes into force.
func TestACallIsTheSameAcrossAGrowth(t *testing.T) {
	const calls = 60
	for _, ahead := range []time.Duration{-time.Hour, 0, catalog.IDAheadMax} {
		run(t, func(f *fixture) {
			var items []*item
			made := f.clock.Now().Add(ahead)
			due := int64(f.clock.Now().Add(time.Hour))
			for n := range calls {
				items = append(items,
					&item{Lambda: "mail", Due: due, RequestId: requestAt(made, n)},
					&item{Lambda: "mail", Due: due, Key: fmt.Sprint("key-", n)})
			}
			first := f.schedule(items...)
			for _, shards := range []uint32{4, 32} {
				f.grow(shards)
				for _, wait := range []time.Duration{0, catalog.GrownAfter - 1, 1, time.Minute} {
					f.time.Advance(wait)
					for n, r := range f.schedule(items...) {
						if r.Problem != nil || r.Id != first[n].Id || !r.Duplicate {
							t.Errorf("%v ahead, call %d again: %v, first it was %v", ahead, n, r, first[n])
						}
					}
				}
			}
			if n := len(f.wakeupRows()); n != 2*calls {
				t.Errorf("%d wake-up rows of %d tasks", n, 2*calls)
			}
			f.schedule(with(in(time.Hour), func(i *item) { i.Key = "later" }))
			for _, row := range f.wakeupRows() {
				if row.Key != "" && row.Partition.Shard > 1 {
					t.Errorf("key %s is in shard %d, of a later count", row.Key, row.Partition.Shard)
				}
			}
		})
	}
}

// TestABufferedTaskIsTheSameAcrossAGrowth has messages of the buffer come again after a new count of shards
// came into force.
func TestABufferedTaskIsTheSameAcrossAGrowth(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.set(func() { b.forget = true }) // each message comes again and again
		var tasks []*kinesinv1.BufferedTask
		for range 20 {
			tasks = append(tasks, b.q1(20*time.Hour, nil))
		}
		b.put(tasks...)
		ids := make([]string, 0, 40)
		for _, v := range tasks {
			ids = append(ids, v.Id)
		}
		var items []*item
		for range 20 {
			items = append(items, in(20*time.Hour))
		}
		ids = append(ids, b.accepted(items...)...)
		b.drain(5 * time.Second)
		rows := b.wakeupRows()
		if len(rows) != len(ids) {
			t.Fatalf("%d wake-up rows of %d tasks", len(rows), len(ids))
		}
		b.grow(16)
		b.advance(catalog.GrownAfter)
		b.drain(5 * time.Minute)
		if again := b.wakeupRows(); len(again) != len(rows) {
			t.Errorf("%d wake-up rows when they came again, and %d before", len(again), len(rows))
		}
		for _, id := range ids {
			if got := b.state(id); got != "scheduled" {
				t.Errorf("%s is %s", id, got)
			}
		}
		late := b.q1(20*time.Hour, nil)
		b.put(late)
		b.drain(time.Second)
		if outcome := b.cancel(late.Id).Outcome; outcome != "cancelled" || b.state(late.Id) != "cancelled" {
			t.Errorf("one of after the growth: %q, %s", outcome, b.state(late.Id))
		}
		if len(b.aside) > 0 {
			t.Errorf("set aside: %q", b.aside)
		}
	})
}

// TestWhoIsStaleReadsFirst has a process stand still while another one grows the shards, and then place tasks
// by the old count: it takes them back, and the repeated calls find their place.
func TestWhoIsStaleReadsFirst(t *testing.T) {
	runWith(t, func(_ *fixture, c *settings) { c.Shared = true }, func(f *fixture) {
		other := f.elsewhere()
		if _, err := other.Update(f.ctx, "mail", func(l *task.Lambda) error { return l.Grow(16, other.GrownFrom()) }); err != nil {
			t.Fatal(err)
		}
		f.time.Advance(catalog.GrownAfter + time.Minute)
		var items []*item
		for n := range 100 {
			items = append(items, &item{Lambda: "mail", Due: int64(f.clock.Now().Add(time.Hour)), RequestId: requestAt(f.clock.Now(), n)})
		}
		refused := 0
		for _, r := range f.schedule(items...) {
			if r.Problem != nil {
				wantRefusal(t, "misplaced", r.Problem, kinesinv1.Reason_REASON_UNAVAILABLE, "shards have grown", "try again")
				refused++
			}
		}
		f.relearn()
		if n := len(f.wakeupRows()); refused == 0 || refused == 100 || n != 100-refused {
			t.Errorf("%d of 100 are refused, and there are %d wake-up rows", refused, n)
		}
		for _, r := range f.schedule(items...) {
			if r.Problem != nil {
				t.Errorf("again: %v", r.Problem)
			}
		}
		if n, shards := len(f.wakeupRows()), f.spread(); n != 100 || len(shards) != 16 {
			t.Errorf("%d wake-up rows, in shards %v", n, shards)
		}
	})
}

// TestAStaleProcessFindsWhatItsClientsSent asks it for tasks that came through the buffer, whose ids do not
// say where they are.
func TestAStaleProcessFindsWhatItsClientsSent(t *testing.T) {
	runBuffered(t, func(c *settings) { c.Shared = true }, func(b *buffered) {
		other := b.elsewhere()
		if _, err := other.Update(b.ctx, "mail", func(l *task.Lambda) error { return l.Grow(64, other.GrownFrom()) }); err != nil {
			t.Fatal(err)
		}
		b.advance(catalog.GrownAfter + time.Minute)
		var ids []string
		for n := range 20 {
			now := b.clock.Now()
			v := b.q1(time.Hour, func(_ *kinesinv1.BufferedTask, k *task.InboundToken) {
				k.ID = task.NewID(now, uint64(n), uint64(n)*0x9e3779b97f4a7c15)
			})
			ids = append(ids, v.Id)
			l, err := other.Lambda("mail")
			if err != nil {
				t.Fatal(err)
			}
			token, err := b.openAs(l, v.Id)
			if err != nil {
				t.Fatal(err)
			}
			row := task.Task{
				ID: token.ID, Partition: token.Partition, Due: token.Due, State: task.Scheduled, Seq: 1, Created: now,
			}
			b.apply(store.First(row)...)
		}
		for n, id := range ids {
			if n%2 == 0 {
				b.advance(time.Minute) // stale again
			}
			if got := b.cancel(id); got.State != "scheduled" || got.Outcome != "cancelled" {
				t.Errorf("cancel of %s: %v", id, got)
			}
		}
		b.relearn()
		if n := len(b.waitingRows()); n != 0 {
			t.Errorf("%d wake-up rows are left", n)
		}
	})
}

// TestABufferedTaskIsWhereItsIDSays has a process that stood still while the shards grew put tasks into the
// buffer: callers have their ids already.
func TestABufferedTaskIsWhereItsIDSays(t *testing.T) {
	runBuffered(t, func(c *settings) { c.Shared = true }, func(b *buffered) {
		other := b.elsewhere()
		if _, err := other.Update(b.ctx, "mail", func(l *task.Lambda) error { return l.Grow(16, other.GrownFrom()) }); err != nil {
			t.Fatal(err)
		}
		b.advance(catalog.GrownAfter + time.Minute)
		var items []*item
		for range 20 {
			items = append(items, in(time.Hour))
		}
		ids := b.accepted(items...)
		if err := b.Catalog.Refresh(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.drain(time.Second)
		b.relearn()
		for _, id := range ids {
			if got := b.state(id); got != "scheduled" {
				t.Errorf("%s is %s", id, got)
			}
		}
		if n := len(b.wakeupRows()); n != len(ids) {
			t.Errorf("%d wake-up rows", n)
		}
	})
}

// openAs is the token of an id that a client issued, by a lambda's newest count.
func (b *buffered) openAs(l *catalog.Entry, id string) (task.Token, error) {
	q, err := b.seal.Open(b.ctx, id)
	if err != nil {
		return task.Token{}, err
	}
	priority, err := l.Priority(q.Priority)
	p := task.Partition{Lambda: l.Ref, Priority: priority, Shard: partition.ShardOf(q.ID, l.Shards)}
	return task.Token{ID: q.ID, Due: q.Due, Partition: p}, err
}

// TestIDsAheadOfTheClock are refused beyond what a new count of shards waits for.
func TestIDsAheadOfTheClock(t *testing.T) {
	run(t, func(f *fixture) {
		now := f.clock.Now()
		for ahead, ok := range map[time.Duration]bool{0: true, catalog.IDAheadMax: true, catalog.IDAheadMax + time.Millisecond: false, -24 * time.Hour: true} {
			r := f.schedule(with(in(time.Hour), func(i *item) { i.RequestId = requestAt(now.Add(ahead), 7) }))[0]
			if (r.Problem == nil) != ok {
				t.Errorf("%v ahead: %v", ahead, r.Problem)
			}
		}
	})
}
