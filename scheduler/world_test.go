package scheduler_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/quota"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const start = task.Instant(1_700_000_000_000_000)

var (
	high   = task.Partition{Lambda: 7, Priority: 0}
	low    = task.Partition{Lambda: 7, Priority: 2}
	policy = task.Policy{MaxAttempts: 5, Timeout: time.Minute, BackoffMin: time.Second, BackoffMax: time.Minute, Retention: time.Hour}
)

// world is everything around a scheduler, in virtual time: a store and a queue in memory, and the
// simplest dispatcher that keeps the order of the three steps.
type world struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the test, inside its bubble
	time   *clock.Virtual
	clock  clock.Clock
	rows   *rows
	queue  *queue.Queue
	leases *lease.Book
	parts  *partitions
	sent   *recorder
	hooks  scheduler.Hooks
	marks  scheduler.Leases // instead of leases
	depths scheduler.Queue  // instead of queue
	look   int              // rows of look-ahead
	flight int              // tasks in flight that are remembered
	loops  int              // before idle partitions have none
	wall   clock.Clock      // of the scheduler, instead of clock
	log    *slog.Logger     // nil: none
	ids    uint64

	process  string                                 // of the scheduler
	presence func(process string) (here, gone bool) // nil: there are no others
	found    func(t *task.Task)                     // what the scheduler says was claimed
	downtime *scheduler.Downtime                    // nil: ended rows stay
	gating   *scheduler.Gating                      // nil: there are no gates
	shared   bool                                   // others store tasks, too
	quotas   scheduler.Quotas                       // nil: none
	retries  scheduler.RetryBudget                  // nil: none

	concurrency scheduler.Concurrency // nil: nothing bounds how many tasks run
	keyLimits   scheduler.KeyLimits   // nil: there are no limits by key
	book        *quota.Book           // of concurrency
	quotaRow    uint64                // version

	mu     sync.Mutex
	waked  []task.EventKind
	lost   []string
	failed map[task.Partition]int
}

func inWorld(t *testing.T, queueDepth int, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(0)
		w := &world{t: t, ctx: t.Context(), time: v, clock: c, failed: map[task.Partition]int{}}
		w.rows = &rows{Store: store.New(storemem.New(), store.Config{Clock: c})}
		w.queue = queue.New(queuemem.New(c, queuemem.Config{DepthMax: queueDepth}), queue.Config{})
		w.leases = lease.NewBook(w.rows.Store, c)
		w.parts = &partitions{all: []task.Partition{high, low}, changed: make(chan struct{})}
		w.sent = &recorder{w: w, depthMax: queueDepth}
		w.hooks = scheduler.Hooks{
			Waked:  func(_ *task.Task, kind task.EventKind) { w.note(func() { w.waked = append(w.waked, kind) }) },
			Lost:   func(worker string) { w.note(func() { w.lost = append(w.lost, worker) }) },
			Failed: func(p task.Partition, _ error) { w.note(func() { w.failed[p]++ }) },
		}
		test(w)
	})
}

func (w *world) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// start runs a scheduler until the test ends.
func (w *world) start() *scheduler.Scheduler {
	var leases scheduler.Leases = w.leases
	if w.marks != nil {
		leases = w.marks
	}
	var depths scheduler.Queue = w.queue
	if w.depths != nil {
		depths = w.depths
	}
	wall := w.clock
	if w.wall != nil {
		wall = w.wall
	}
	s := scheduler.New(scheduler.Config{
		Store: w.rows, Queue: depths, Leases: leases, Ownership: everything{}, Partitions: w.parts,
		Clock: wall, Log: cmp.Or(w.log, slog.New(slog.DiscardHandler)), Hooks: w.hooks, LookaheadRows: w.look, FlightRows: w.flight, IdleLoops: w.loops,
		Process: w.process, Presence: w.presence, Downtime: w.downtime, Gating: w.gating, Quotas: w.quotas, Concurrency: w.concurrency,
		RetryBudget: w.retries, Foreign: w.shared, KeyLimits: w.keyLimits,
	})
	w.run(s)
	return s
}

// run runs a scheduler until the test ends.
func (w *world) run(s *scheduler.Scheduler) {
	runtest.Start(w.t, func(ctx context.Context) error { return s.Run(ctx, w.sent, w.found) })
	synctest.Wait()
}

// advance lets what was started come to rest before time moves on.
func (w *world) advance(d time.Duration) {
	synctest.Wait()
	w.time.Advance(d)
}

// next is a task with an id of its own that is due in d.
func (w *world) next(p task.Partition, d time.Duration) task.Task {
	w.ids++
	t := task.Task{Partition: p, State: task.Scheduled, Seq: 1, Created: w.clock.Now(), Due: w.clock.Now().Add(d).CeilMillis()}
	binary.BigEndian.PutUint64(t.ID[8:], w.ids)
	return t
}

func (w *world) apply(ops ...store.Op) {
	w.t.Helper()
	results, err := w.rows.Apply(w.ctx, ops)
	if err = errors.Join(append(results, err)...); err != nil {
		w.t.Fatal(err)
	}
}

// waiting stores a task that waits for its first dispatch.
func (w *world) waiting(p task.Partition, d time.Duration) task.Task {
	w.t.Helper()
	ops := store.First(w.next(p, d))
	w.apply(ops...)
	return ops[0].Task
}

// awake stores a task with a task row as change makes it, and the wake-up row at its due time that the task
// row names: a task with a key, or one that was dispatched.
func (w *world) awake(p task.Partition, d time.Duration, change func(t *task.Task)) task.Task {
	w.t.Helper()
	first := w.next(p, d)
	first.Wake, first.WakeRow = first.Due, task.WakeRow{At: first.Due, Seq: 1}
	t := first
	change(&t)
	first.Key = t.Key
	if t.Attempt == 0 && (t.State == task.Scheduled || t.State == task.Enqueued) {
		if t.State == task.Scheduled {
			t.Key = "k"
		}
		ops := store.FirstWithRow(t)
		w.apply(ops...)
		return ops[1].Task
	}
	t.Seq = max(t.Seq, 2)
	w.apply(store.Op{Kind: store.PutWakeup, Task: first}, store.Op{Kind: store.PutTask, Task: t, Follows: true})
	return t
}

// moved stores a task row as change makes it, and the bare wake-up row that it names, where it wakes.
func (w *world) moved(p task.Partition, d time.Duration, change func(t *task.Task)) task.Task {
	w.t.Helper()
	t := w.next(p, d)
	t.Wake, t.Seq = t.Due, 4
	change(&t)
	t.WakeRow = task.WakeRow{At: t.Wake, Seq: t.Seq}
	w.apply(store.Op{Kind: store.PutWakeup, Task: bare(&t)}, store.Op{Kind: store.PutTask, Task: t, Follows: true})
	return t
}

// bare is the wake-up row of a task that holds its id alone.
func bare(t *task.Task) task.Task {
	return task.Task{ID: t.ID, Partition: t.Partition, Seq: t.WakeRow.Seq, Wake: t.WakeRow.At, WakeRow: t.WakeRow}
}

// schedule is all that the schedule has of a partition.
func (w *world) schedule(p task.Partition) []task.Task {
	w.t.Helper()
	rows, err := w.rows.Store.ScanSchedule(w.ctx, p, store.WakeKey{}, w.clock.Now().Add(24*time.Hour), store.ScanMax)
	if err != nil {
		w.t.Fatal(err)
	}
	return rows
}

func (w *world) read(id task.ID) task.Task {
	w.t.Helper()
	t, err := w.rows.Task(w.ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// drain receives and deletes up to limit messages of each queue that are due.
func (w *world) drain(limit int) []queue.Message {
	w.t.Helper()
	var all []queue.Message
	for _, p := range []task.Partition{high, low} {
		for class := queue.Normal; class <= queue.Blamed; class++ {
			name := queue.Name{Lambda: p.Lambda, Priority: p.Priority, Class: class}
			for got := w.receive(name, limit); len(got) > 0; got = w.receive(name, limit-len(all)) {
				if all = append(all, got...); len(all) >= limit {
					break
				}
			}
		}
	}
	if err := w.queue.Delete(w.ctx, all); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return all
}

// receive takes what is there and does not wait.
func (w *world) receive(name queue.Name, limit int) []queue.Message {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var got []queue.Message
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, _ = w.queue.Receive(ctx, []queue.Name{name}, limit, 0)
	}()
	synctest.Wait()
	cancel()
	<-done
	return got
}

// dispatched is when each task was handed to the dispatcher for the first time.
func (w *world) dispatched(t task.Task) (task.Instant, bool) {
	for _, f := range w.sent.fired() {
		if f.id == t.ID {
			return f.at, true
		}
	}
	return 0, false
}

func (w *world) wantOnTime(tasks ...task.Task) {
	w.t.Helper()
	for _, t := range tasks {
		at, ok := w.dispatched(t)
		if !ok || at > t.Due || at < t.Due.Add(-scheduler.LeadDefault) {
			w.t.Errorf("task due at +%v was dispatched (%v) at +%v", t.Due.Sub(start), ok, at.Sub(start))
		}
	}
}

// rows is the store as schedulers see it, with places to interfere.
type rows struct {
	*store.Store

	slow func() // before each scan

	mu      sync.Mutex
	damaged task.ID                // of a task row that cannot be read, if it is read alone
	during  func(p task.Partition) // between the reading and the answer of ScanSchedule, once
	looks   bool                   // during is for a look at an idle partition, which reads one row
	fails   func(p task.Partition) error
	scans   map[task.Partition]int
	largest int // rows asked for
	read    int // rows read one by one
	looked  int // rows that scans returned
	away    bool
	lost    bool // wake-up rows that are read one by one look gone
}

// setAway makes all reads fail, or none.
func (r *rows) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away, r.fails = away, nil
	if away {
		r.fails = func(task.Partition) error { return store.ErrUnreachable }
	}
}

func (r *rows) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	r.mu.Lock()
	r.read += len(ids)
	away, damaged := r.away, r.damaged
	r.mu.Unlock()
	if away {
		return nil, store.ErrUnreachable
	}
	if len(ids) == 1 && ids[0] == damaged {
		return nil, fmt.Errorf("row: %w", store.ErrCorrupt)
	}
	return r.Store.Tasks(ctx, ids)
}

func (r *rows) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	r.mu.Lock()
	r.read += len(keys)
	lost := r.lost
	r.mu.Unlock()
	if lost {
		return make([]task.Task, len(keys)), nil
	}
	return r.Store.Wakeups(ctx, keys)
}

// readRows is how many rows were read one by one since it was asked last.
func (r *rows) readRows() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.read
	r.read = 0
	return n
}

// setFails makes scans fail; nil: none.
func (r *rows) setFails(fails func(p task.Partition) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = fails
}

// lookedRows is how many rows scans returned since it was asked last.
func (r *rows) lookedRows() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.looked
	r.looked = 0
	return n
}

func (r *rows) scanned(p task.Partition, limit int) (func(task.Partition), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scans == nil {
		r.scans = map[task.Partition]int{}
	}
	r.scans[p]++
	r.largest = max(r.largest, limit)
	during := r.during
	if r.looks && limit > 1 {
		during = nil
	} else {
		r.during = nil
	}
	if r.fails != nil {
		return during, r.fails(p)
	}
	return during, nil
}

func (r *rows) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if r.slow != nil {
		r.slow()
	}
	during, err := r.scanned(p, limit)
	if err != nil {
		return nil, err
	}
	found, err := r.Store.ScanSchedule(ctx, p, after, through, limit)
	r.mu.Lock()
	r.looked += len(found)
	r.mu.Unlock()
	if during != nil {
		during(p)
	}
	return found, err
}

func (r *rows) scansOf(p task.Partition) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.scans[p]
}

// partitions can be changed.
type partitions struct {
	mu      sync.Mutex
	all     []task.Partition
	changed chan struct{}
}

func (p *partitions) Partitions() []task.Partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

func (p *partitions) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (p *partitions) set(all ...task.Partition) {
	p.mu.Lock()
	p.all = all
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	synctest.Wait()
}

type everything struct{}

func (everything) Self() string             { return "all" }
func (everything) Changed() <-chan struct{} { return nil }

func (everything) Owners(all []task.Partition) (owners, members []string) {
	return slices.Repeat([]string{"all"}, len(all)), []string{"all"}
}

// fired is one order.
type fired struct {
	id   task.ID
	kind task.EventKind
	at   task.Instant
	due  task.Instant
	// inTurn says that a task of a higher priority precedes it.
	inTurn bool
}

// recorder is a dispatcher that records what it did.
type recorder struct {
	w        *world
	depthMax int

	mu      sync.Mutex
	orders  []fired
	refused int // orders whose task somebody else had moved
	removed int // wake-up rows
	again   int // messages that were sent without a write
	rooms   int // calls of Room
	largest int
	roomed  func() // called when somebody asks for room
	refuse  func(t *task.Task) error
	hang    func(ctx context.Context) error // before an order is looked at
	early   bool                            // first messages are sent before there is a row
}

func (c *recorder) fired() []fired {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.orders)
}

func (c *recorder) count(counter *int, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*counter += n
}

// counted is what a counter says.
func (c *recorder) counted(counter *int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *counter
}

func (c *recorder) Dispatch(ctx context.Context, orders []task.Order) []task.Dispatched {
	results := make([]task.Dispatched, len(orders))
	c.mu.Lock()
	c.largest = max(c.largest, len(orders))
	refuse, hang := c.refuse, c.hang
	c.mu.Unlock()
	if hang != nil {
		if err := hang(ctx); err != nil {
			return slices.Repeat([]task.Dispatched{{Err: err}}, len(orders))
		}
	}
	for i := range orders {
		o := &orders[i]
		if refuse != nil {
			results[i].Err = refuse(&o.Task)
		}
		if results[i].Err == nil {
			results[i] = c.carryOut(ctx, o)
		}
		if results[i].Done {
			c.mu.Lock()
			c.orders = append(c.orders, fired{o.Task.ID, o.Event.Kind, c.w.clock.Now(), o.Task.Due, o.InTurn})
			c.mu.Unlock()
		}
	}
	return results
}

func (c *recorder) carryOut(ctx context.Context, o *task.Order) (r task.Dispatched) {
	if c.early && o.First && !o.Task.IsExpired(c.w.clock.Now()) {
		queued := o.Task.Queued(c.w.clock.Now())
		c.send(ctx, queued)
		return task.Dispatched{Task: queued, Done: true}
	}
	next, effect, err := o.Task.Apply(o.Event, c.w.clock.Now(), policy)
	if err != nil {
		return r // the task moved on
	}
	ops := store.Change(next, false, false)
	switch {
	case o.First && next.State.IsEnd():
		ops = store.EndWaiting(next, &o.Task)
	case o.First:
		ops = []store.Op{{Kind: store.PutTask, Task: next}}
	}
	results, err := c.w.rows.Apply(ctx, ops)
	if err != nil {
		r.Err = err
		return r
	}
	if conflict, is := errors.AsType[*store.ConflictError](results[0]); is {
		c.count(&c.refused, 1)
		if conflict.Task != nil {
			r.Task = *conflict.Task
		}
		return r
	}
	r.Task, r.Done, r.Err = next, results[0] == nil, results[0]
	if r.Done && effect == task.Send {
		c.send(ctx, next)
	}
	return r
}

func (c *recorder) Remove(ctx context.Context, rows []task.Task) {
	if len(rows) == 0 {
		return
	}
	c.count(&c.removed, len(rows))
	ops := make([]store.Op, len(rows))
	for i := range rows {
		ops[i] = store.Remove(&rows[i])
	}
	if _, err := c.w.rows.Apply(ctx, ops); err != nil {
		c.w.t.Errorf("remove: %v", err)
	}
}

func (c *recorder) Send(ctx context.Context, tasks []task.Task) {
	c.count(&c.again, len(tasks))
	for _, t := range tasks {
		c.send(ctx, t)
	}
}

func (c *recorder) send(ctx context.Context, t task.Task) {
	if err := c.w.queue.Send(ctx, []queue.Message{{Task: t}})[0]; err != nil {
		c.w.t.Errorf("send: %v", err)
	}
}

func (c *recorder) Room(ctx context.Context, name queue.Name) (int, <-chan struct{}) {
	c.mu.Lock()
	c.rooms++
	if c.roomed != nil {
		c.roomed()
	}
	c.mu.Unlock()
	wait := c.w.queue.Room(name)
	depth, err := c.w.queue.Depth(ctx, name)
	if err != nil {
		return 0, wait
	}
	return max(0, c.depthMax-depth.Visible), wait
}

// inDueOrder reports whether the orders of a partition came in order of their due times, up to the lead.
func inDueOrder(orders []fired) bool {
	return slices.IsSortedFunc(orders, func(a, b fired) int {
		if a.due > b.due.Add(scheduler.LeadDefault) {
			return 1
		}
		return min(0, cmp.Compare(a.due, b.due))
	})
}
