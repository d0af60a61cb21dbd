package hsc

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// fixture is a Service over a store and a queue in memory, in virtual time.
type fixture struct {
	testing.TB

	ctx     context.Context //nolint:containedctx // of the test
	clock   clock.Clock
	store   *faultyStore
	queue   *queue.Queue
	catalog *catalog.Catalog
	leases  *faultyLeases
	book    *lease.Book
	svc     *Service
	window  atomic.Int64 // time.Duration, how far ahead the scheduler of this process fires from memory
	mu      sync.Mutex   // guards what hooks and scheduler note; read without it only when all is quiet
	awake   []task.Task
	done    [][]task.Task // of each call
	putBack []putBack
	undone  bool // Done came after an Awake of the same task
	refused map[string]int
	ended   []task.Outcome
	failed  map[string]int
	started []time.Duration
	tasks   uint64
	stop    func()
}

// putBack is what a claim told of a task that a gate holds.
type putBack struct {
	row    task.Task
	hasRow bool
}

// faultyLeases are the rows of leases: somebody else changes them right before a write, or no write succeeds.
type faultyLeases struct {
	lease.Rows

	before atomic.Pointer[func()] // called once, before the next write
	away   atomic.Bool
}

func (r *faultyLeases) PutControl(ctx context.Context, c store.Control) error {
	if before := r.before.Swap(nil); before != nil {
		(*before)()
	}
	if r.away.Load() {
		return store.ErrUnknown
	}
	return r.Rows.PutControl(ctx, c)
}

func newFixture(tb testing.TB, hooks bool) *fixture {
	tb.Helper()
	return newFixtureBy(tb, hooks, clock.Real()) // virtual inside a synctest bubble
}

func newFixtureBy(tb testing.TB, hooks bool, c clock.Clock) *fixture {
	tb.Helper()
	log := slog.New(slog.DiscardHandler)
	rows := store.New(mem.New(), store.Config{Clock: c, Logger: log})
	lambdas := catalog.New(rows, c, log, catalog.Limits{})
	weights := func(lambda uint32) []uint16 { return lambdas.ByRef(lambda).PriorityWeights }
	f := &fixture{
		TB: tb, ctx: tb.Context(), clock: c, store: &faultyStore{Store: rows},
		queue: queue.New(queuemem.New(c, queuemem.Config{DepthMax: 2_000_000}), queue.Config{Weights: weights}), catalog: lambdas,
		leases: &faultyLeases{Rows: rows}, refused: map[string]int{}, failed: map[string]int{},
	}
	f.book = lease.NewBook(f.leases, c)
	f.fires(16 * time.Second)
	f.svc = New(Config{
		Parent: chain.ParentOf,
		Store:  f.store, Queue: f.queue, Catalog: f.catalog, Waiting: &dispatcher.Register{}, Leases: f.book,
		Sealer: task.NewSealer(make([]byte, task.TokenKeyBytes)), Scheduler: f, Clock: c,
	})
	if hooks {
		f.svc.Hooks = f.hooks().withDefaults()
	}
	f.lambda("mail")
	f.stop = runtest.Start(tb, f.svc.Run)
	return f
}

func (f *fixture) hooks() Hooks {
	return Hooks{
		Refused: func(reason string, n int) { f.mu.Lock(); f.refused[reason] += n; f.mu.Unlock() },
		Finished: func(_ *catalog.Entry, _ *task.Task, o task.Outcome) {
			f.mu.Lock()
			f.ended = append(f.ended, o)
			f.mu.Unlock()
		},
		Started: func(_ *catalog.Entry, _ *task.Task, late time.Duration) {
			f.mu.Lock()
			f.started = append(f.started, late)
			f.mu.Unlock()
		},
		Failed: func(what string, _ error) { f.mu.Lock(); f.failed[what]++; f.mu.Unlock() },
	}
}

// bubble runs a test in virtual time and ends the service after it.
func bubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	bubbleBy(t, clock.Real(), test)
}

func bubbleBy(t *testing.T, c clock.Clock, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixtureBy(t, true, c)
		defer f.stop()
		test(f)
	})
}

// fires sets how far ahead the scheduler of this process fires from memory.
func (f *fixture) fires(ahead time.Duration) { f.window.Store(int64(ahead)) }

// FiresWithin implements Scheduler.
func (f *fixture) FiresWithin(_ task.Partition, at task.Instant) bool {
	return at <= f.clock.Now().Add(time.Duration(f.window.Load()))
}

// Awake implements Scheduler.
func (f *fixture) Awake(t *task.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awake = append(f.awake, *t)
}

// PutBack implements Scheduler.
func (f *fixture) PutBack(t *task.Task, hasRow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.putBack = append(f.putBack, putBack{*t, hasRow})
}

// Done implements Scheduler.
func (f *fixture) Done(rows []task.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, slices.Clone(rows))
	for _, row := range rows {
		f.undone = f.undone || slices.ContainsFunc(f.awake, func(t task.Task) bool { return t.ID == row.ID && t.Seq > row.Seq })
	}
}

func (f *fixture) lambda(name string, priorities ...string) *catalog.Entry {
	f.Helper()
	l, _, err := f.catalog.Create(f.ctx, task.Lambda{Name: name, Priorities: priorities, MaxAttempts: 3})
	if err != nil {
		f.Fatal(err)
	}
	return l
}

// task makes the row of an enqueued task of the lambda, due now, and changes it.
func (f *fixture) task(lambda string, changes ...func(*task.Task)) task.Task {
	f.Helper()
	l, err := f.catalog.Lambda(lambda)
	if err != nil {
		f.Fatal(err)
	}
	f.tasks++
	now := f.clock.Now()
	t := task.Task{
		Partition: task.Partition{Lambda: l.Ref, Priority: 1}, State: task.Enqueued, Seq: 1, Enqueues: 1,
		Due: now.CeilMillis(), Created: now, Enqueued: now, Wake: now.Add(task.EnqueueTimeout),
		Payload: []byte("hello"), PayloadSize: 5,
	}
	binary.BigEndian.PutUint64(t.ID[8:], f.tasks)
	for _, change := range changes {
		change(&t)
	}
	t.WakeRow = task.WakeRow{At: t.Due, Seq: 1}
	return t
}

// enqueue stores tasks and sends their messages.
func (f *fixture) enqueue(tasks ...task.Task) {
	f.Helper()
	f.put(tasks...)
	f.send(tasks...)
}

// put stores tasks: live ones with their wake-up rows, ended ones alone.
func (f *fixture) put(tasks ...task.Task) {
	f.Helper()
	var ops []store.Op
	for _, t := range tasks {
		if t.State.IsEnd() {
			ops = append(ops, store.Op{Kind: store.PutTask, Task: t, New: true})
		} else {
			ops = append(ops, store.FirstWithRow(t)...)
		}
	}
	f.apply(ops...)
}

func (f *fixture) enqueueMany(lambda string, n int) []task.Task {
	f.Helper()
	tasks := make([]task.Task, n)
	for i := range tasks {
		tasks[i] = f.task(lambda)
	}
	f.enqueue(tasks...)
	return tasks
}

func (f *fixture) apply(ops ...store.Op) {
	f.Helper()
	results, err := f.store.Store.Apply(f.ctx, ops)
	if err != nil {
		f.Fatal(err)
	}
	for _, err := range results {
		if err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fixture) send(tasks ...task.Task) {
	f.Helper()
	messages := make([]queue.Message, len(tasks))
	for i := range tasks {
		messages[i].Task = tasks[i]
	}
	for _, err := range f.queue.Send(f.ctx, messages) {
		if err != nil {
			f.Fatal(err)
		}
	}
}

// change applies an event to the stored row, as another role would.
func (f *fixture) change(id task.ID, e task.Event) task.Task {
	f.Helper()
	row := f.row(id)
	next, _, err := row.Apply(e, f.clock.Now(), task.Policy{MaxAttempts: 3, Retention: time.Hour})
	if err != nil {
		f.Fatal(err)
	}
	f.apply(store.Change(next, false, false)...)
	return next
}

func (f *fixture) row(id task.ID) task.Task {
	f.Helper()
	rows, err := f.store.Store.Tasks(f.ctx, []task.ID{id})
	if err != nil {
		f.Fatal(err)
	}
	return rows[0]
}

func (f *fixture) wantState(id task.ID, want task.State) task.Task {
	f.Helper()
	row := f.row(id)
	if row.State != want {
		f.Errorf("task %s is %s, want %s", id, row.State, want)
	}
	return row
}

// wakeups returns all wake-up rows of the task, in order of time.
func (f *fixture) wakeups(t task.Task) (rows []task.Task) {
	f.Helper()
	all, err := f.store.ScanSchedule(f.ctx, t.Partition, store.WakeKey{}, math.MaxInt64, store.ScanMax)
	if err != nil {
		f.Fatal(err)
	}
	for _, row := range all {
		if row.ID == t.ID {
			rows = append(rows, row)
		}
	}
	return rows
}

// wantWatched checks that a live task has the wake-up row that its task row names, and returns the task row.
func (f *fixture) wantWatched(id task.ID) task.Task {
	f.Helper()
	row := f.row(id)
	rows, err := f.store.Wakeups(f.ctx, []store.WakeKey{store.KeyOf(&row)})
	if err != nil {
		f.Fatal(err)
	}
	if !row.State.IsEnd() && (rows[0].ID != id || rows[0].WakeRow != row.WakeRow) {
		f.Errorf("task %s is %s and names the wake-up row %+v, which is %+v", id, row.State, row.WakeRow, rows[0].WakeRow)
	}
	return row
}

// wantQueued checks how many messages of a queue are left: waiting, and received but not settled.
func (f *fixture) wantQueued(t task.Task, visible, inFlight int) {
	f.Helper()
	d, err := f.queue.Depth(f.ctx, queue.NameFor(&t))
	if err != nil {
		f.Fatal(err)
	}
	if d.Visible != visible || d.InFlight != inFlight {
		f.Errorf("queue holds %d and %d in flight, want %d and %d", d.Visible, d.InFlight, visible, inFlight)
	}
}

func (f *fixture) register() string {
	f.Helper()
	r, err := f.svc.Register(f.ctx, &kinesinv1.RegisterRequest{Name: "w"})
	if err != nil {
		f.Fatal(err)
	}
	return r.GetWorker()
}

func slots(n uint32, lambdas ...string) *kinesinv1.SlotGroup {
	return &kinesinv1.SlotGroup{Lambdas: lambdas, Slots: n}
}

func (f *fixture) heartbeat(worker string, running ...*kinesinv1.Held) *kinesinv1.HeartbeatResponse {
	f.Helper()
	r, err := f.svc.Heartbeat(f.ctx, &kinesinv1.HeartbeatRequest{Worker: worker, Running: running})
	if err != nil {
		f.Fatal(err)
	}
	return r
}

// remote is the other side of a stream.
type remote struct {
	*fixture

	id       string
	peer     string // its address; empty: not known
	requests chan *kinesinv1.WorkRequest
	over     chan struct{} // closed when the call has returned
	err      error         // of the call, once over is closed

	mu        sync.Mutex
	deaf      chan struct{} // while open, nothing is received
	responses []*kinesinv1.WorkResponse
	broken    error // what sending to this worker returns
}

// Receive implements conn.
func (w *remote) Receive() (*kinesinv1.WorkRequest, error) {
	select {
	case r, open := <-w.requests:
		if !open {
			return nil, io.EOF
		}
		return r, nil
	case <-w.over:
		return nil, io.ErrClosedPipe
	}
}

// Send implements conn.
func (w *remote) Send(r *kinesinv1.WorkResponse) error {
	w.mu.Lock()
	deaf := w.deaf
	w.mu.Unlock()
	if deaf != nil {
		<-deaf
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
	}
	w.responses = append(w.responses, r)
	return nil
}

// Peer returns the worker's address.
func (w *remote) Peer() connect.Peer { return connect.Peer{Addr: w.peer} }

// dial opens a stream for a registered worker.
func (f *fixture) dial(id string, hello *kinesinv1.Hello) *remote {
	f.Helper()
	return f.dialFrom("", id, hello)
}

func (f *fixture) dialFrom(peer, id string, hello *kinesinv1.Hello) *remote {
	f.Helper()
	hello.Worker = id
	w := &remote{fixture: f, id: id, peer: peer, requests: make(chan *kinesinv1.WorkRequest, 1024), over: make(chan struct{})}
	w.requests <- &kinesinv1.WorkRequest{Hello: hello}
	go func() {
		defer close(w.over)
		w.err = f.svc.serveStream(context.WithoutCancel(f.ctx), w)
	}()
	synctest.Wait()
	return w
}

// work registers a worker and opens its stream.
func (f *fixture) work(groups ...*kinesinv1.SlotGroup) *remote {
	f.Helper()
	return f.dial(f.register(), &kinesinv1.Hello{Groups: groups})
}

func (w *remote) all() []*kinesinv1.WorkResponse {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.responses)
}

// claimed returns all tasks that the worker ever got, in order.
func (w *remote) claimed() (tasks []*kinesinv1.Claimed) {
	for _, r := range w.all() {
		tasks = append(tasks, r.GetTasks()...)
	}
	return tasks
}

func (w *remote) acks() (acks []*kinesinv1.ResultAck) {
	time.Sleep(acksLinger)
	for _, r := range w.all() {
		acks = append(acks, r.GetAcks()...)
	}
	return acks
}

func (w *remote) cancels() (cancels []*kinesinv1.Held) {
	for _, r := range w.all() {
		cancels = append(cancels, r.GetCancels()...)
	}
	return cancels
}

func (w *remote) wantClaimed(n int) []*kinesinv1.Claimed {
	w.Helper()
	tasks := w.claimed()
	if len(tasks) != n {
		w.Fatalf("the worker got %d tasks, want %d", len(tasks), n)
	}
	return tasks
}

func (w *remote) send(r *kinesinv1.WorkRequest) {
	w.requests <- r
	synctest.Wait()
}

func (w *remote) report(outcome string, tasks ...*kinesinv1.Claimed) {
	r := &kinesinv1.WorkRequest{}
	for _, c := range tasks {
		r.Results = append(r.Results, result(c, outcome))
	}
	w.send(r)
}

func result(c *kinesinv1.Claimed, outcome string) *kinesinv1.Result {
	return &kinesinv1.Result{Task: c.GetTask(), Attempt: c.GetAttempt(), Outcome: outcome}
}

func held(c *kinesinv1.Claimed) *kinesinv1.Held {
	return &kinesinv1.Held{Task: c.GetTask(), Attempt: c.GetAttempt()}
}

// wantAck checks the newest ack.
func (w *remote) wantAck(c *kinesinv1.Claimed, want kinesinv1.Reason) {
	w.Helper()
	acks := w.acks()
	if len(acks) == 0 {
		w.Fatal("no ack")
	}
	last := acks[len(acks)-1]
	if string(last.GetTask()) != string(c.GetTask()) || last.GetAttempt() != c.GetAttempt() || last.GetProblem().GetReason() != want {
		w.Errorf("ack %v, want %v for attempt %d", last, want, c.GetAttempt())
	}
}

// close ends the stream as a worker does, and waits.
func (w *remote) close() error {
	close(w.requests)
	<-w.over
	return w.err
}

func id(c *kinesinv1.Claimed) task.ID {
	id, _ := idOf(c.GetTask())
	return id
}

// faultyStore is a store whose calls fail on demand.
type faultyStore struct {
	*store.Store

	meanwhile func()                  // happens before the next Apply; set when all is quiet
	refuse    func(op *store.Op) bool // writes that fail; set when all is quiet
	damaged   map[task.ID]bool        // task rows that cannot be read; set when all is quiet

	mu       sync.Mutex
	applies  int             // how many Apply calls are to fail
	part     func(n int) int // how many of their n writes are applied all the same
	reads    int             // how many Tasks calls are to fail
	payloads int             // how many Payload calls are to fail
	rotten   bool            // payload rows are damaged
	rows     int             // rows read
	writes   int             // Apply calls
}

func (s *faultyStore) failApply(n int, applied bool) {
	s.failPart(n, func(writes int) int {
		if applied {
			return writes
		}
		return 0
	})
}

// failPart fails n Apply calls of which only the first writes are applied.
func (s *faultyStore) failPart(n int, part func(writes int) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applies, s.part = n, part
}

func (s *faultyStore) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	if happens := s.meanwhile; happens != nil {
		s.meanwhile = nil
		happens()
	}
	if s.refuse != nil && slices.ContainsFunc(ops, func(op store.Op) bool { return s.refuse(&op) }) {
		return slices.Repeat([]error{store.ErrUnknown}, len(ops)), io.ErrUnexpectedEOF
	}
	s.mu.Lock()
	s.writes++
	fail := s.applies > 0
	if fail {
		s.applies--
	}
	part := s.part
	s.mu.Unlock()
	if !fail {
		return s.applyUndamaged(ctx, ops)
	}
	if n := part(len(ops)); n > 0 {
		_, _ = s.Store.Apply(ctx, ops[:n])
	}
	return slices.Repeat([]error{store.ErrUnknown}, len(ops)), io.ErrUnexpectedEOF
}

// applyUndamaged refuses the writes of tasks whose rows are damaged, and applies the others.
func (s *faultyStore) applyUndamaged(ctx context.Context, ops []store.Op) ([]error, error) {
	if len(s.damaged) == 0 {
		return s.Store.Apply(ctx, ops)
	}
	results := slices.Repeat([]error{store.ErrCorrupt}, len(ops))
	var sound []store.Op
	var at []int
	for i := range ops {
		if !s.damaged[ops[i].Task.ID] {
			sound, at = append(sound, ops[i]), append(at, i)
		}
	}
	applied, err := s.Store.Apply(ctx, sound)
	for n, i := range at {
		results[i] = applied[n]
	}
	return results, err
}

func (s *faultyStore) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows += len(ids)
	if s.reads > 0 {
		s.reads--
		return nil, io.ErrUnexpectedEOF
	}
	if len(ids) == 1 && s.damaged[ids[0]] {
		return nil, fmt.Errorf("row: %w", store.ErrCorrupt)
	}
	rows, err := s.Store.Tasks(ctx, ids)
	for i := range rows {
		if s.damaged[ids[i]] {
			rows[i] = task.Task{ID: ids[i]}
		}
	}
	return rows, err
}

func (s *faultyStore) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.payloads > 0 {
		s.payloads--
		return nil, io.ErrUnexpectedEOF
	}
	if s.rotten {
		return nil, fmt.Errorf("payload: %w", store.ErrCorrupt)
	}
	return s.Store.Payload(ctx, id)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
