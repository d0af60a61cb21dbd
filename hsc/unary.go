package hsc

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Register opens a worker lease for a process, after it has ended the lease that the process gives up.
func (s *Service) Register(ctx context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	pools := r.GetGroups()
	if len(r.GetLambdas()) > 0 {
		pools = append(pools, &kinesinv1.SlotGroup{Lambdas: r.GetLambdas(), Slots: max(r.GetSlots(), 1)})
	}
	groups, missing, err := s.groupsOf(ctx, pools)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 && s.Execute != nil {
		if err := s.Execute(ctx, ""); err != nil {
			return nil, err
		}
	}
	length, err := lease.CheckLength(task.Micros(r.GetLease()))
	if err != nil {
		return nil, err
	}
	acks, err := s.endPrevious(ctx, r.GetPrevious())
	if err != nil {
		return nil, err
	}
	l, err := s.Leases.Open(ctx, r.GetName(), r.GetVersion(), length, s.caller(ctx), lambdasOf(groups))
	if err != nil {
		return nil, s.leaseProblem(ctx, l.Worker, err)
	}
	s.sessionOf(&l)
	if s.Callers != s.Clock {
		l.Length = length // the one that the worker asked for, by its own clock
	}
	return &kinesinv1.RegisterResponse{
		Worker: l.Worker, Lease: l.Length.Microseconds(), Heartbeat: l.HeartbeatEvery().Microseconds(),
		Proof: s.Sealer.Ring().Leases().Seal(l.Worker), Acks: acks, Missing: missing,
	}, nil
}

// lambdasOf returns the lambdas of slot groups, each once.
func lambdasOf(groups []*slotGroup) (lambdas []string) {
	for _, g := range groups {
		lambdas = append(lambdas, g.lambdas...)
	}
	slices.Sort(lambdas)
	return slices.Compact(lambdas)
}

// Leave ends the lease of a drained process. Claims that were made for it and not sent go back to the queues.
// If it got attempts and did not report them, their handlers may still run: then the lease is left to run
// out, and their tasks start elsewhere after that.
func (s *Service) Leave(ctx context.Context, r *kinesinv1.LeaveRequest) (*kinesinv1.LeaveResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	worker := r.GetWorker()
	if worker == "" {
		return nil, errNoWorker
	}
	if err := s.checkLeave(ctx, worker); err != nil {
		return nil, err
	}
	if sess := s.lookUp(worker); sess != nil && sess.hasUnreported() {
		s.Log.WarnContext(ctx, "worker left with unreported attempts; leaving its lease to run out", slog.String("worker", worker))
	} else if err := s.Leases.Leave(ctx, worker); err != nil {
		return nil, s.leaseProblem(ctx, worker, err)
	}
	s.removeSession(worker, errStreamDone) // its stream releases what it did not send
	return &kinesinv1.LeaveResponse{}, nil
}

// SetResults stores the outcomes of attempts.
func (s *Service) SetResults(ctx context.Context, r *kinesinv1.SetResultsRequest) (*kinesinv1.SetResultsResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	if n := len(r.GetResults()); n > ResultsMax {
		return nil, invalid("%d results: want at most %d", n, ResultsMax)
	}
	sess, err := s.reporter(r.GetWorker())
	if err != nil {
		return nil, err
	}
	if err := s.checkReporter(ctx, sess); err != nil {
		return nil, err
	}
	acks := s.setResults(context.WithoutCancel(ctx), sess, &reportBatch{awaited: true}, r.GetResults(), nil)
	return &kinesinv1.SetResultsResponse{Acks: acks}, nil
}

// checkLeave refuses to end the lease of another identity.
func (s *Service) checkLeave(ctx context.Context, worker string) error {
	l, err := s.termsOf(ctx, worker)
	if err != nil {
		return err
	}
	return s.checkOwner(ctx, &l)
}

// Claim waits for tasks and claims them: a long poll.
func (s *Service) Claim(ctx context.Context, r *kinesinv1.ClaimRequest) (*kinesinv1.ClaimResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	limit, wait := int(max(r.GetLimit(), 1)), task.Micros(r.GetWait())
	if limit > ClaimMax {
		return nil, invalid("limit %d: want at most %d", limit, ClaimMax)
	}
	if wait < 0 || wait > ClaimWaitMax {
		return nil, invalid("wait %v: want 0 to %v", wait, ClaimWaitMax)
	}
	if n := len(r.GetRunning()); n > HeldMax {
		return nil, invalid("running %d attempts: want at most %d", n, HeldMax)
	}
	missing, err := s.checkLambdas(ctx, r.GetLambdas())
	if err == nil {
		err = allMissing(missing, len(r.GetLambdas()))
	}
	if err != nil {
		return nil, err
	}
	sess, err := s.session(ctx, r.GetWorker())
	if err != nil {
		return nil, err
	}
	if err := checkCovered(sess, r.GetLambdas()); err != nil {
		return nil, err
	}
	if err := s.requireLease(ctx, sess); err != nil {
		return nil, err
	}
	ctx, done := s.beginPoll(ctx, sess, r)
	defer done()
	if r.GetAgain() {
		s.releaseUnanswered(ctx, sess, r.GetLambdas())
	}
	won, err := s.poll(ctx, sess, r.GetLambdas(), limit, wait)
	if err != nil {
		return nil, err
	}
	return s.respond(ctx, sess, won)
}

// beginPoll begins a claim. One that is made again ends those under way for one of its lambdas: nobody reads their answers.
// It notes which attempts the worker names. The caller calls done.
func (s *Service) beginPoll(ctx context.Context, sess *session, r *kinesinv1.ClaimRequest) (polling context.Context, done func()) {
	ctx, end := context.WithCancelCause(ctx)
	p := &poll{lambdas: r.GetLambdas(), end: end}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if r.GetAgain() {
		for older := range sess.polls {
			if slices.ContainsFunc(older.lambdas, func(name string) bool { return slices.Contains(p.lambdas, name) }) {
				older.end(errSuperseded)
			}
		}
		sess.named = make(map[attempt]bool, len(r.GetRunning()))
		for _, a := range attemptsOf(r.GetRunning()) {
			sess.named[a] = true
		}
		for _, l := range s.entries(nil, p.lambdas) {
			sess.namedOf[l.Ref] = true
		}
	}
	sess.polls[p] = true
	return ctx, func() {
		end(nil)
		sess.mu.Lock()
		defer sess.mu.Unlock()
		delete(sess.polls, p)
	}
}

// releaseUnanswered releases the attempts that did not reach a worker, which has but those that it named: those of tasks of
// some lambdas that a call claimed here, and those of an earlier process. Their wake-ups find what it cannot release.
func (s *Service) releaseUnanswered(ctx context.Context, sess *session, lambdas []string) {
	sess.mu.Lock()
	isNamed, ids := sess.named, slices.Collect(maps.Keys(sess.polled))
	sess.mu.Unlock()
	rows, err := s.taskRows(ctx, ids)
	if err != nil {
		s.Hooks.Failed("read claimed tasks", err)
	}
	rows = slices.DeleteFunc(rows, func(row task.Task) bool {
		l := s.Catalog.ByRef(row.Partition.Lambda)
		return row.State != task.Claimed || !runs(sess.worker, &row) || isNamed[attemptOf(&row)] || l == nil || !slices.Contains(lambdas, l.Name)
	})
	s.release(ctx, sess, append(rows, s.unheldClaims(sess)...))
}

// poll receives and claims until something is won or the wait is over.
func (s *Service) poll(ctx context.Context, sess *session, lambdas []string, limit int, wait time.Duration) ([]delivery, error) {
	least := claimWaitMin
	if s.Queue.Durable() {
		least = claimWaitRemote
	}
	waiting, cancel := clock.Within(ctx, s.Callers, max(wait, least))
	defer cancel()
	defer context.AfterFunc(s.lifetime, cancel)()
	c := claimer{svc: s, sess: sess}
	for turn := int(s.Clock.Uint64() >> 33); waiting.Err() == nil; turn++ {
		sess.mu.Lock()
		accepted := sess.accepts(clock.Steady(s.Clock))
		sess.mu.Unlock()
		if !accepted.anything {
			s.awaitQuarantineEnd(waiting, sess)
			continue
		}
		names := queueNames(nil, s.entries(nil, lambdas), turn, accepted)
		if len(names) == 0 {
			<-waiting.Done()
			break
		}
		messages, err := s.receive(waiting, names, limit, accepted.backoff)
		if len(messages) > 0 {
			if err := s.requireLease(ctx, sess); err != nil {
				s.putBack(ctx, messages, 0)
				return nil, err
			}
		}
		if messages = c.admissible(waiting, nil, messages); len(messages) > 0 {
			if err := c.run(waiting, messages); err != nil {
				s.removeSession(sess.worker, err)
				return nil, err
			}
			if won := c.deliveries(ctx); len(won) > 0 {
				return won, nil
			}
		}
		if err != nil && waiting.Err() == nil {
			return nil, s.queueProblem(ctx, err)
		}
	}
	return nil, nil
}

func (s *Service) queueProblem(ctx context.Context, err error) error {
	if errors.Is(err, queue.ErrClosed) {
		return errStopping
	}
	return s.unavailable(ctx, "receive tasks", err)
}

// respond hands out the won claims, unless the caller has gone or claims again.
func (s *Service) respond(ctx context.Context, sess *session, won []delivery) (*kinesinv1.ClaimResponse, error) {
	now := s.Clock.Now()
	if !sess.notePolled(ctx, won, now) {
		s.release(ctx, sess, rowsOf(won))
		return nil, context.Cause(ctx)
	}
	response := &kinesinv1.ClaimResponse{Tasks: make([]*kinesinv1.Claimed, len(won))}
	for i, d := range won {
		hold(d.wire, now)
		response.Tasks[i] = d.wire
	}
	return response, nil
}
