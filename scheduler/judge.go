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
	// rampLook is when a task is looked at again that may not be taken back yet.
	rampLook = time.Second
	// lookRetry is when a row in flight is looked at again of which the last look brought no end.
	lookRetry = 5 * time.Second
	// leasesAtOnceMax bounds the leases that one partition reads at once.
	leasesAtOnceMax = 16
	// askFailuresMax is how many calls about leases and queues may fail one after the other in a round; those
	// that are under way by then come on top.
	askFailuresMax = 8
	// askMax is for how long a round asks; the call that is under way by then comes on top.
	askMax = 3 * time.Second
)

// errLater says that a row is left to the next round, since this one has asked for enough.
var errLater = errors.New("not asked for in this round")

// judgement is what one round of decisions has learnt so far. It asks for every lease and queue once, also
// for one that does not answer, and stops asking when too many do not, or too slowly: then what is due in the
// meantime has its turn. What is left begins the next round.
type judgement struct {
	m      *managing
	l      *loop
	s      *Scheduler
	now    task.Instant
	steady task.Instant // now by clock.Steady, by which leases and outages are counted
	leases map[string]answer[lease.Lease]
	ages   map[queue.Name]answer[time.Duration]

	rests   bool          // it is too early to ask again
	spent   time.Duration // on asking
	failed  int           // calls that did
	asked   bool          // anything, in this round
	failure error         // the first of the round
	failing []inFlight    // rows that wait for what did not answer

	turns map[task.ID]task.Instant // of rows in flight that are read: since when they are to be looked at
}

// answer is what a call brought.
type answer[V any] struct {
	value V
	err   error
}

func newJudgement(m *managing) *judgement {
	s := m.l.s
	steady := clock.Steady(s.Clock)
	now := steady.Add(m.l.basis)
	return &judgement{
		m: m, l: m.l, s: s, now: now, steady: steady, rests: waits(now, m.askRetry),
		leases: map[string]answer[lease.Lease]{}, ages: map[queue.Name]answer[time.Duration]{}, turns: map[task.ID]task.Instant{},
	}
}

// local is an instant of clock.Steady by the wall clock of this round.
func (j *judgement) local(steady task.Instant) task.Instant { return steady.Add(j.l.basis) }

// since is from when on a heartbeat could be taken here, by clock.Steady: since the start of the scheduler,
// or since the wall clock was set. Then everybody has the time that they would have after an outage.
func (j *judgement) since() task.Instant { return max(j.l.since, j.l.stepped) }

// mayAsk reports whether there may be one more call. After one that failed, what is due goes first.
func (j *judgement) mayAsk() bool {
	if j.rests || j.failed >= askFailuresMax || j.spent >= askMax {
		return false
	}
	head := j.l.ahead.waitsSince()
	return j.failed == 0 || head.IsZero() || head > j.l.now()
}

// came notes that a call came back.
func (j *judgement) came(err error) {
	j.l.progress.mark(j.s.Clock)
	j.asked = true
	if isAnswer(err) {
		return
	}
	j.failed++
	if j.failure == nil {
		j.failure = err
	}
}

// call is one call about a lease or a queue; errLater when there are to be no more.
func (j *judgement) call(ask func() error) error {
	if !j.mayAsk() {
		return errLater
	}
	began := clock.Mono(j.s.Clock)
	err := ask()
	j.spent += clock.Mono(j.s.Clock) - began
	j.came(err)
	return err
}

// ask is what is known of a key in this round, or else what a call says.
func ask[K comparable, V any](j *judgement, known map[K]answer[V], key K, call func() (V, error)) (value V, err error) {
	if a, asked := known[key]; asked {
		return a.value, a.err
	}
	err = j.call(func() (err error) {
		value, err = call()
		return err
	})
	if !errors.Is(err, errLater) {
		known[key] = answer[V]{value, err}
	}
	return value, err
}

func (j *judgement) lease(ctx context.Context, worker string) (lease.Lease, error) {
	return ask(j, j.leases, worker, func() (lease.Lease, error) { return j.s.Leases.Look(ctx, worker) })
}

func (j *judgement) age(ctx context.Context, name queue.Name) (time.Duration, error) {
	return ask(j, j.ages, name, func() (time.Duration, error) {
		depth, err := j.s.Queue.Depth(ctx, name)
		return depth.Oldest, err
	})
}

// end closes the round. After one in which something did not answer nothing is asked for a while.
func (j *judgement) end(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	now := j.l.now()
	again := now.Add(rampLook)
	switch {
	case j.failure != nil:
		j.s.complain(ctx, j.l.partition, j.failure)
		j.m.askRetry = now.Add(j.s.backoff(j.m.askFailures))
		j.m.askFailures++
		again = j.m.askRetry
	case j.asked:
		j.m.askRetry, j.m.askFailures = 0, 0
	}
	for _, w := range j.failing {
		w.at = again
		j.l.flight.put(w)
	}
}

// judge decides each row. What cannot be decided is in flight until it can; the error is of a row for which
// there is no room, and the orders are good all the same.
func (j *judgement) judge(ctx context.Context, rows []task.Task) (orders []task.Order, failed error) {
	j.spent, j.failed = 0, 0 // the leases of what is in flight are not to keep the others from being judged
	orders = make([]task.Order, 0, len(rows))
	for i := range rows {
		t := &rows[i]
		if wakesAt(t, j.now) > j.now && (t.State != task.Scheduled || t.Attempt > 0 || t.Wake > j.now.Add(j.s.Lead)) {
			j.m.follow(t) // its time has not come
			continue
		}
		event, act, err := j.rule(ctx, t)
		if isLasting(err) {
			j.m.putAside(t)
		}
		if err = j.s.worthRetry(ctx, j.l.partition, err); err != nil && !j.postpone(t, err) && failed == nil {
			failed = fmt.Errorf("task %s: %w", t.ID, err)
		}
		if act {
			orders = append(orders, task.Order{Task: *t, Event: event})
		}
	}
	return orders, failed
}

// postpone looks later at a row that could not be decided: one that was left to the next round keeps its
// turn, and the others come after all of those, when what did not answer is asked again. It is false where
// memory has no room.
func (j *judgement) postpone(t *task.Task, err error) bool {
	at, had := j.turns[t.ID]
	if !had {
		at = min(t.Wake, j.now)
	}
	w := j.l.flightOf(t, j.now)
	w.at = at
	if !j.l.flight.put(w) {
		return false
	}
	if !errors.Is(err, errLater) {
		j.failing = append(j.failing, w)
	}
	return true
}

// rule decides a row. A lease that was renewed between the look and the verdict is looked at again.
func (j *judgement) rule(ctx context.Context, t *task.Task) (event task.Event, act bool, err error) {
	for range leaseLooksMax {
		var c circumstances
		if c, err = j.circumstances(ctx, t); err != nil {
			return task.Event{}, false, err
		}
		d := decide(t, c)
		if d.event.Kind == task.WorkerLost && !j.s.dog.mayReclaim(j.steady, &c.lease) {
			d = decision{verdict: lookAgain, until: j.now.Add(rampLook)}
		}
		switch d.verdict {
		case nothing:
			return task.Event{}, false, nil
		case carryOut:
			return d.event, true, nil
		case lookAgain, lookLease:
			j.lookLater(t, d)
			return task.Event{}, false, nil
		case reclaim:
		}
		if err = j.markLost(ctx, c.seen); err == nil {
			return d.event, true, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		delete(j.leases, t.Worker)
	}
	return task.Event{}, false, err
}

// lookLater notes when to look at a row again, whose own wake-up stays where it is: a task that runs for an
// hour would otherwise cost a write with every lease. A guest leaves it to the owner.
func (j *judgement) lookLater(t *task.Task, d decision) {
	if j.l.guest {
		j.l.flight.drop(t.ID)
		return
	}
	w := j.l.flightOf(t, d.until)
	if d.verdict == lookLease {
		w.worker, w.rowAt = t.Worker, rowLook(w.since, j.now, d.until)
	}
	j.l.flight.put(w)
}

// lookAtFlight looks at the leases of the tasks in flight whose time has come, and returns the ids of those
// whose rows have to be read, and how many it looked at. Each is put off for a moment first, so that none is
// forgotten whatever happens to it.
func (j *judgement) lookAtFlight(ctx context.Context) (ids []task.ID, looked int) {
	if j.rests {
		return nil, 0
	}
	due := j.l.flight.due(j.now, j.now.Add(lookRetry), batchRowsMax)
	j.readLeases(ctx, due)
	for _, w := range due {
		j.turns[w.id] = w.at
		if !j.followsLease(&w) {
			ids = append(ids, w.id)
			continue
		}
		switch end, err := j.leaseEnd(ctx, w.worker); {
		case errors.Is(err, errLater):
			j.l.flight.put(w) // as it was
		case err != nil && !isLasting(err):
			j.failing = append(j.failing, w)
		case j.now < end:
			w.at = min(end, w.rowAt)
			j.l.flight.put(w)
		default:
			ids = append(ids, w.id) // the row's verdict will say what follows
		}
	}
	return ids, len(due)
}

// followsLease reports whether the worker of a task in flight tells all there is to know for now.
func (j *judgement) followsLease(w *inFlight) bool { return w.worker != "" && j.now < w.rowAt }

// readLeases reads the leases that tasks in flight follow and that are not known to be good, several at a
// time: one after the other they would hold up the partition.
func (j *judgement) readLeases(ctx context.Context, due []inFlight) {
	var workers []string
	for i := range due {
		if w := &due[i]; j.followsLease(w) && j.steady >= j.s.leases.end(w.worker) && !slices.Contains(workers, w.worker) {
			workers = append(workers, w.worker)
		}
	}
	type read struct {
		worker string
		answer answer[lease.Lease]
	}
	reads := make(chan read)
	began := clock.Mono(j.s.Clock)
	for under := 0; under > 0 || len(workers) > 0; under-- {
		for ; len(workers) > 0 && under < leasesAtOnceMax && j.mayAsk(); under++ {
			worker := workers[0]
			workers = workers[1:]
			go func() {
				l, err := j.s.Leases.Look(ctx, worker)
				reads <- read{worker, answer[lease.Lease]{l, err}}
			}()
		}
		if under == 0 {
			return // enough for this round
		}
		one := <-reads
		j.leases[one.worker] = one.answer
		j.spent = clock.Mono(j.s.Clock) - began
		j.came(one.answer.err)
	}
}

// leaseEnd is until when a worker's lease holds at least, as far as is known here or can be read; zero for
// one that is lost.
func (j *judgement) leaseEnd(ctx context.Context, worker string) (task.Instant, error) {
	if end := j.s.leases.end(worker); j.steady < end {
		return j.local(end), nil
	}
	l, err := j.lease(ctx, worker)
	if err != nil || l.Lost {
		return 0, err
	}
	l.Receipt = j.local(l.Heard)
	return goodUntil(&l, j.local(j.since())), nil
}

func (j *judgement) circumstances(ctx context.Context, t *task.Task) (c circumstances, err error) {
	c = circumstances{now: j.now, since: j.local(j.since())}
	switch {
	case t.State.IsRunning():
		c.seen, err = j.lease(ctx, t.Worker)
		j.s.lookWhetherStoodStill(j.steady)
		c.lease = c.seen
		c.lease.Receipt = j.local(c.seen.Heard)
		if quiet := j.s.dog.quiet(&c.lease); !quiet.IsZero() {
			c.since = max(c.since, j.local(quiet))
		}
		if isAhead(t.ClaimedAt, j.now) {
			c.met = j.l.flight.since(t.ID, t.Attempt, j.now)
		}
	case t.State == task.Enqueued:
		c.queueAge, err = j.age(ctx, queue.NameFor(t))
	}
	return c, err
}

// markLost ends a lease. One whose end could not be written is not tried again for another row.
func (j *judgement) markLost(ctx context.Context, l lease.Lease) error {
	err := j.call(func() error { return j.s.Leases.MarkLost(ctx, l) })
	switch {
	case errors.Is(err, errLater):
		return err
	case err != nil:
		j.leases[l.Worker] = answer[lease.Lease]{err: err}
		return err
	}
	j.s.Log.WarnContext(ctx, "worker lost", slog.String("worker", l.Worker))
	if j.s.Hooks.Lost != nil {
		j.s.Hooks.Lost(l.Worker)
	}
	l.Lost = true
	j.leases[l.Worker] = answer[lease.Lease]{value: l}
	return nil
}
