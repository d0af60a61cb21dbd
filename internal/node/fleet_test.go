package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/partition/partitiontest"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// host is the machine of one process of a fleet: its connections can be cut, for good or for a while.
type host struct {
	*storetest.Away
	queue.Driver

	lost  atomic.Bool
	cable cable
}

// Durable reports that messages outlive the process, as those of a service do.
func (h *host) Durable() bool { return true }

func (h *host) Close() error { return nil }

// Send fails if the host is lost.
func (h *host) Send(ctx context.Context, messages []queue.Message) []error {
	if h.lost.Load() {
		return repeated(errCut, len(messages))
	}
	return h.Driver.Send(ctx, messages)
}

func repeated(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// Receive returns nothing if the host is lost. It keeps what it received then, and nobody sees that again.
func (h *host) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	if h.lost.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.Driver.Receive(ctx, names, limit, ahead)
}

// lose cuts the host off, which for all others is like killing it.
func (h *host) lose() {
	h.lost.Store(true)
	h.Set(true, true)
	h.cable.set(true)
}

// hosted is the store of a host; both its drivers have methods with the same names.
type hosted struct{ *storetest.Away }

func (hosted) Close() error { return nil }

// inFleet runs a test with processes that find each other by lease rows.
func inFleet(t *testing.T, nodes int, config func(i int, c *Config), test func(r *rig, hosts []*host)) {
	t.Helper()
	var hosts []*host
	each := func(c *Config) {
		h := &host{Away: storetest.NewAway(c.Store), Driver: c.Queue}
		remote(c)
		c.Membership, c.Store, c.Queue = nil, hosted{h.Away}, h
		if config != nil {
			config(len(hosts), c)
		}
		hosts = append(hosts, h)
	}
	inRig(t, drivers{}, nodes, each, func(r *rig) {
		for i, h := range hosts {
			h.cable.RoundTripper = r.nodes[i].transport
		}
		time.Sleep(2 * fleet.RenewEvery)
		test(r, hosts)
	})
}

// owners counts the partitions of each node, and those without exactly one owner.
func (r *rig) owners(lambda string) (each []int, wrong int) {
	l, err := r.nodes[0].node.catalog.Lambda(lambda)
	if err != nil {
		r.Fatal(err)
	}
	count := map[task.Partition]int{}
	for _, p := range r.nodes {
		owned := partitiontest.Owned(p.node.members, l.Partitions())
		each = append(each, len(owned))
		for _, one := range owned {
			count[one]++
		}
	}
	for _, one := range l.Partitions() {
		if count[one] != 1 {
			wrong++
		}
	}
	return each, wrong
}

// onTime fails unless every task started within a bound.
func (r *rig) onTime(most time.Duration) {
	r.Helper()
	late, worst := 0, time.Duration(0)
	for _, id := range r.book.all() {
		info, err := r.client.Get(r.ctx, id)
		if err != nil {
			r.Fatal(err)
		}
		if by := info.Started.Sub(info.Due); by > most {
			late++
			worst = max(worst, by)
		}
	}
	if late > 0 {
		r.Errorf("%d of %d tasks started later than %v, the latest by %v", late, len(r.book.all()), most, worst)
	}
}

func TestOthersTakeOverFromALostProcess(t *testing.T) {
	inFleet(t, 3, nil, func(r *rig, hosts []*host) {
		r.lambda(admin.Lambda{Name: "mail", Shards: 6})
		r.work(r.nodes[1], "mail", quick, sdk.Slots(20))
		r.work(r.nodes[2], "mail", quick, sdk.Slots(20))
		r.client = r.dial(r.nodes[1].transport)
		for i := range 600 {
			r.schedule(sdk.Item{Lambda: "mail", In: 20*time.Second + time.Duration(i)*100*time.Millisecond})
		}
		time.Sleep(40 * time.Second)
		hosts[0].lose()
		time.Sleep(9 * time.Second)
		l, err := r.nodes[1].node.catalog.Lambda("mail")
		if err != nil {
			t.Fatal(err)
		}
		owned := 0
		for _, p := range r.nodes[1:] {
			owned += len(partitiontest.Owned(p.node.members, l.Partitions()))
		}
		if owned != len(l.Partitions()) {
			t.Errorf("the two that are left fire %d of %d partitions", owned, len(l.Partitions()))
		}
		time.Sleep(40 * time.Second)
		r.settled(30 * time.Second)
		if runs := r.book.check(t, 1); runs != 600 {
			t.Errorf("%d runs of 600 tasks", runs)
		}
		// The others remove it after 8 s and then read its partitions; a wake-up sends a message that it held
		// again.
		r.onTime(task.EnqueueTimeout + 2*time.Second)
	})
}

func TestLambdasAreKnownEverywhereAtOnce(t *testing.T) {
	inFleet(t, 2, nil, func(r *rig, _ []*host) {
		other := r.dial(r.nodes[1].transport)
		time.Sleep(catalog.RefreshEvery + time.Millisecond)
		if _, _, err := r.admin().Lambdas.Create(r.ctx, admin.Lambda{Name: "mail"}); err != nil {
			t.Fatal(err)
		}
		if all, err := admin.New(other).Lambdas.List(r.ctx); err != nil || len(all) != 1 {
			t.Errorf("listed by the other: %v, %v", all, err)
		}
		if _, err := other.Schedule(r.ctx, sdk.Item{Lambda: "mail"}); err != nil {
			t.Error(err)
		}
		if _, _, err := r.admin().Lambdas.Create(r.ctx, admin.Lambda{Name: "post"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		if _, err := other.Schedule(r.ctx, sdk.Item{Lambda: "post"}); err != nil {
			t.Error(err)
		}
		if _, err := r.admin().Lambdas.Update(r.ctx, admin.Lambda{Name: "mail", MaxAttempts: 3}, admin.LambdaUpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if l, err := admin.New(other).Lambdas.Get(r.ctx, "mail"); err != nil || l.MaxAttempts != 3 {
			t.Errorf("read by the other: %+v, %v", l, err)
		}
		r.work(r.nodes[1], "mail", quick)
	})
}

// TestNoTaskIsAcceptedForALambdaThatIsGone deletes lambdas in one process while others accept tasks for them,
// also one with a store so slow that it acts on knowledge many seconds old. Every acknowledged task has an
// end that says so.
func TestNoTaskIsAcceptedForALambdaThatIsGone(t *testing.T) {
	slow := &slowly{}
	config := func(i int, c *Config) {
		if i == 2 {
			slow.Driver = c.Store
			c.Store = slow
		}
	}
	inFleet(t, 3, config, func(r *rig, _ []*host) {
		for round := range 4 {
			name := fmt.Sprint("mail-", round)
			r.lambda(admin.Lambda{Name: name})
			slow.write.Store(int64([]time.Duration{0, 4 * time.Second, 7 * time.Second, 9 * time.Second}[round]))
			var wg sync.WaitGroup
			var mu sync.Mutex
			var accepted []sdk.ID
			ctx, stop := context.WithCancel(r.ctx)
			for n, p := range r.nodes[1:] {
				client := r.dial(p.transport)
				for k := range 4 {
					wg.Go(func() {
						for ctx.Err() == nil {
							result, err := client.Schedule(ctx, sdk.Item{Lambda: name, In: time.Hour, Key: fmt.Sprint(n, k, time.Now())})
							mu.Lock()
							if err == nil {
								accepted = append(accepted, result.ID)
							}
							mu.Unlock()
							time.Sleep(70 * time.Millisecond)
						}
					})
				}
			}
			time.Sleep(2 * time.Second)
			if _, err := r.admin().Lambdas.Delete(r.ctx, name, admin.LambdaDeleteOptions{DropTasks: true}); err != nil {
				t.Error(err)
			}
			time.Sleep(30 * time.Second)
			stop()
			wg.Wait()
			slow.write.Store(0)
			for _, id := range accepted {
				if info, err := r.client.Get(r.ctx, id); err != nil || info.State != sdk.StateDropped {
					t.Errorf("round %d: accepted, and now %s, %v", round, info.State, err)
				}
			}
			if len(accepted) == 0 {
				t.Errorf("round %d: nothing was accepted", round)
			}
		}
	})
}

// slowly is a store whose writes of tasks start late.
type slowly struct {
	store.Driver
	write atomic.Int64 // a time.Duration
}

func (s *slowly) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	if ops[0].Kind == store.PutTask || ops[0].Kind == store.PutWakeup {
		time.Sleep(time.Duration(s.write.Load()))
	}
	return s.Driver.Apply(ctx, ops)
}

func TestAWaitSeesTheEndInAnotherProcess(t *testing.T) {
	inFleet(t, 2, nil, func(r *rig, _ []*host) {
		r.lambda(admin.Lambda{Name: "mail"})
		r.work(r.nodes[1], "mail", quick)
		id := r.schedule(sdk.Item{Lambda: "mail", In: 3 * time.Second})
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := r.client.Wait(ctx, id); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("waited %v for a task due in 3 s", took)
		}
	})
}

// TestARetryIsInTimeWhoeverOwnsThePartition fails attempts whose results arrive at a process that does not
// own their partitions; the owner learns of the wake-up only by its next scan.
func TestARetryIsInTimeWhoeverOwnsThePartition(t *testing.T) {
	inFleet(t, 3, nil, func(r *rig, _ []*host) {
		r.lambda(admin.Lambda{Name: "mail", Shards: 6, BackoffMin: time.Second, BackoffMax: time.Second})
		var mu sync.Mutex
		failed := map[sdk.ID]time.Time{}
		worst := time.Duration(0)
		r.work(r.nodes[1], "mail", func(_ context.Context, t *sdk.Task[[]byte]) error {
			mu.Lock()
			defer mu.Unlock()
			if t.Attempt == 1 {
				failed[t.ID] = time.Now()
				return errors.New("once")
			}
			worst = max(worst, time.Since(failed[t.ID]))
			return nil
		}, sdk.Slots(50))
		for i := range 100 {
			r.schedule(sdk.Item{Lambda: "mail", In: time.Duration(i) * 300 * time.Millisecond})
		}
		time.Sleep(45 * time.Second)
		r.settled(15 * time.Second)
		r.book.check(t, 2)
		if worst > 1500*time.Millisecond {
			t.Errorf("a retry after 1 s started %v after the failure", worst)
		}
	})
}

// TestADeliveryIsInTimeWhoeverOwnsThePartition schedules tasks that are due soon at processes that do not own
// their partitions.
func TestADeliveryIsInTimeWhoeverOwnsThePartition(t *testing.T) {
	inTown(t, func(w *town) {
		a, b := w.start(remote), w.start(remote)
		a.lambda(4)
		w.advance(10 * time.Second) // until both know of it, and of each other
		var ids []string
		for n := range 60 {
			i := item(time.Duration(n) * 100 * time.Millisecond)
			if n%2 == 0 {
				i.Key = fmt.Sprint(n)
			}
			ids = append(ids, a.schedule(i)...)
		}
		w.advance(time.Minute)
		w.wantDelivered(100*time.Millisecond, ids...)
		if a.steps("send")+b.steps("send") != 60 {
			t.Errorf("%d and %d sent", a.steps("send"), b.steps("send"))
		}
	})
}

// TestALambdaOfAnotherProcessIsOfItsMode cancels a task of a deliver lambda where the lambda is not known
// yet: as a task of a managed lambda it could be both cancelled and delivered.
func TestALambdaOfAnotherProcessIsOfItsMode(t *testing.T) {
	inTown(t, func(w *town) {
		a, b := w.start(remote), w.start(remote)
		w.advance(10 * time.Second)
		a.lambda(1)
		ids := a.schedule(item(time.Hour), item(30*time.Minute))
		w.advance(200 * time.Millisecond) // less than b needs to hear of it
		got, err := b.inbound.Get(w.ctx, &kinesinv1.GetRequest{Ids: ids[:1]})
		if err != nil || got.Results[0].Task.GetState() != task.Scheduled.String() {
			t.Errorf("%v, %v", got, err)
		}
		b.mu.Lock()
		b.dieAt = "remove"
		b.mu.Unlock()
		var response *kinesinv1.CancelResponse
		go func() { response, err = b.inbound.Cancel(w.ctx, &kinesinv1.CancelRequest{Ids: ids[1:]}) }()
		w.advance(10 * time.Second)
		if err != nil || response == nil || response.Results[0].Outcome == "cancelled" {
			t.Errorf("%v, %v: want no success: the row goes first, and it died before it could remove it", response, err)
		}
		w.advance(time.Hour)
		w.wantDelivered(time.Second, ids...)
	})
}
