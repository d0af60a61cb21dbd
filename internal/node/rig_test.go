package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/inproc"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is whole processes in virtual time: nodes with all roles over one store and one queue, and workers and
// a client that call them.
type rig struct {
	*testing.T

	ctx    context.Context //nolint:containedctx // of the test, inside its bubble
	tally  *tally
	store  store.Driver // what the nodes get: over the tally, or the tally itself
	queue  queue.Driver
	nodes  []*process
	client *sdk.Client
	book   *ledger
	ended  sync.WaitGroup // of workers
	stop   context.CancelFunc
}

// wall is the clock of the bubble: all its readings are of its wall clock, since the others are outside.
type wall struct{ clock.Clock }

// process is one server process.
type process struct {
	node      *Node
	transport *inproc.Transport
	stop      func()
}

// kept is a driver that outlives the nodes that use it.
type kept struct{ store.Driver }

func (kept) Close() error { return nil }

// keptQueue is a queue that outlives the nodes that use it.
type keptQueue struct {
	queue.Driver

	shared bool // by several nodes, as a queue is that is a service
}

func (keptQueue) Close() error { return nil }

func (q keptQueue) Durable() bool { return q.shared || q.Driver.Durable() }

// drivers are the drivers of a rig; the zero value is a store and a queue in memory.
type drivers struct {
	over  func(d store.Driver) store.Driver // wraps the store
	queue func() queue.Driver

	// own, if set, creates separate drivers for each node over what all share; now returns the node, once it
	// exists.
	own func(ctx context.Context, now func() *Node) (store.Driver, queue.Driver)
}

// inRig runs a test in a bubble with n nodes.
func inRig(t *testing.T, d drivers, nodes int, config func(c *Config), test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, ctx: t.Context(), tally: newTally(storemem.New()), book: newLedger()}
		r.store = r.tally
		if d.over != nil {
			r.store = d.over(r.tally)
		}
		if d.queue == nil {
			r.queue = queuemem.New(clock.Real(), queuemem.Config{DepthMax: 1 << 20})
		} else {
			r.queue = d.queue()
		}
		var names []string
		for i := range nodes {
			names = append(names, fmt.Sprintf("node-%d", i))
		}
		for i := range nodes {
			r.nodes = append(r.nodes, r.start(d, names, i, config))
		}
		r.client = r.dial(r.nodes[0].transport)
		var workers context.Context
		workers, r.stop = context.WithCancel(t.Context())
		r.ctx = workers
		test(r)
		r.stop()
		r.ended.Wait()
		for _, p := range r.nodes {
			p.stop()
		}
		if err := r.queue.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (r *rig) start(d drivers, names []string, i int, config func(c *Config)) *process {
	r.Helper()
	c := Config{
		Store: kept{r.store}, Queue: keptQueue{r.queue, len(names) > 1}, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
		Membership: partition.Static(names[i], names...),
	}
	var now atomic.Pointer[Node]
	if d.own != nil {
		c.Store, c.Queue = d.own(r.Context(), now.Load)
	}
	if config != nil {
		config(&c)
	}
	n, err := New(r.Context(), c)
	if err != nil {
		r.Fatal(err)
	}
	now.Store(n)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	p := &process{node: n, transport: inproc.New(Trusting(n.Handler()))}
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, n.Close()); err != nil {
			r.Errorf("node: %v", err)
		}
		p.transport.Close()
	})
	return p
}

func (r *rig) dial(transport http.RoundTripper) *sdk.Client {
	r.Helper()
	return r.dialBy(wall{clock.Real()}, transport)
}

// dialBy is dial with a clock of its own.
func (r *rig) dialBy(k clock.Clock, transport http.RoundTripper, more ...sdk.ClientOption) *sdk.Client {
	r.Helper()
	c, err := sdk.NewClient("http://node", append(more, sdk.WithHTTPClient(&http.Client{Transport: transport}),
		sdkconfig.WithClock(k), sdk.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		r.Fatal(err)
	}
	return c
}

func (r *rig) lambda(l admin.Lambda) {
	r.Helper()
	if _, _, err := r.admin().Lambdas.Create(r.ctx, l); err != nil {
		r.Fatal(err)
	}
	time.Sleep(5 * time.Second) // every node knows it
}

// schedule stores a task and notes it.
func (r *rig) schedule(item sdk.Item) sdk.ID {
	r.Helper()
	result, err := r.client.Schedule(r.ctx, item)
	if err != nil {
		r.Fatal(err)
	}
	r.book.accepted(result.ID)
	return result.ID
}

// work runs a worker process until the test ends. One that ends by itself restarts a second later.
func (r *rig) work(p *process, lambda string, handler sdk.Handler, opts ...sdk.WorkerOption) {
	r.Helper()
	r.workOver(p.transport, lambda, handler, opts...)
}

// workOver is work over its own transport.
func (r *rig) workOver(transport http.RoundTripper, lambda string, handler sdk.Handler, opts ...sdk.WorkerOption) {
	r.Helper()
	r.workWith(r.dial(transport), lambda, handler, opts...)
}

// admin returns a client for what operators do.
func (r *rig) admin() *admin.Client { return admin.New(r.client) }

// workWith is work with its own client.
func (r *rig) workWith(client *sdk.Client, lambda string, handler sdk.Handler, opts ...sdk.WorkerOption) {
	r.Helper()
	r.ended.Go(func() {
		for r.ctx.Err() == nil {
			opts := append(slices.Clone(opts), sdk.ExitWith(func(int) {}), sdk.Grace(time.Second), sdk.KillAfter(time.Second))
			w := sdk.NewWorker(client, opts...)
			w.Register(lambda, r.book.noting(handler))
			if err := w.Run(r.ctx); err != nil {
				r.book.died()
			}
			_ = clock.Sleep(r.ctx, clock.Real(), time.Second)
		}
	})
}

// settled waits until all tasks have ended, at most d.
func (r *rig) settled(d time.Duration) {
	r.Helper()
	end := time.Now().Add(d)
	for _, id := range r.book.all() {
		for {
			info, err := r.client.Get(r.ctx, id)
			if err == nil && info.State.IsEnd() {
				break
			}
			if time.Now().After(end) {
				r.Fatalf("task %s is %s after %v (%v)", id, info.State, d, err)
			}
			time.Sleep(time.Second)
		}
	}
}

// ledger records which tasks were acknowledged and which ran.
type ledger struct {
	mu     sync.Mutex
	ids    []sdk.ID
	runs   map[string][]run
	deaths int
}

type run struct{ began, over time.Time }

func newLedger() *ledger { return &ledger{runs: map[string][]run{}} }

func (l *ledger) accepted(id sdk.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = append(l.ids, id)
}

func (l *ledger) all() []sdk.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ids)
}

func (l *ledger) died() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaths++
}

func (l *ledger) noting(h sdk.Handler) sdk.Handler {
	return func(ctx context.Context, t *sdk.Task[[]byte]) error {
		l.mu.Lock()
		key := string(t.ID)
		i := len(l.runs[key])
		l.runs[key] = append(l.runs[key], run{began: time.Now()})
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.runs[key][i].over = time.Now()
		}()
		return h(ctx, t)
	}
}

// check finds tasks that never ran, that ran twice at once, or that ran more often than is allowed.
func (l *ledger) check(t *testing.T, runsMax int) (runs int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range l.ids {
		all := l.runs[string(id)]
		runs += len(all)
		if len(all) == 0 || len(all) > runsMax {
			t.Errorf("task %s ran %d times, want 1 to %d", id, len(all), runsMax)
		}
		for i := 1; i < len(all); i++ {
			if before := all[i-1]; before.over.IsZero() || all[i].began.Before(before.over) {
				t.Errorf("task %s ran twice at once", id)
			}
		}
	}
	return runs
}

// tally counts the calls to a store, and the write units that DynamoDB would bill for small rows.
type tally struct {
	store.Driver

	mu     sync.Mutex
	writes map[store.OpKind]int
	units  int
	beaten int // writes that were refused
	reads  int // rows read one by one
	scans  int
	rows   int // rows that scans returned
}

func newTally(d store.Driver) *tally {
	return &tally{Driver: d, writes: map[store.OpKind]int{}}
}

// Apply implements store.Driver, as do the other methods.
func (t *tally) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	results, err := t.Driver.Apply(ctx, ops)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range ops {
		if err == nil && errors.Is(results[i], store.ErrSkipped) {
			continue
		}
		t.writes[ops[i].Kind]++
		t.units++
		if err == nil && errors.Is(results[i], store.ErrConflict) {
			t.beaten++
		}
	}
	return results, err
}

func (t *tally) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	t.mu.Lock()
	t.reads += len(ids)
	t.mu.Unlock()
	return t.Driver.Tasks(ctx, ids)
}

func (t *tally) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	t.mu.Lock()
	t.reads++
	t.mu.Unlock()
	return t.Driver.Controls(ctx, kind, name)
}

func (t *tally) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	found, err := t.Driver.ScanSchedule(ctx, p, after, through, limit)
	t.mu.Lock()
	t.scans++
	t.rows += len(found)
	t.mu.Unlock()
	return found, err
}

func (t *tally) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	t.mu.Lock()
	t.reads += len(keys)
	t.mu.Unlock()
	return t.Driver.Wakeups(ctx, keys)
}

// counts are the calls to the store in a period.
type counts struct {
	tasks, controls, units, beaten, reads, scans, rows int
}

// take returns the counts since its last call.
func (t *tally) take() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := counts{units: t.units, beaten: t.beaten, reads: t.reads, scans: t.scans, rows: t.rows}
	for kind, n := range t.writes {
		if kind == store.PutControl || kind == store.DeleteControl {
			c.controls += n
		} else {
			c.tasks += n
		}
	}
	c.units -= c.controls
	clear(t.writes)
	t.units, t.beaten, t.reads, t.scans, t.rows = 0, 0, 0, 0, 0
	return c
}
