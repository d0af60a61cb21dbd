package hsc

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of a stream.
const (
	GroupsMax  = 64     // slot groups of a process
	LambdasMax = 256    // lambdas of a group
	SlotsMax   = 10_000 // of all groups together
	// HeldMax is how many attempts a process names: all it can get, and as many results that were not
	// acknowledged.
	HeldMax = 2 * (SlotsMax + GroupsMax*extraMax)

	requestsAheadMax = 64   // messages read and not yet stored
	reportsBatchMax  = 4096 // reports stored together
	reportsKeptMax   = 512  // for which the room is kept
	writesPerEnd     = 2    // of an attempt that ends its task
	acksAheadMax     = 8192 // acks not yet sent
	acksFlush        = 256  // acks that are sent without waiting for something to go with
	acksLinger       = 20 * time.Millisecond
	tasksPerMessage  = 512
	bytesPerMessage  = 1 << 20 // payload bytes, above which no further task is added
)

// SilenceDefault is for how long a stream says nothing at most. A worker waits for twice as long. What it
// gets by then was claimed confirmAfter before at most, and so is named in a heartbeat before anybody takes
// it for lost (task.ClaimTimeout).
const SilenceDefault = 2 * time.Second

// conn is the server's side of a Work stream.
type conn interface {
	Receive() (*kinesinv1.WorkRequest, error)
	Send(response *kinesinv1.WorkResponse) error
}

// Work serves one stream of a worker until it closes it, its lease ends, another
// stream of it takes over, or the service stops.
func (s *Service) Work(ctx context.Context, c *connect.BidiStream[kinesinv1.WorkRequest, kinesinv1.WorkResponse]) error {
	return s.work(ctx, c)
}

func (s *Service) work(ctx context.Context, c conn) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	first, err := c.Receive()
	if err != nil {
		return err
	}
	st, err := s.open(ctx, c, first.GetHello())
	if err != nil {
		return err
	}
	return st.run(first)
}

// stream is one Work call. Its goroutines: one reads, one stores reports, one writes, and one for each
// group claims.
type stream struct {
	svc    *Service
	sess   *session
	conn   conn
	groups []*group
	// process is the one at the other end, if it can be seen from here.
	process Process

	ctx  context.Context //nolint:containedctx // the life of the stream, which other calls may end
	stop context.CancelCauseFunc

	requests chan *kinesinv1.WorkRequest // read and not yet stored; closed by the reader

	batch batch // used by storeReports alone

	// Guarded by session.mu.
	draining bool // no more tasks are to be claimed
	closed   bool // what is not sent will not be
	outbox   outbox

	filled chan struct{} // holds one value when the outbox has something or is finished
	taken  chan struct{} // holds one value when the writer took from the outbox
}

// outbox is what waits to be sent.
type outbox struct {
	tasks    []delivery
	acks     []*kinesinv1.ResultAck
	since    task.Instant // when the first of acks came, by clock.Steady
	cancels  []*kinesinv1.Held
	finished bool // nothing will be added
}

func (o *outbox) empty() bool { return len(o.tasks)+len(o.acks)+len(o.cancels) == 0 }

// open begins a stream: it takes over what the worker still holds.
func (s *Service) open(ctx context.Context, c conn, hello *kinesinv1.Hello) (*stream, error) {
	if hello == nil {
		return nil, errNoHello
	}
	groups, err := s.groupsOf(ctx, hello.GetGroups())
	if err != nil {
		return nil, err
	}
	if n := len(hello.GetHeld()); n > HeldMax {
		return nil, invalid("held %d attempts: want at most %d", n, HeldMax)
	}
	sess, err := s.session(ctx, hello.GetWorker())
	if err != nil {
		return nil, err
	}
	held := attemptsOf(hello.GetHeld())
	rows, err := s.rowsOf(ctx, held)
	if err != nil {
		return nil, s.unavailable(ctx, "read the tasks in hand", err)
	}
	st := &stream{
		svc: s, sess: sess, conn: c, groups: groups, requests: make(chan *kinesinv1.WorkRequest, requestsAheadMax),
		filled: make(chan struct{}, 1), taken: make(chan struct{}, 1),
	}
	st.ctx, st.stop = context.WithCancelCause(ctx)
	s.giveBack(ctx, sess, append(st.takeOver(held, rows), s.takeFound(sess)...))
	if err := s.admitStream(st); err != nil {
		st.close()
		return nil, err
	}
	st.process = s.processOf(c, hello.GetProcess())
	return st, nil
}

// admitStream refuses a stream that opened while the service began to stop.
func (s *Service) admitStream(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errStopping
	}
	if st.sess.isLost() {
		return leaseLost(st.sess.worker)
	}
	s.sessions[st.sess.worker] = st.sess
	return nil
}

func (s *Service) rowsOf(ctx context.Context, attempts []attempt) ([]task.Task, error) {
	if len(attempts) == 0 {
		return nil, nil
	}
	return s.Store.Tasks(ctx, idsOf(attempts))
}

func idsOf(attempts []attempt) []task.ID {
	ids := make([]task.ID, len(attempts))
	for i, a := range attempts {
		ids[i] = a.id
	}
	return ids
}

// groupsOf checks the slot groups of a process.
func (s *Service) groupsOf(ctx context.Context, wire []*kinesinv1.SlotGroup) ([]*group, error) {
	if len(wire) > GroupsMax {
		return nil, invalid("%d slot groups: want at most %d", len(wire), GroupsMax)
	}
	groups, slots := make([]*group, 0, len(wire)), 0
	for _, w := range wire {
		slots += int(w.GetSlots())
		if w.GetSlots() == 0 || slots > SlotsMax {
			return nil, invalid("slots %d: want 1 or more for each group and at most %d together", w.GetSlots(), SlotsMax)
		}
		if err := s.checkLambdas(ctx, w.GetLambdas()); err != nil {
			return nil, err
		}
		groups = append(groups, &group{
			lambdas: w.GetLambdas(), slots: int(w.GetSlots()), slotsOnly: s.SlotsOnly, changed: make(chan struct{}, 1),
		})
	}
	return groups, nil
}

func (s *Service) checkLambdas(ctx context.Context, names []string) error {
	if n := len(names); n == 0 || n > LambdasMax {
		return invalid("%d lambdas: want 1 to %d", n, LambdasMax)
	}
	for _, name := range names {
		l, err := s.Catalog.Find(ctx, name)
		if err != nil {
			return lambdaProblem(err)
		}
		if l.Mode == task.Deliver {
			return invalid("lambda %s is of mode deliver: its tasks are put on a queue for consumers outside Kinesin, and no worker runs them", name)
		}
	}
	return nil
}

// takeOver makes this the worker's stream. The worker names all it holds, results included that were not
// acknowledged; what an earlier stream sent and it does not name has never arrived and is
// returned, to be given back.
func (st *stream) takeOver(held []attempt, rows []task.Task) (orphans []task.Task) {
	sess := st.sess
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if old := sess.stream; old != nil {
		old.closed = true
		old.stop(errSuperseded)
	}
	sess.stream = st
	hands := make(map[task.ID]*hand, len(held))
	for i, a := range held {
		st.keep(hands, a, &rows[i])
	}
	for id, h := range sess.hands {
		if hands[id] == nil && !h.freed {
			orphans = append(orphans, *h.row)
		}
	}
	sess.hands = hands
	return orphans
}

// keep puts an attempt that the worker holds into its hands again, or tells it to stop.
func (st *stream) keep(hands map[task.ID]*hand, a attempt, row *task.Task) {
	owned := row.State.IsRunning() && row.Worker == st.sess.worker && row.Attempt == a.number
	if !owned || row.CancelRequested {
		st.outbox.cancels = append(st.outbox.cancels, wireHeld(a))
	}
	if !owned || hands[a.id] != nil {
		return
	}
	if a.id == st.sess.suspect && st.sess.claimed {
		wall, steady := clock.Both(st.svc.Clock)
		st.sess.until = steady.Add(min(row.ClaimedAt.Add(row.Quarantine()).Sub(wall), row.Quarantine())) // the clock may be set back
	}
	h := &hand{row: row, sent: true, group: st.groupOf(row)}
	if was := st.sess.hands[a.id]; was != nil && was.freed {
		h.freed, h.group = true, nil
	}
	if h.group != nil {
		h.group.used++
	}
	hands[a.id] = h
}

func (st *stream) groupOf(t *task.Task) *group {
	l := st.svc.Catalog.ByRef(t.Partition.Lambda)
	if l == nil {
		return nil
	}
	for _, g := range st.groups {
		if slices.Contains(g.lambdas, l.Name) {
			return g
		}
	}
	return nil
}

// run carries the stream. It ends in the direction the work flows: no more claims, then all reports
// that were read are stored, then what is left to say is sent.
func (st *stream) run(first *kinesinv1.WorkRequest) error {
	if st.process != nil {
		defer st.svc.calls.Go(st.watchDeath)
	}
	defer st.close()
	st.releaseSuspectNotHeld()
	st.svc.seats.add(st)
	st.requests <- &kinesinv1.WorkRequest{Results: first.GetResults(), Started: first.GetStarted()}
	if first.GetDrain() {
		st.drain()
	}
	st.fill()                // what the take-over has to say
	st.svc.calls.Go(st.read) // ends when the call has returned, at the latest
	var pumps, recorder, writer sync.WaitGroup
	for _, g := range st.groups {
		pumps.Go(func() { st.pump(g) })
	}
	recorder.Go(st.storeReports)
	writer.Go(st.write)
	recorder.Wait()
	st.drain()
	st.stop(errStreamDone)
	pumps.Wait()
	st.finishOutbox()
	st.returnUnsent() // not after the writer, who may hang until the connection breaks
	writer.Wait()
	err := context.Cause(st.ctx)
	if errors.Is(err, errStreamDone) {
		return nil
	}
	return err
}

// errStreamDone is the cause of a stream that its worker closed.
var errStreamDone = errors.New("the worker closed the stream")

// releaseSuspectNotHeld clears a suspect that an earlier run of this HSC or another one left in the lease.
func (st *stream) releaseSuspectNotHeld() {
	st.sess.mu.Lock()
	id := st.sess.suspect
	held := st.sess.hands[id] != nil
	underWay := !st.sess.claimed // on the stream before this one
	st.sess.mu.Unlock()
	if !held && !underWay {
		st.svc.suspectDone(st.sess, id)
	}
}

// read takes messages from the worker. A slot is free as soon as its result is here.
func (st *stream) read() {
	defer close(st.requests)
	for {
		request, err := st.conn.Receive()
		if err != nil {
			st.readEnded(err)
			return
		}
		if request.GetDrain() {
			st.drain()
		}
		st.freeSlots(request.GetResults())
		select {
		case st.requests <- request:
		case <-st.ctx.Done():
			return
		}
	}
}

// readEnded stops the claiming; a stream that broke, rather than being closed, is over at once.
func (st *stream) readEnded(err error) {
	st.drain()
	if !errors.Is(err, io.EOF) {
		st.stop(err)
	}
}

func (st *stream) freeSlots(results []*kinesinv1.Result) {
	if len(results) == 0 {
		return
	}
	now := st.svc.Clock.Now()
	st.sess.mu.Lock()
	defer st.sess.mu.Unlock()
	for _, r := range results {
		id, _ := idOf(r.GetTask())
		if h := st.sess.hands[id]; h != nil && h.row.Attempt == r.GetAttempt() {
			if h.group != nil {
				h.group.pace.note(task.Instant(r.GetStartedMicros()), now)
			}
			h.result()
		}
	}
}

// drain stops the claiming, and the waiting of acks for company: a worker that stops waits for them.
func (st *stream) drain() {
	defer st.fill()
	st.sess.mu.Lock()
	defer st.sess.mu.Unlock()
	st.draining = true
	for _, g := range st.groups {
		g.pollAnew()
	}
}

// storeReports stores what was read, as much at a time as has come in, until the reader has
// ended or the stream is stopped; then it stores what is left.
func (st *stream) storeReports() {
	for {
		select {
		case request, more := <-st.requests:
			if !more {
				return
			}
			st.storeBatch(request)
		case <-st.ctx.Done():
			st.storeLeft()
			return
		}
	}
}

// storeLeft stores what was read before the stream was stopped.
func (st *stream) storeLeft() {
	for {
		select {
		case request, more := <-st.requests:
			if !more {
				return
			}
			st.storeBatch(request)
		default:
			return
		}
	}
}

// storeBatch stores a message and those that have come in meanwhile.
func (st *stream) storeBatch(request *kinesinv1.WorkRequest) {
	results, started := request.GetResults(), request.GetStarted()
	for len(results)+len(started) < reportsBatchMax {
		next, more := st.nextRequest()
		if !more {
			break
		}
		results, started = append(results, next.GetResults()...), append(started, next.GetStarted()...)
	}
	if len(results)+len(started) == 0 {
		return
	}
	acks := st.svc.setResults(context.WithoutCancel(st.ctx), st.sess, &st.batch, results, started)
	st.sendAcks(acks)
}

func (st *stream) nextRequest() (*kinesinv1.WorkRequest, bool) {
	select {
	case request, more := <-st.requests:
		return request, more
	default:
		return nil, false
	}
}

// batch is the room in which reports are made ready; it is used again and again.
type batch struct {
	// awaited reports are those of a call, which waits for its acks. On a stream the slots are free already,
	// so nobody is in a hurry for them.
	awaited bool
	reports []report
	ops     []store.Op
	over    []task.Task // whose wake-up rows are needless
}

// reset forgets the tasks of the last time, and keeps the room unless it has become large.
func (b *batch) reset() {
	if len(b.reports) > reportsKeptMax {
		*b = batch{awaited: b.awaited}
		return
	}
	clear(b.reports)
	clear(b.ops)
	b.reports, b.ops = b.reports[:0], b.ops[:0]
}

// setResults stores results and starts, and answers the results.
func (s *Service) setResults(ctx context.Context, sess *session, b *batch, results []*kinesinv1.Result, started []*kinesinv1.Started) []*kinesinv1.ResultAck {
	defer b.reset()
	b.reports = slices.Grow(b.reports, len(results)+len(started))
	b.ops = slices.Grow(b.ops, writesPerEnd*len(results)+len(started))
	acks := make([]*kinesinv1.ResultAck, 0, len(results))
	for _, r := range started {
		if rep, ok := startOf(r); ok {
			b.reports = append(b.reports, rep)
		}
	}
	starts := len(b.reports)
	for _, r := range results {
		rep, problem := finishOf(r)
		if problem != nil {
			acks = append(acks, &kinesinv1.ResultAck{Task: r.GetTask(), Attempt: r.GetAttempt(), Problem: problem})
			continue
		}
		b.reports = append(b.reports, rep)
	}
	sess.recallRows(b.reports)
	s.recordBatch(ctx, sess, b)
	for i := starts; i < len(b.reports); i++ {
		acks = append(acks, wireAck(b.reports[i].attempt, b.reports[i].problem))
	}
	return acks
}

// recallRows spares the reading of rows that are as this process last stored them.
func (s *session) recallRows(reports []report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range reports {
		if h := s.hands[reports[i].id]; h != nil && h.row.Attempt == reports[i].number {
			reports[i].row = h.row
		}
	}
}

// close ends the stream.
func (st *stream) close() {
	st.stop(errStreamDone)
	st.svc.seats.remove(st)
	st.sess.mu.Lock()
	st.closed = true
	if st.sess.stream == st {
		st.sess.stream = nil
	}
	st.sess.mu.Unlock()
	st.returnUnsent()
}

// returnUnsent puts tasks that were claimed for the stream and not sent back into their queues.
func (st *stream) returnUnsent() {
	st.svc.giveBack(st.ctx, st.sess, st.withdraw(func(*task.Task) bool { return true }))
}
