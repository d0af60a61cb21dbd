package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

const begin = task.Instant(1_700_000_000_000_000)

// town is a store and a queue that several processes share, in virtual time.
type town struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the test, inside its bubble
	time   *clock.Virtual
	clock  clock.Clock
	memory *storemem.Driver
	out    *queuetest.Delivering
}

func inTown(t *testing.T, test func(w *town)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(begin, 1)
		v.Settle(synctest.Wait)
		w := &town{t: t, ctx: t.Context(), time: v, clock: v.Process(0), memory: storemem.New()}
		w.out = queuetest.NewDelivering(queuemem.New(w.clock, queuemem.Config{DepthMax: 100}), w.clock.Now)
		test(w)
	})
}

// sender is one node, which can be killed at any step.
type sender struct {
	*Node

	town  *town
	stop  context.CancelFunc
	over  chan error
	mu    sync.Mutex
	dead  bool
	dieAt string // before that step
	took  map[string]int
}

// step reports whether the process is alive to do the step.
func (p *sender) step(name string, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dieAt != "" && p.dieAt == name {
		p.dead = true
	}
	if !p.dead {
		p.took[name] += n
	}
	return !p.dead
}

func (p *sender) steps(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.took[name]
}

// errDead is the result of every call of a killed process.
var errDead = errors.New("killed")

// mortalStore is the shared store as seen by a process that may be killed.
type mortalStore struct {
	store.Driver

	p *sender
}

func (s mortalStore) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	names := map[store.OpKind]string{
		store.PutWakeup: "put", store.ReplaceWakeup: "acquire", store.DeleteWakeup: "remove", store.PutTask: "put task", store.ReplaceTask: "replace",
	}
	name := names[ops[0].Kind]
	if name == "put task" || name == "replace" {
		name = map[task.State]string{task.Acquired: "acquire", task.Delivered: "remove"}[ops[0].Task.State]
	}
	if !s.p.step(name, len(ops)) {
		return nil, errDead
	}
	return s.Driver.Apply(ctx, ops)
}

func (s mortalStore) alive() error {
	if !s.p.step("read", 0) {
		return errDead
	}
	return nil
}

func (s mortalStore) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.Driver.Controls(ctx, kind, name)
}

func (s mortalStore) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.Driver.ScanSchedule(ctx, p, after, through, limit)
}

func (s mortalStore) Close() error { return nil }

type mortalQueue struct {
	*queuetest.Delivering

	p *sender
}

func (q mortalQueue) Deliver(ctx context.Context, deliveries []queue.Delivery) []error {
	if !q.p.step("send", len(deliveries)) {
		return slices.Repeat([]error{errDead}, len(deliveries))
	}
	return q.Delivering.Deliver(ctx, deliveries)
}

func (q mortalQueue) Close() error { return nil }

// start runs a node; without a membership it shares the partitions with the others.
func (w *town) start(change func(c *Config)) *sender {
	w.t.Helper()
	p := &sender{town: w, over: make(chan error, 1), took: map[string]int{}}
	c := Config{
		Store: mortalStore{w.memory, p}, Queue: mortalQueue{w.out, p}, Clock: w.clock, Log: slog.New(slog.DiscardHandler),
		DeliverDirect: -1,
	}
	if change != nil {
		change(&c)
	}
	var err error
	if p.Node, err = New(w.ctx, c); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.ctx)
	p.stop = stop
	go func() { p.over <- p.Run(ctx) }()
	synctest.Wait()
	w.t.Cleanup(p.end)
	w.advance(0)
	return p
}

// end stops the node; time moves on for what it waits for.
func (p *sender) end() {
	p.stop()
	synctest.Wait()
	p.town.time.Advance(time.Minute)
	if err := <-p.over; err != nil && !errors.Is(err, errDead) {
		p.town.t.Errorf("run: %v", err)
	}
}

func (w *town) advance(d time.Duration) {
	synctest.Wait()
	w.time.Advance(d)
	synctest.Wait()
}

// alone makes a process the only one, with the same name each time.
func alone(c *Config) { c.Membership = partition.Static("p") }

func (p *sender) lambda(shards uint32) {
	p.town.t.Helper()
	_, err := p.lambdas.CreateLambda(p.town.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "out", Mode: "deliver", Shards: shards}})
	if err != nil {
		p.town.t.Fatal(err)
	}
	p.town.advance(0)
}

func (p *sender) schedule(items ...*kinesinv1.ScheduleItem) (ids []string) {
	p.town.t.Helper()
	response, err := p.inbound.Schedule(p.town.ctx, &kinesinv1.ScheduleRequest{Items: items})
	if err != nil {
		p.town.t.Fatal(err)
	}
	for _, r := range response.Results {
		if r.Problem != nil {
			p.town.t.Fatal(r.Problem)
		}
		ids = append(ids, r.Id)
	}
	return ids
}

func item(d time.Duration) *kinesinv1.ScheduleItem {
	return &kinesinv1.ScheduleItem{Lambda: "out", Delay: d.Microseconds(), Payload: []byte("x")}
}

// deliveries counts the deliveries of each id, and holds the lateness of the first.
func (w *town) deliveries() (times map[string]int, late map[string]time.Duration) {
	times, late = map[string]int{}, map[string]time.Duration{}
	all, _ := w.out.Delivered()
	for _, d := range all {
		if times[d.ID]++; times[d.ID] == 1 {
			late[d.ID] = d.VisibleAt().Sub(d.Task.Due)
		}
		if d.VisibleAt() < d.Task.Due {
			w.t.Errorf("a delivery came %v early", d.Task.Due.Sub(d.VisibleAt()))
		}
	}
	return times, late
}

// wantDelivered checks that each task was delivered once, with at most that lateness.
func (w *town) wantDelivered(latest time.Duration, ids ...string) {
	w.t.Helper()
	times, late := w.deliveries()
	for _, id := range ids {
		if times[id] != 1 || late[id] > latest {
			w.t.Errorf("delivered %d times, %v late; want once, %v late at most", times[id], late[id], latest)
		}
	}
}

func (w *town) waitingRows(p *sender) (n int) {
	w.t.Helper()
	l, err := p.catalog.Lambda("out")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, part := range l.Partitions() {
		rows, err := w.memory.ScanSchedule(w.ctx, part, store.WakeKey{}, begin.Add(1000*time.Hour), 8000)
		if err != nil {
			w.t.Fatal(err)
		}
		n += len(rows)
	}
	return n
}

func TestDeliverOnTimeInThreeWrites(t *testing.T) {
	inTown(t, func(w *town) {
		p := w.start(alone)
		p.lambda(4)
		var ids []string
		for n := range 300 {
			ids = append(ids, p.schedule(item(time.Duration(n*n)*time.Millisecond))...)
		}
		w.advance(2 * time.Minute)
		w.wantDelivered(deliverTogether, ids...)
		if p.steps("put") != 300 || p.steps("acquire") != 300 || p.steps("remove") != 300 || w.waitingRows(p) != 0 {
			t.Errorf("%d put, %d acquired, %d removed, %d rows left", p.steps("put"), p.steps("acquire"), p.steps("remove"), w.waitingRows(p))
		}
	})
}

// A process killed between any two steps costs at most a second delivery, and never the first.
func TestAProcessThatIsKilledLosesNothing(t *testing.T) {
	for _, step := range []string{"acquire", "send", "remove"} {
		for _, keyed := range []bool{false, true} {
			t.Run(fmt.Sprintf("before %s, key %v", step, keyed), func(t *testing.T) {
				inTown(t, func(w *town) {
					first := w.start(nil)
					first.lambda(8)
					second := w.start(nil)
					w.advance(3 * time.Second) // they know of each other
					var ids []string
					for n := range 80 {
						i := item(time.Duration(n) * 50 * time.Millisecond)
						if keyed {
							i.Key = fmt.Sprint(n)
						}
						ids = append(ids, first.schedule(i)...)
					}
					w.advance(time.Second)
					first.mu.Lock()
					first.dieAt = step
					first.mu.Unlock()
					w.advance(2 * time.Minute)
					if !first.dead {
						t.Fatal("the process was not killed")
					}
					times, late := w.deliveries()
					twice := 0
					for _, id := range ids {
						if times[id] < 1 || times[id] > 2 || !keyed && late[id] > 20*time.Second || late[id] > 45*time.Second {
							t.Errorf("delivered %d times, %v late", times[id], late[id])
						}
						if times[id] == 2 {
							twice++
						}
					}
					if twice > 25 || twice == 0 && step == "remove" { // what is removed together
						t.Errorf("killed before %s: %d were delivered twice", step, twice)
					}
					if n := w.waitingRows(second); n != 0 {
						t.Errorf("%d rows left", n)
					}
				})
			})
		}
	}
}

// A FIFO queue delays no single message: a task that is not due waits in the store, and one that is goes there
// directly.
func TestATaskOfAFIFOQueueWaitsInTheStore(t *testing.T) {
	inTown(t, func(w *town) {
		p := w.start(func(c *Config) {
			alone(c)
			c.DeliverDirect = queue.DelayMax
		})
		_, err := p.lambdas.CreateLambda(w.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "out", Mode: "deliver", Fifo: true}})
		if err != nil {
			t.Fatal(err)
		}
		w.advance(0)
		ids := p.schedule(item(0), item(10*time.Second))
		if all, _ := w.out.Delivered(); len(all) != 1 || all[0].ID != ids[0] || w.waitingRows(p) != 1 {
			t.Errorf("delivered %+v, and %d wait; want one each", all, w.waitingRows(p))
		}
		w.advance(11 * time.Second)
		w.wantDelivered(100*time.Millisecond, ids...)
		all, _ := w.out.Delivered()
		for i := range all {
			if all[i].Delay != 0 {
				t.Errorf("delivery %d is delayed by %v", i, all[i].Delay)
			}
		}
	})
}
