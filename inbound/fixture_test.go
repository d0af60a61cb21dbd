package inbound_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	start   = task.Instant(1_700_000_000_000_000)
	horizon = 1000 * time.Hour
	payload = 4096 // the largest, in bytes
)

// serving is an inbound with the lambdas' service and the ingest of the same process.
type serving struct {
	*inbound.Inbound
	beside
}

// beside embeds the others one level deeper, so that a name that all of them have means the inbound's.
type beside struct {
	*lambdas.Service
	consuming
}

// consuming embeds the ingest one level deeper still.
type consuming struct {
	*ingest.Ingest
	rejects *ingest.Rejected
}

// settings configure all of them.
type settings struct {
	intake.Config
	Start         dispatcher.StarterConfig
	Store         inbound.Store
	Workers       inbound.Workers
	Buffering     inbound.Buffering
	Refused       func(reason kinesinv1.Reason)
	Internal      func(ctx context.Context, procedure string, err error)
	Ingest        ingest.Config
	Rejecting     ingest.RejectedConfig
	Registered    func(ctx context.Context, lambda, outcome string, err error)
	Registrations func(states map[string]int)
	Unregister    func(lambda string) string
}

func newServing(c settings) serving {
	c.Config.Store = as[intake.Store](c.Store)
	c.Start.Queue, c.Start.Lambdas, c.Start.Clock, c.Start.Enqueued = as[dispatcher.Queue](c.Queue), c.Catalog, c.Clock, c.Scheduler.Enqueued
	c.Starter = dispatcher.NewStarter(c.Start)
	in := intake.New(c.Config)
	ring, err := task.NewKeyring(task.Ring{Keys: []task.Key{{Number: 1, Secret: []byte(strings.Repeat("p", task.TokenKeyBytes))}}, Seals: 1})
	if err != nil {
		panic(err)
	}
	backlog := ingest.NewBacklog(c.Clock, c.Buffering.Buffer != nil)
	c.Buffering.Backlog = backlog
	front := inbound.New(inbound.Config{
		Intake: in, Store: c.Store, Workers: c.Workers, Buffering: c.Buffering, Pages: ring.Pages(),
		Hooks: inbound.Hooks{Refused: c.Refused, Internal: c.Internal},
	})
	c.Rejecting.Intake, c.Rejecting.Store = in, as[ingest.ControlStore](c.Store)
	rejects := ingest.NewRejected(c.Rejecting)
	c.Ingest.Intake, c.Ingest.Buffer, c.Ingest.Backlog, c.Ingest.Rejected = in, c.Buffering.Buffer, backlog, rejects
	c.Ingest.Hooks.Ended = front.Waits.Ended
	return serving{front, beside{lambdas.New(lambdas.Config{
		Store: as[lambdas.Registered](c.Store), Queue: as[lambdas.Queue](c.Queue), Catalog: c.Catalog, Tasks: front, Backlog: backlog,
		Clock: c.Clock, Shared: c.Shared, Unregister: c.Unregister,
		Hooks: lambdas.Hooks{Registered: c.Registered, Registrations: c.Registrations, Internal: c.Internal},
	}), consuming{ingest.New(c.Ingest), rejects}}}
}

// as converts a value to an interface that it implements.
func as[T any](v any) T {
	t, is := v.(T)
	if !is {
		panic(fmt.Sprintf("%T is none", v))
	}
	return t
}

// fixture runs an inbound over a store and a queue in memory, in virtual time, with one lambda "mail".
type fixture struct {
	beside []string // ids of other tasks that reschedule and redrive name too
	serving

	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the test, inside its bubble
	time   *clock.Virtual
	clock  clock.Clock
	memory *storemem.Driver
	driver *storetest.Faulty
	steps  *stepwise
	store  *store.Store
	line   *queuetest.Faulty
	queue  *queue.Queue
	lambda *catalog.Entry
	seal   *task.Sealer
	rows   *watched

	beforeSend func() // called when the scheduler is told that a message goes to its queue; may be nil

	mu       sync.Mutex
	added    []task.ID
	awake    []task.ID
	sent     []task.ID // those that the scheduler was told go to their queue
	done     []task.ID // those that it was told have ended
	stopped  []task.ID
	accepted int
	refused  []kinesinv1.Reason
	internal []error
	dropped  []uint32
	missing  []string
	made     []string // lambdas whose queues were asked for
}

// dropping wraps the queue and records calls for lambdas.
type dropping struct {
	*queue.Queue
	f *fixture
}

func (d dropping) Drop(_ context.Context, lambda uint32) error {
	d.f.note(func() { d.f.dropped = append(d.f.dropped, lambda) })
	return nil
}

func (d dropping) Missing(context.Context, task.Lambda) (names []string, err error) {
	d.f.note(func() { names = slices.Clone(d.f.missing) })
	return names, nil
}

func (d dropping) Provision(ctx context.Context, l task.Lambda) error {
	d.f.note(func() { d.f.made = append(d.f.made, l.Name) })
	return d.Queue.Provision(ctx, l)
}

// CheckLambda refuses queue names that are taken, made of the names of lambda and priority as on SQS.
func (d dropping) CheckLambda(l task.Lambda, planned ...task.Lambda) error {
	others := slices.Clone(planned)
	for _, entry := range d.f.Catalog.All() {
		others = append(others, entry.Lambda)
	}
	for _, other := range others {
		for _, priority := range other.Priorities {
			if other.Name != l.Name && slices.ContainsFunc(l.Priorities, func(p string) bool { return l.Name+"-"+p == other.Name+"-"+priority }) {
				return fmt.Errorf("%w lambda %s: its queue would be one of lambda %s", task.ErrInvalid, l.Name, other.Name)
			}
		}
	}
	return d.Queue.CheckLambda(l, planned...)
}

// stepwise writes one row after the other, as a driver without a commit over several rows does.
type stepwise struct {
	store.Driver

	mu      sync.Mutex
	between func() // called once, before the next write that follows another; nil: writes go on together
	after   func() // called once, after the next writes; nil: not
}

// afterwards runs a function when the next writes are done and nobody knows it yet.
func (s *stepwise) afterwards(after func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = after
}

// meanwhile runs a function between the next two writes of a task.
func (s *stepwise) meanwhile(between func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.between = between
}

func (s *stepwise) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	s.mu.Lock()
	between, after := s.between, s.after
	s.after = nil
	s.mu.Unlock()
	if after != nil {
		defer after()
	}
	at := slices.IndexFunc(ops, func(op store.Op) bool { return op.Follows })
	if between == nil || at < 0 {
		return s.Driver.Apply(ctx, ops)
	}
	results, err := s.Driver.Apply(ctx, ops[:at])
	if err != nil {
		return nil, err
	}
	s.meanwhile(nil)
	between()
	rest := slices.Clone(ops[at:])
	rest[0].Follows = false
	if before := results[at-1]; before != nil && (ops[at-1].Kind != store.PutWakeup || !errors.Is(before, store.ErrConflict)) {
		results, rest = append(results, store.ErrSkipped), rest[1:]
	}
	if len(rest) == 0 {
		return results, nil
	}
	more, err := s.Driver.Apply(ctx, rest)
	return append(results, more...), err
}

// watched wraps the store with hooks around its calls.
type watched struct {
	*store.Store

	mu          sync.Mutex
	beforeApply func(ops []store.Op)
	afterApply  func()
	afterTasks  func()
	failTasks   int // reads of task rows that fail
	reads       int
	scans       int              // of wake-up rows
	asked       int              // rows that these asked for at most
	endedScans  int              // of ended rows
	endedTimes  int              // how many times the next scan of ended rows has each of them; 0: once
	written     map[task.ID]bool // tasks that may have a task row
	unreadable  map[string]error // registrations that cannot be read
}

// set sets all hooks at once.
func (w *watched) set(beforeApply func([]store.Op), afterApply, afterTasks func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beforeApply, w.afterApply, w.afterTasks = beforeApply, afterApply, afterTasks
}

func (w *watched) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	w.mu.Lock()
	before, after := w.beforeApply, w.afterApply
	for i := range ops {
		if ops[i].Kind == store.PutTask {
			w.written[ops[i].Task.ID] = true
		}
	}
	w.mu.Unlock()
	if before != nil {
		before(ops)
	}
	results, err := w.Store.Apply(ctx, ops)
	if after != nil {
		after()
	}
	return results, err
}

func (w *watched) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	w.mu.Lock()
	w.scans++
	w.asked += limit
	w.mu.Unlock()
	return w.Store.ScanSchedule(ctx, p, after, through, limit)
}

// ScanEnded has no cursor after the last row, as soon as that was read: a store may know.
func (w *watched) ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error) {
	w.mu.Lock()
	w.endedScans++
	times := max(1, w.endedTimes)
	w.endedTimes = 0
	w.mu.Unlock()
	rows, next, err := w.Store.ScanEnded(ctx, p, s, cursor, limit)
	rows = slices.Repeat(rows, times)
	if err == nil && len(next) > 0 {
		if more, _, err := w.Store.ScanEnded(ctx, p, s, next, 1); err == nil && len(more) == 0 {
			next = nil
		}
	}
	return rows, next, err
}

// scanned returns how many scans of wake-up rows there were.
func (w *watched) scanned() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.scans
}

func (w *watched) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	rows, err := w.Store.Tasks(ctx, ids)
	w.mu.Lock()
	after := w.afterTasks
	w.reads += len(ids)
	if w.failTasks > 0 {
		w.failTasks--
		rows, err = nil, errors.New("read failed")
	}
	w.mu.Unlock()
	if after != nil {
		after()
	}
	return rows, err
}

func (f *fixture) Added(t *task.Task) { f.note(func() { f.added = append(f.added, t.ID) }) }
func (f *fixture) Awake(t *task.Task) { f.note(func() { f.awake = append(f.awake, t.ID) }) }
func (f *fixture) Enqueued(t *task.Task) {
	if f.beforeSend != nil {
		f.beforeSend()
	}
	f.note(func() { f.sent = append(f.sent, t.ID) })
}

func (f *fixture) Done(rows []task.Task) {
	f.note(func() {
		for i := range rows {
			stored, err := f.store.Tasks(f.ctx, []task.ID{rows[i].ID})
			moved := err == nil && store.KeyOf(&stored[0]) != store.KeyOf(&rows[i])
			if !rows[i].State.IsEnd() && !moved {
				f.t.Errorf("the scheduler is told that task %s is done, which is %s", rows[i].ID, rows[i].State)
			}
			f.done = append(f.done, rows[i].ID)
		}
	})
}

func (f *fixture) CancelRequested(t *task.Task) {
	f.note(func() { f.stopped = append(f.stopped, t.ID) })
}

// elsewhere returns the catalog of another process.
func (f *fixture) elsewhere() *catalog.Catalog {
	f.t.Helper()
	c := catalog.New(f.store, f.clock, slog.New(slog.DiscardHandler), catalog.Limits{})
	if err := c.Refresh(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// masked returns a change with a mask of the fields that are set, and of those to reset.
func masked[M proto.Message](change M, reset ...string) M {
	if err := api.SetMask(change, reset...); err != nil {
		panic(err)
	}
	return change
}

func (f *fixture) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	runWith(t, nil, test)
}

// runWith is run with another configuration.
func runWith(t *testing.T, change func(f *fixture, c *settings), test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(0)
		f := &fixture{t: t, ctx: access.With(t.Context(), access.Caller{Identity: access.Anonymous()}), time: v, clock: c, memory: storemem.New(), seal: task.NewSealer([]byte(strings.Repeat("s", task.TokenKeyBytes)))}
		f.driver = storetest.NewFaulty(f.memory)
		f.steps = &stepwise{Driver: f.driver}
		f.store = store.New(f.steps, store.Config{Clock: c, PayloadBytesMax: payload, PayloadInlineMax: 16})
		f.line = queuetest.NewFaulty(queuemem.New(c, queuemem.Config{DepthMax: 100}))
		f.queue = queue.New(f.line, queue.Config{})
		f.rows = &watched{Store: f.store, written: map[task.ID]bool{}}
		known := catalog.New(f.store, c, slog.New(slog.DiscardHandler), catalog.Limits{})
		config := settings{
			Config: intake.Config{
				Queue: dropping{f.queue, f}, Catalog: known, Sealer: f.seal, Scheduler: f, Clock: c, Horizon: horizon,
				Hooks: intake.Hooks{Accepted: func(_ *catalog.Entry, _ uint8, _ string, n int) { f.note(func() { f.accepted += n }) }},
			},
			Start: dispatcher.StarterConfig{NearDepthMax: 8},
			Store: f.rows, Workers: f,
			Refused:  func(r kinesinv1.Reason) { f.note(func() { f.refused = append(f.refused, r) }) },
			Internal: func(_ context.Context, _ string, err error) { f.note(func() { f.internal = append(f.internal, err) }) },
		}
		if change != nil {
			change(f, &config)
		}
		f.serving = newServing(config)
		var err error
		if f.lambda, _, err = known.Create(f.ctx, task.Lambda{Name: "mail", Shards: 2}); err != nil {
			t.Fatal(err)
		}
		test(f)
		f.wantWakeups()
	})
}

// wantWakeups checks that every live task has the wake-up row that it names.
func (f *fixture) wantWakeups() {
	f.t.Helper()
	rows, err := f.memory.Tasks(context.WithoutCancel(f.ctx), slices.Collect(maps.Keys(f.rows.written)))
	if errors.Is(err, store.ErrClosed) {
		return
	}
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range rows {
		if rows[i].ID.IsZero() || rows[i].State.IsEnd() {
			continue
		}
		wakeups, err := f.memory.Wakeups(context.WithoutCancel(f.ctx), []store.WakeKey{store.KeyOf(&rows[i])})
		if err != nil || wakeups[0].ID.IsZero() || wakeups[0].WakeRow != rows[i].WakeRow {
			f.t.Errorf("task %s is %s and names wake-up row %+v; there is %+v, %v", rows[i].ID, rows[i].State, rows[i].WakeRow, wakeups[0].WakeRow, err)
		}
	}
}

// during runs call beside the moving clock.
func (f *fixture) during(d time.Duration, call func()) {
	f.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	synctest.Wait()
	f.time.Advance(d)
	select {
	case <-done:
	default:
		f.t.Fatalf("not done after %v", d)
	}
}

// in returns a task of lambda mail that is due in d.
func in(d time.Duration) *kinesinv1.ScheduleItem {
	return &kinesinv1.ScheduleItem{Lambda: "mail", Delay: d.Microseconds()}
}

func with(item *kinesinv1.ScheduleItem, change func(*kinesinv1.ScheduleItem)) *kinesinv1.ScheduleItem {
	change(item)
	return item
}

func (f *fixture) schedule(items ...*kinesinv1.ScheduleItem) []*kinesinv1.ScheduleResult {
	f.t.Helper()
	response, err := f.Schedule(f.ctx, &kinesinv1.ScheduleRequest{Items: items})
	if err != nil {
		f.t.Fatal(err)
	}
	return response.Results
}

// accept schedules one task that must be accepted and returns its id.
func (f *fixture) accept(item *kinesinv1.ScheduleItem) string {
	f.t.Helper()
	r := f.schedule(item)[0]
	if r.Problem != nil || r.Id == "" {
		f.t.Fatalf("refused: %v", r.Problem)
	}
	return r.Id
}

func (f *fixture) get(id string) *kinesinv1.GetResult {
	f.t.Helper()
	response, err := f.Get(f.ctx, &kinesinv1.GetRequest{Ids: []string{id}, WithPayload: true})
	if err != nil {
		f.t.Fatal(err)
	}
	return response.Results[0]
}

func (f *fixture) idOf(id string) task.ID {
	f.t.Helper()
	if task.IsInboundToken(id) {
		token, err := task.NewInboundSealer(inboundKey).Open(f.ctx, id)
		if err != nil {
			f.t.Fatal(err)
		}
		return token.ID
	}
	token, err := f.seal.Open(f.ctx, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return token.ID
}

// row reads the task row of an id; a zero ID when there is none.
func (f *fixture) row(id string) task.Task {
	f.t.Helper()
	rows, err := f.store.Tasks(f.ctx, []task.ID{f.idOf(id)})
	if err != nil {
		f.t.Fatal(err)
	}
	return rows[0]
}

// waitingRows returns the wake-up rows that no live task row names: those of waiting tasks, and leftover
// rows.
func (f *fixture) waitingRows() (all []task.Task) {
	f.t.Helper()
	return f.waitingRowsOf(f.lambda.Name)
}

func (f *fixture) waitingRowsOf(lambda string) (all []task.Task) {
	f.t.Helper()
	for _, wakeup := range f.wakeupRowsOf(lambda) {
		rows, err := f.store.Tasks(f.ctx, []task.ID{wakeup.ID})
		if err != nil {
			f.t.Fatal(err)
		}
		if row := rows[0]; row.ID.IsZero() || row.State.IsEnd() || store.KeyOf(&row) != store.KeyOf(&wakeup) {
			all = append(all, wakeup)
		}
	}
	return all
}

func (f *fixture) wakeupRows() []task.Task {
	f.t.Helper()
	return f.wakeupRowsOf(f.lambda.Name)
}

func (f *fixture) wakeupRowsOf(lambda string) (all []task.Task) {
	f.t.Helper()
	l := f.lambda
	if l.Name != lambda {
		var err error
		if l, err = f.Catalog.Lambda(lambda); err != nil {
			f.t.Fatal(err)
		}
	}
	for _, p := range l.Partitions() {
		rows, err := f.store.ScanSchedule(f.ctx, p, store.WakeKey{}, f.clock.Now().Add(2*horizon), 8000)
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, rows...)
	}
	return all
}

func (f *fixture) messages() int {
	f.t.Helper()
	n := 0
	for priority := range f.lambda.Priorities {
		d, err := f.queue.Depth(f.ctx, queue.Name{Lambda: f.lambda.Ref, Priority: uint8(priority)})
		if err != nil {
			f.t.Fatal(err)
		}
		n += d.Visible
	}
	return n
}

// move applies an event to a task row, as the other roles do.
func (f *fixture) move(id string, e task.Event) task.Task {
	f.t.Helper()
	before := f.row(id)
	next, _, err := before.Apply(e, f.clock.Now(), f.lambda.PolicyFor(&before))
	if err != nil {
		f.t.Fatal(err)
	}
	f.apply(store.Change(next, false, false)...)
	return next
}

func (f *fixture) claim(id string) task.Task {
	f.t.Helper()
	return f.move(id, task.Event{Kind: task.Claim, Seq: f.row(id).Seq, Worker: "w", Lease: time.Minute})
}

func (f *fixture) finish(id string, o task.Outcome) task.Task {
	f.t.Helper()
	return f.move(id, task.Event{Kind: task.Finish, Worker: "w", Attempt: f.row(id).Attempt, Outcome: o, Started: f.clock.Now()})
}

// dispatch moves a waiting task to its queue, in the order of a dispatcher.
func (f *fixture) dispatch(id string) error {
	f.t.Helper()
	token, err := f.seal.Open(f.ctx, id)
	if err != nil {
		f.t.Fatal(err)
	}
	rows, err := f.store.Wakeups(f.ctx, []store.WakeKey{{Partition: token.Partition, Wake: token.Due, ID: token.ID}})
	if err != nil {
		f.t.Fatal(err)
	}
	next, _, err := rows[0].Apply(task.Event{Kind: task.Enqueue}, f.clock.Now(), task.Policy{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.rows.mu.Lock()
	f.rows.written[next.ID] = true
	f.rows.mu.Unlock()
	results, err := f.store.Apply(f.ctx, []store.Op{{Kind: store.PutTask, Task: next}})
	if err != nil {
		f.t.Fatal(err)
	}
	return results[0]
}

func (f *fixture) apply(ops ...store.Op) {
	f.t.Helper()
	results, err := f.store.Apply(f.ctx, ops)
	if err = errors.Join(append(results, err)...); err != nil {
		f.t.Fatal(err)
	}
}

// wantRefusal checks a refusal's reason and that its text has every one of the words.
func wantRefusal(t *testing.T, what string, p *kinesinv1.Problem, reason kinesinv1.Reason, words ...string) {
	t.Helper()
	if p == nil || p.Reason != reason {
		t.Errorf("%s: %v, want %s", what, p, reason)
		return
	}
	for _, word := range words {
		if !strings.Contains(p.Text, word) {
			t.Errorf("%s: %q does not say %q", what, p.Text, word)
		}
	}
}

// wantError is wantRefusal for the error of a whole call.
func wantError(t *testing.T, what string, err error, reason kinesinv1.Reason, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want %s", what, reason)
		return
	}
	wantRefusal(t, what, api.ProblemOf(err), reason, words...)
}

func uuid7(n byte) []byte { return []byte{0, 2, 3, 4, 5, 6, 0x70, 8, 0x80, 10, 11, 12, 13, 14, 15, n} }
