package hsc

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

// reviewEvery is how often the rows of all that a worker runs are read. In between a heartbeat reads only the
// rows of attempts that are not known to run, and those of all when the lease says that there is something to
// attend to: so it costs one write for each process, and next to nothing for each task.
const reviewEvery = 5 * time.Minute

// confirmAfter is how long after its claim an attempt that a heartbeat names is confirmed: most have ended by
// then, or were reported as started. A claim is given up only after a heartbeat that came twice as long after
// it.
const confirmAfter = task.ClaimTimeout / 2

// claimedBefore reports whether a claim is so old. One that is stamped in the future is: the clock was set
// back since.
func claimedBefore(t *task.Task, now task.Instant, age time.Duration) bool {
	return max(t.ClaimedAt, t.HeldUntil()) <= now.Add(-age) || t.ClaimedAt > now.Add(task.ClockBound)
}

// Heartbeat renews the lease of the whole process, and tells it which of the attempts it names are to stop.
// What it names is confirmed first: whoever reads in the lease that a heartbeat was taken may rely on it that
// what it named is known to run. So a heartbeat whose rows cannot be read or written fails, and renews
// nothing.
func (s *Service) Heartbeat(ctx context.Context, r *kinesinv1.HeartbeatRequest) (*kinesinv1.HeartbeatResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	worker := r.GetWorker()
	if worker == "" {
		return nil, errNoWorker
	}
	if n := len(r.GetRunning()); n > HeldMax {
		return nil, invalid("running %d attempts: want at most %d", n, HeldMax)
	}
	sess, err := s.session(ctx, worker)
	if err != nil {
		return nil, err
	}
	before, running := sess.end(), attemptsOf(r.GetRunning())
	response := &kinesinv1.HeartbeatResponse{}
	if err := s.review(ctx, sess, running, response); err != nil {
		return nil, s.unavailable(ctx, "review running attempts", err)
	}
	l, err := s.Leases.Renew(ctx, worker)
	if err != nil {
		if errors.Is(err, lease.ErrLost) {
			s.lose(worker)
		}
		return nil, s.leaseProblem(ctx, worker, err)
	}
	s.sessionOf(&l)
	s.Hooks.heartbeat(before.Sub(l.Heard))
	if sess.called(&l) {
		response = &kinesinv1.HeartbeatResponse{} // of all that is named, now
		if err := s.review(ctx, sess, running, response); err != nil {
			return nil, s.unavailable(ctx, "review running attempts", err)
		}
	}
	response.NowMicros = int64(s.Clock.Now())
	return response, nil
}

// review compares what a worker runs with the rows, as far as they are not known. An attempt that it names is
// confirmed; one that does not own its task is to stop; one that it should run and does not name is dropped
// when its row says so.
func (s *Service) review(ctx context.Context, sess *session, running []attempt, response *kinesinv1.HeartbeatResponse) error {
	now := s.Clock.Now()
	open := sess.toReview(running, now)
	named := len(open)
	all := slices.Concat(open, sess.unnamed(running, now))
	ids := idsOf(all)
	suspect := sess.suspectInHand(clock.Steady(s.Clock))
	if !suspect.IsZero() {
		ids = append(ids, suspect)
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.Store.Tasks(ctx, ids)
	if err != nil {
		sess.reviewAgain()
		return err
	}
	var gone, known []attempt
	var starts []report
	for i, a := range all {
		row := &rows[i]
		switch owned := owns(sess.worker, a, row); {
		case !owned:
			gone = append(gone, a)
			response.Fenced = append(response.Fenced, wireHeld(a))
		case row.CancelRequested:
			response.Cancels = append(response.Cancels, wireHeld(a))
		case row.State == task.Processing:
			known = append(known, a)
		}
		if i < named && row.State == task.Claimed && claimedBefore(row, now, confirmAfter) {
			starts = append(starts, report{attempt: a, row: row, event: task.Event{Kind: task.Start}})
		}
	}
	if !suspect.IsZero() && !runs(sess.worker, &rows[len(rows)-1]) {
		s.suspectDone(sess, suspect)
	}
	sess.drop(gone)
	s.record(ctx, sess, starts)
	for i := range starts {
		if starts[i].isUnavailable() {
			sess.reviewAgain()
			return errBusy
		}
		if starts[i].stored && !starts[i].next.CancelRequested {
			known = append(known, starts[i].attempt)
		}
	}
	sess.know(known)
	return nil
}

// toReview is what has to be read of the named attempts, and forgets what is not named any more. What was
// pushed from here a moment ago has time.
func (s *session) toReview(running []attempt, now task.Instant) []attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now >= s.reviewAt || s.reviewAt > now.Add(reviewEvery) {
		s.reviewAt = now.Add(reviewEvery)
		clear(s.known)
		return slices.Clone(running)
	}
	if len(s.known) > len(running) {
		named := make(map[task.ID]uint32, len(running))
		for _, a := range running {
			named[a.id] = a.number
		}
		maps.DeleteFunc(s.known, func(id task.ID, number uint32) bool { return named[id] != number })
	}
	var unknown []attempt
	for _, a := range running {
		number, known := s.known[a.id]
		h := s.hands[a.id]
		young := h != nil && h.row.Attempt == a.number && !claimedBefore(h.row, now, confirmAfter)
		if !young && (!known || number != a.number) {
			unknown = append(unknown, a)
		}
	}
	return unknown
}

// know notes attempts whose rows say that they run, and that nobody wants to stop.
func (s *session) know(attempts []attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range attempts {
		s.known[a.id] = a.number
	}
}

// unknow has the next heartbeat read a row.
func (s *session) unknow(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
}

// reviewAgain has the next heartbeat read all rows.
func (s *session) reviewAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reviewAt = 0
}

// called reports whether somebody has asked, since this process last looked, that the worker's rows be read.
// Then the next review reads them all.
func (s *session) called(l *lease.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attend == l.Attend {
		return false
	}
	s.attend, s.reviewAt = l.Attend, 0
	return true
}

func owns(worker string, a attempt, row *task.Task) bool {
	return runs(worker, row) && row.Attempt == a.number
}

func runs(worker string, row *task.Task) bool {
	return row.State.IsRunning() && row.Worker == worker
}

// attention is of workers that are to be told something with their next heartbeat, wherever that goes.
type attention struct {
	news chan struct{} // holds one value when there are some

	workers map[string]call // guarded by Service.mu
	failed  int             // rounds in a row in which a call failed; this and the next are of Run's goroutine
	again   task.Instant    // when to call those again that could not be, if failed is not 0
}

// call is of one worker.
type call struct {
	until task.Instant // when a full review will have told it
	tries int          // that failed
}

const (
	// attentionMax bounds the workers that wait for it; those beyond it hear with the next full review.
	attentionMax = 4096
	// attentionFailuresMax is how many calls may fail in one round: so few, in case the store is away.
	attentionFailuresMax = 4
)

// wait is how long to wait before calling again; false when nobody has to be.
func (a *attention) wait(now task.Instant) (time.Duration, bool) {
	return max(a.again.Sub(now), 0), a.failed > 0
}

// CancelRequested sees to it that the worker that runs the task learns that a cancel was requested: at once
// if its stream is here, else with its next heartbeat. It does no I/O.
func (s *Service) CancelRequested(t task.Task) {
	s.mu.Lock()
	sess := s.sessions[t.Worker]
	s.mu.Unlock()
	if sess != nil {
		sess.unknow(t.ID)
		if st := sess.current(); st != nil {
			st.sendCancels([]attempt{{t.ID, t.Attempt}})
			return
		}
	}
	s.mu.Lock()
	s.attention.add(t.Worker, call{until: clock.Steady(s.Clock).Add(reviewEvery)})
	s.mu.Unlock()
	poke(s.attention.news)
}

// add notes a worker; the caller has Service.mu.
func (a *attention) add(worker string, c call) {
	if before, known := a.workers[worker]; known || len(a.workers) < attentionMax {
		a.workers[worker] = call{max(before.until, c.until), max(before.tries, c.tries)}
	}
}

// callWorkers marks the leases of workers that are to be told something. Those whose lease cannot be written
// now are called again soon, until a full review will have told them. Those that failed most often come last,
// so that they hold up no other.
func (s *Service) callWorkers(ctx context.Context) {
	s.mu.Lock()
	workers := s.attention.workers
	s.attention.workers = map[string]call{}
	s.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(workers), func(a, b string) int { return cmp.Compare(workers[a].tries, workers[b].tries) })
	failures := 0
	for _, worker := range names {
		err := s.Leases.Attend(ctx, worker)
		if err == nil || errors.Is(err, lease.ErrLost) {
			delete(workers, worker)
			continue
		}
		s.Hooks.failed("call a worker", err)
		c := workers[worker]
		if clock.Steady(s.Clock) >= c.until {
			delete(workers, worker)
		} else {
			workers[worker] = call{c.until, c.tries + 1}
		}
		if failures++; failures == attentionFailuresMax {
			break
		}
	}
	s.callAgain(workers)
}

// callAgain keeps the workers that are left for another try.
func (s *Service) callAgain(workers map[string]call) {
	s.mu.Lock()
	for worker, c := range workers {
		s.attention.add(worker, c)
	}
	s.mu.Unlock()
	if len(workers) == 0 {
		s.attention.failed = 0
		return
	}
	s.attention.again = clock.Steady(s.Clock).Add(min(resendMin<<min(s.attention.failed, 10), resendMax))
	s.attention.failed++
}
