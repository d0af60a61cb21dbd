package hsc

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of the unary calls.
const (
	ClaimMax     = 1000 // tasks of one Claim
	ClaimWaitMax = time.Minute
	ResultsMax   = 10_000 // results of one SetResults

	// claimWaitMin is the least that a Claim waits, claimWaitRemote where the queue is a service: what it
	// hands out after a call has ended goes back, so that calls which do not wait for its answer would get
	// nothing, ever.
	claimWaitMin    = time.Millisecond
	claimWaitRemote = 300 * time.Millisecond
)

// Register opens a worker lease for a process, after it has ended the one that the process gives up.
func (s *Service) Register(ctx context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	if _, err := s.groupsOf(ctx, r.GetGroups()); err != nil {
		return nil, err
	}
	length, err := lease.CheckLength(micros(r.GetLeaseMicros()))
	if err != nil {
		return nil, err
	}
	acks, err := s.endPrevious(ctx, r.GetPrevious())
	if err != nil {
		return nil, err
	}
	l, err := s.Leases.Open(ctx, r.GetName(), length)
	if err != nil {
		return nil, s.leaseProblem(ctx, l.Worker, err)
	}
	s.sessionOf(&l)
	s.Hooks.leaseOpened(l.Worker)
	return &kinesinv1.RegisterResponse{
		Worker: l.Worker, LeaseMicros: l.Length.Microseconds(), HeartbeatMicros: l.HeartbeatEvery().Microseconds(),
		Proof: s.Sealer.LeaseProof(l.Worker), Acks: acks,
	}, nil
}

// Leave ends the lease of a drained process. What was claimed for it and not sent goes back to the queues. If
// it leaves with attempts that it got and did not report, their handlers may still run: then the lease is
// left to run out, and their tasks start elsewhere when it has.
func (s *Service) Leave(ctx context.Context, r *kinesinv1.LeaveRequest) (*kinesinv1.LeaveResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	worker := r.GetWorker()
	if worker == "" {
		return nil, errNoWorker
	}
	s.mu.Lock()
	sess := s.sessions[worker]
	s.mu.Unlock()
	if sess != nil && sess.holdsUnreported() {
		s.Log.WarnContext(ctx, "worker left with attempts that it did not report, its lease runs out", slog.String("worker", worker))
	} else if err := s.Leases.Leave(ctx, worker); err != nil {
		return nil, s.leaseProblem(ctx, worker, err)
	}
	s.mu.Lock()
	delete(s.sessions, worker)
	s.mu.Unlock()
	if sess != nil {
		if st := sess.lose(); st != nil {
			st.stop(errStreamDone) // it gives back what it did not send
		}
		s.Hooks.leaseLeft(worker)
	}
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
	acks := s.setResults(context.WithoutCancel(ctx), sess, &batch{awaited: true}, r.GetResults(), nil)
	return &kinesinv1.SetResultsResponse{Acks: acks}, nil
}

// reporter is the session of a worker for reports alone, which need no lease: whether the
// attempt still owns its task is all that counts.
func (s *Service) reporter(worker string) (*session, error) {
	if worker == "" {
		return nil, errNoWorker
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess := s.sessions[worker]; sess != nil {
		return sess, nil
	}
	return newSession(&lease.Lease{Worker: worker}), nil
}

// Claim waits for tasks and claims them: a long poll.
func (s *Service) Claim(ctx context.Context, r *kinesinv1.ClaimRequest) (*kinesinv1.ClaimResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	limit, wait := int(max(r.GetLimit(), 1)), micros(r.GetWaitMicros())
	if limit > ClaimMax {
		return nil, invalid("limit %d: want at most %d", limit, ClaimMax)
	}
	if wait < 0 || wait > ClaimWaitMax {
		return nil, invalid("wait %v: want 0 to %v", wait, ClaimWaitMax)
	}
	if err := s.checkLambdas(ctx, r.GetLambdas()); err != nil {
		return nil, err
	}
	sess, err := s.session(ctx, r.GetWorker())
	if err != nil {
		return nil, err
	}
	if err := s.goodLease(ctx, sess); err != nil {
		return nil, err
	}
	won, err := s.poll(ctx, sess, r.GetLambdas(), limit, wait)
	if err != nil {
		return nil, err
	}
	return s.respond(ctx, sess, won)
}

// goodLease refuses a worker whose lease ran out: nobody would notice when it is lost.
func (s *Service) goodLease(ctx context.Context, sess *session) error {
	if sess.isGood(s.Clock) {
		return nil
	}
	l, err := s.Leases.Look(ctx, sess.worker)
	switch {
	case err != nil:
		return s.unavailable(ctx, "read a worker lease", err)
	case l.Lost:
		s.lose(sess.worker)
		return leaseLost(sess.worker)
	}
	if sess.renewed(&l); !sess.isGood(s.Clock) {
		return invalid("the lease of worker %s ran out: send a heartbeat first, every %v", sess.worker, l.HeartbeatEvery())
	}
	return nil
}

// poll receives and claims until something is won or the wait is over.
func (s *Service) poll(ctx context.Context, sess *session, lambdas []string, limit int, wait time.Duration) ([]delivery, error) {
	least := claimWaitMin
	if s.Queue.Durable() {
		least = claimWaitRemote
	}
	waiting, cancel := s.within(ctx, max(wait, least))
	defer cancel()
	c := claimer{svc: s, sess: sess}
	for turn := int(s.Clock.Uint64() >> 33); waiting.Err() == nil; turn++ {
		takes := sess.takes(clock.Steady(s.Clock))
		if !takes.anything {
			s.awaitOpen(waiting, sess)
			continue
		}
		names := queueNames(nil, s.entries(nil, lambdas), turn, takes)
		if len(names) == 0 {
			<-waiting.Done()
			break
		}
		messages, err := s.receiveFor(waiting, names, limit, takes.rests)
		if messages = s.admissible(waiting, sess, messages); len(messages) > 0 {
			if err := c.run(waiting, messages); err != nil {
				s.lose(sess.worker)
				return nil, err
			}
			if won := c.won(ctx); len(won) > 0 {
				return won, nil
			}
		}
		if err != nil && waiting.Err() == nil {
			return nil, s.queueProblem(ctx, err)
		}
	}
	return nil, nil
}

// receiveFor receives for some time at most; zero: until ctx ends.
func (s *Service) receiveFor(ctx context.Context, names []queue.Name, limit int, d time.Duration) ([]queue.Message, error) {
	if d > 0 {
		var over context.CancelFunc
		ctx, over = clock.Within(ctx, s.Clock, d)
		defer over()
	}
	messages, err := s.Queue.Receive(ctx, names, limit, s.Ahead)
	if ctx.Err() != nil {
		err = nil
	}
	return messages, err
}

// admissible is what of the messages may be claimed together. Of a process that is closed meanwhile nothing
// is.
func (s *Service) admissible(ctx context.Context, sess *session, messages []queue.Message) []queue.Message {
	messages, alone := s.apart(ctx, sess, messages, true)
	switch takes := !sess.isClosed(); {
	case alone && s.awaitClear(ctx, sess, 0):
		return messages
	case alone:
		s.suspectDone(sess, messages[0].Task.ID)
		s.putBack(ctx, messages, putBackDelay)
	case takes:
		return messages
	default:
		s.putBack(ctx, messages, 0)
	}
	return nil
}

func (s *Service) queueProblem(ctx context.Context, err error) error {
	if errors.Is(err, queue.ErrClosed) {
		return errStopping
	}
	return s.unavailable(ctx, "receive tasks", err)
}

// within is a context that also ends after d, or when the service stops.
func (s *Service) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := s.Clock.NewTimer(d)
	s.calls.Go(func() {
		defer cancel()
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-s.stopping:
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// respond hands out what was won, unless the caller has gone.
func (s *Service) respond(ctx context.Context, sess *session, won []delivery) (*kinesinv1.ClaimResponse, error) {
	if ctx.Err() != nil {
		rows := make([]task.Task, len(won))
		for i, d := range won {
			rows[i] = *d.hand.row
		}
		s.giveBack(ctx, sess, rows)
		return nil, context.Cause(ctx)
	}
	response := &kinesinv1.ClaimResponse{Tasks: make([]*kinesinv1.Claimed, len(won))}
	now := s.Clock.Now()
	sess.lend(won, now)
	for i, d := range won {
		hold(d.wire, now)
		response.Tasks[i] = d.wire
	}
	return response, nil
}
