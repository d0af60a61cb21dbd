package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// reclaimPause is after how long a task that may not be taken back yet is checked again.
	reclaimPause = time.Second
	// checkRetry is after how long a task in flight is checked again if its last check came to no end.
	checkRetry = 5 * time.Second
	// leasesAtOnceMax bounds the leases that one partition reads at once.
	leasesAtOnceMax = 16
	// leaseReadsMax bounds how often a lease is read again because a heartbeat came in between.
	leaseReadsMax = 3
	// callFailuresMax is how many calls about leases and queues may fail in a round; those that are under way
	// by then come on top.
	callFailuresMax = 8
	// callTimeMax bounds the time that a round spends on such calls; the one under way comes on top.
	callTimeMax = 3 * time.Second
)

// errNextRound says that a row is left to the next round, because this one has made enough calls.
var errNextRound = errors.New("left to the next round")

// recheck decides, in one round, what follows from wake-ups that have come. It asks for every lease and queue once,
// also when there is no answer, and stops when too many calls fail or take too long, so that due tasks have their turn. The
// rows that are left begin the next round.
type recheck struct {
	*managedMode

	now    task.Instant
	steady tick // now, by which leases and outages are counted
	leases map[string]answer[lease.Lease]
	ages   map[queue.Name]answer[time.Duration]

	budget callBudget
	failed []inFlightTask           // tasks that wait for what did not answer
	turns  map[task.ID]task.Instant // of tasks in flight whose rows are read: when their checks were due
}

// callBudget bounds the calls of a round.
type callBudget struct {
	open    bool // the circuit breaker is open: no calls are made
	spent   time.Duration
	failed  int
	made    bool  // a call was made
	failure error // the first one
}

// answer is the result of a call.
type answer[V any] struct {
	value V
	err   error
}

func newRecheck(m *managedMode) *recheck {
	steady := m.tick()
	now := m.wall.local(steady)
	return &recheck{
		managedMode: m, now: now, steady: steady, budget: callBudget{open: m.breaker.Left(m.Clock) > 0},
		leases: map[string]answer[lease.Lease]{}, ages: map[queue.Name]answer[time.Duration]{}, turns: map[task.ID]task.Instant{},
	}
}

// heartbeatsSince returns since when heartbeats could be received here.
func (r *recheck) heartbeatsSince() task.Instant { return r.wall.local(r.wall.heartbeatsSince()) }

// mayCall reports whether one more call may be made. After a call that failed, due tasks go first.
func (r *recheck) mayCall() bool {
	if b := &r.budget; b.open || b.failed >= callFailuresMax || b.spent >= callTimeMax {
		return false
	}
	oldest := r.buffer.oldestSend()
	return r.budget.failed == 0 || oldest.IsZero() || oldest > r.loop.now()
}

// noteCall notes that a call returned.
func (r *recheck) noteCall(err error) {
	r.stats.progress.mark(r.Clock)
	r.budget.made = true
	if isAnswer(err) {
		return
	}
	r.budget.failed++
	if r.budget.failure == nil {
		r.budget.failure = err
	}
}

// call makes a call about a lease or a queue; errNextRound when the round may make no more.
func (r *recheck) call(ask func() error) error {
	if !r.mayCall() {
		return errNextRound
	}
	began := clock.Mono(r.Clock)
	err := ask()
	r.budget.spent += clock.Mono(r.Clock) - began
	r.noteCall(err)
	return err
}

// askOnce returns the answer to a call, or the answer that it had before in this round.
func askOnce[K comparable, V any](r *recheck, known map[K]answer[V], key K, call func() (V, error)) (value V, err error) {
	if a, asked := known[key]; asked {
		return a.value, a.err
	}
	err = r.call(func() (err error) {
		value, err = call()
		return err
	})
	if !errors.Is(err, errNextRound) {
		known[key] = answer[V]{value, err}
	}
	return value, err
}

func (r *recheck) lease(ctx context.Context, worker string) (lease.Lease, error) {
	return askOnce(r, r.leases, worker, func() (lease.Lease, error) { return r.Leases.Look(ctx, worker) })
}

func (r *recheck) queueAge(ctx context.Context, name queue.Name) (time.Duration, error) {
	return askOnce(r, r.ages, name, func() (time.Duration, error) {
		depth, err := r.Queue.Depth(ctx, name)
		return depth.Oldest, err
	})
}

// end ends the round. If a call failed in it, the circuit breaker opens.
func (r *recheck) end(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	now := r.loop.now()
	again := now.Add(reclaimPause)
	switch {
	case r.budget.failure != nil:
		r.partitionFailed(ctx, r.partition, r.budget.failure)
		again = now.Add(r.breaker.Failed(r.Clock))
	case r.budget.made:
		r.breaker.Succeeded()
	}
	for _, t := range r.failed {
		t.checkAt = again
		r.inFlight.put(t)
	}
}

// decideAll decides about each row, and returns the orders. A row that cannot be decided stays in flight until it can. An
// error says that there was no room for such a row; the orders are valid all the same.
func (r *recheck) decideAll(ctx context.Context, rows []task.Task) (orders []task.Order, failed error) {
	r.budget.spent, r.budget.failed = 0, 0 // calls for what is in flight must not use up those of the others
	wasSet := r.wall.wasSet(r.Clock)       // then the rows may have stamps of another clock than this round's
	orders = make([]task.Order, 0, len(rows))
	for i := range rows {
		t := &rows[i]
		if wakesAt(t, r.now) > r.now && (t.State != task.Scheduled || t.Attempt > 0 || t.Wake > r.now.Add(r.Lead)) {
			r.follow(t) // its time has not come
			continue
		}
		event, act, err := task.Event{}, false, errNextRound
		if !wasSet {
			event, act, err = r.decide(ctx, t)
		}
		if isPermanent(err) {
			r.leaveAlone(t)
		}
		if err = r.retryable(ctx, r.partition, err); err != nil && !r.postpone(t, err) && failed == nil {
			failed = fmt.Errorf("task %s: %w", t.ID, err)
		}
		if act && len(r.held.gates) > 0 {
			act = r.gateOrder(t, &event, r.now)
		}
		if act {
			orders = append(orders, task.Order{Task: *t, Event: event})
		}
	}
	return orders, failed
}

// postpone has a row that could not be decided checked later. A row that was left to the next round keeps its turn; a row
// whose call failed comes after all of these, when calls are made again. postpone returns false if there is no room in flight.
func (r *recheck) postpone(t *task.Task, err error) bool {
	turn, had := r.turns[t.ID]
	if !had {
		turn = min(t.Wake, r.now)
	}
	f := r.inFlightAt(t, r.now)
	f.checkAt = turn
	if !r.inFlight.put(f) {
		return false
	}
	if !errors.Is(err, errNextRound) {
		r.failed = append(r.failed, f)
	}
	return true
}

// decide decides about a row. A lease that was renewed between the read and the decision is read again.
func (r *recheck) decide(ctx context.Context, t *task.Task) (event task.Event, act bool, err error) {
	for range leaseReadsMax {
		var f facts
		if f, err = r.facts(ctx, t); err != nil {
			return task.Event{}, false, err
		}
		d := decide(t, f)
		if d.event.Kind == task.WorkerLost && !r.health.mayReclaim(task.Instant(r.steady), &f.lease) {
			d = decision{action: checkLater, until: r.now.Add(reclaimPause)}
		}
		switch d.action {
		case nothing:
			return task.Event{}, false, nil
		case apply:
			return d.event, true, nil
		case checkLater, checkLease:
			r.checkAgain(t, d)
			return task.Event{}, false, nil
		case markLost:
		}
		if err = r.markLost(ctx, f.stored); err == nil {
			return d.event, true, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		delete(r.leases, t.Worker)
	}
	return task.Event{}, false, err
}

// checkAgain notes when to check a row again, whose wake-up row stays where it is: a task that runs for an
// hour would otherwise cost a write with every lease. A foreign partition leaves it to the owner.
func (r *recheck) checkAgain(t *task.Task, d decision) {
	if r.foreign {
		r.inFlight.drop(t.ID)
		return
	}
	f := r.inFlightAt(t, d.until)
	if d.action == checkLease {
		f.worker, f.rowAt = t.Worker, nextRowRead(f.firstSeen, r.now, d.until)
	}
	r.inFlight.put(f)
}

// checkInFlight checks the leases of the tasks in flight whose time has come. It returns the ids of the tasks
// whose rows have to be read, and how many it checked. Each check is first put off for a moment, so that none
// is forgotten whatever happens.
func (r *recheck) checkInFlight(ctx context.Context) (ids []task.ID, checked int) {
	if r.budget.open {
		return nil, 0
	}
	due := r.inFlight.takeDue(r.now, r.now.Add(checkRetry), batchRowsMax)
	r.readLeases(ctx, due)
	for _, t := range due {
		if t.undecided != nil {
			r.inFlight.drop(t.id)
			r.buffer.add(entry{at: r.delayed(t.undecided.WakeRow.At), id: t.id, row: t.undecided, early: true, sends: true})
			continue
		}
		r.turns[t.id] = t.checkAt
		if !r.followsLease(&t) {
			ids = append(ids, t.id)
			continue
		}
		switch end, err := r.leaseEnd(ctx, t.worker); {
		case errors.Is(err, errNextRound):
			r.inFlight.put(t) // as it was
		case err != nil && !isPermanent(err):
			r.failed = append(r.failed, t)
		case r.now < end:
			t.checkAt = min(end, t.rowAt)
			r.inFlight.put(t)
		default:
			ids = append(ids, t.id) // its row says what follows
		}
	}
	return ids, len(due)
}

// followsLease reports whether for now only the lease of the worker is to be checked, and not the row.
func (r *recheck) followsLease(t *inFlightTask) bool { return t.worker != "" && r.now < t.rowAt }

// readLeases reads the leases that tasks in flight follow and that are not known to hold, several at a time:
// one after the other they would hold up the partition.
func (r *recheck) readLeases(ctx context.Context, due []inFlightTask) {
	var workers []string
	for i := range due {
		if t := &due[i]; r.followsLease(t) && r.steady >= r.validLeases.end(t.worker) && !slices.Contains(workers, t.worker) {
			workers = append(workers, t.worker)
		}
	}
	type read struct {
		worker string
		answer answer[lease.Lease]
	}
	reads := make(chan read)
	began := clock.Mono(r.Clock)
	for under := 0; under > 0 || len(workers) > 0; under-- {
		for ; len(workers) > 0 && under < leasesAtOnceMax && r.mayCall(); under++ {
			worker := workers[0]
			workers = workers[1:]
			go func() {
				l, err := r.Leases.Look(ctx, worker)
				reads <- read{worker, answer[lease.Lease]{l, err}}
			}()
		}
		if under == 0 {
			return // enough for this round
		}
		one := <-reads
		r.leases[one.worker] = one.answer
		r.budget.spent = clock.Mono(r.Clock) - began
		r.noteCall(one.answer.err)
	}
}

// leaseEnd returns until when a worker's lease holds at least, as far as is known here or can be read; zero
// for one that is lost.
func (r *recheck) leaseEnd(ctx context.Context, worker string) (task.Instant, error) {
	if end := r.validLeases.end(worker); r.steady < end {
		return r.wall.local(end), nil
	}
	l, err := r.lease(ctx, worker)
	if err != nil || l.Lost {
		return 0, err
	}
	l.Receipt = r.wall.local(tick(l.Heard))
	return l.OverAt(r.heartbeatsSince()), nil
}

// facts gathers what a decision about a task depends on.
func (r *recheck) facts(ctx context.Context, t *task.Task) (f facts, err error) {
	f = facts{now: r.now, since: r.heartbeatsSince()}
	switch {
	case t.State.IsRunning():
		f.stored, err = r.lease(ctx, t.Worker)
		r.health.checkPause(r.Clock)
		f.lease = f.stored
		f.lease.Receipt, f.lease.Came = r.wall.local(tick(f.stored.Heard)), r.wall.local(tick(f.stored.Came))
		if from := r.health.leaseCountsFrom(&f.lease); !from.IsZero() {
			f.since = max(f.since, r.wall.local(tick(from)))
		}
		if isAhead(t.ClaimedAt, r.now) {
			f.firstSeen = r.inFlight.firstSeen(t.ID, t.Attempt, r.now)
		}
	case t.State == task.Enqueued && !t.IsExpired(r.now):
		f.queueAge, err = r.queueAge(ctx, queue.NameFor(t))
	}
	return f, err
}

// markLost ends a lease. If that fails, it is not tried again for another row of this round.
func (r *recheck) markLost(ctx context.Context, l lease.Lease) error {
	err := r.call(func() error { return r.Leases.MarkLost(ctx, l) })
	switch {
	case errors.Is(err, errNextRound):
		return err
	case err != nil:
		r.leases[l.Worker] = answer[lease.Lease]{err: err}
		return err
	}
	r.Log.WarnContext(ctx, "worker lost", slog.String("worker", l.Worker))
	if r.Hooks.Lost != nil {
		r.Hooks.Lost(l.Worker)
	}
	l.Lost = true
	r.leases[l.Worker] = answer[lease.Lease]{value: l}
	return nil
}
