package hsc

import (
	"context"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
)

// session returns the session of a worker. If there is none here it begins one from the worker's lease.
func (s *Service) session(ctx context.Context, worker string) (*session, error) {
	if worker == "" {
		return nil, errNoWorker
	}
	if sess := s.lookUp(worker); sess != nil {
		if err := s.checkOwner(ctx, &sess.terms); err != nil {
			return nil, err
		}
		return sess, nil
	}
	l, err := s.Leases.Look(ctx, worker)
	if err != nil {
		return nil, s.unavailable(ctx, "read a worker lease", err)
	}
	if err := s.checkOwner(ctx, &l); err != nil {
		return nil, err
	}
	if l.Lost {
		return nil, leaseLost(worker)
	}
	return s.sessionOf(&l), nil
}

// checkOwner refuses a caller other than the identity that registered the worker: the worker's id is no secret, since reads
// of tasks show it. A lease without a row, or of a version that noted no owner, belongs to nobody.
func (s *Service) checkOwner(ctx context.Context, l *lease.Lease) error {
	if s.Caller == nil || l.Owner == "" {
		return nil
	}
	if caller := s.Caller(ctx); caller != l.Owner {
		if s.Foreign != nil {
			s.Foreign(ctx, l.Worker)
		}
		return api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED,
			"permission denied: %s has no grant to execute as worker %s, which another identity registered: register a worker of your own", caller, l.Worker)
	}
	return nil
}

// stillExecutes refuses to renew the lease of a worker whose identity may no longer run what the worker
// registered for.
func (s *Service) stillExecutes(ctx context.Context, sess *session) error {
	if s.Execute == nil || sess.terms.Lambdas == "" {
		return nil
	}
	for lambda := range strings.SplitSeq(sess.terms.Lambdas, ",") {
		if err := s.Execute(ctx, lambda); err != nil {
			return err
		}
	}
	return nil
}

// checkCovered refuses lambdas that the worker did not register for.
func checkCovered(sess *session, lambdas []string) error {
	for _, name := range lambdas {
		if !sess.terms.Covers(name) {
			return api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED,
				"permission denied: worker %s did not register to execute lambda %s: register again with it", sess.worker, name)
		}
	}
	return nil
}

// lookUp returns the session of a worker, nil when there is none here.
func (s *Service) lookUp(worker string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[worker]
}

// sessionOf returns the session of a lease, which it begins or brings up to date.
func (s *Service) sessionOf(l *lease.Lease) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[l.Worker]
	if sess == nil {
		sess = newSession(l)
		sess.suspect = suspectFromLease(l, clock.Steady(s.Clock))
		s.sessions[l.Worker] = sess
	}
	sess.noteLease(l)
	return sess
}

// requireLease refuses a worker whose lease ran out: nobody would notice when it is lost. It first reads the lease, because
// the worker's heartbeats may go to another HSC.
func (s *Service) requireLease(ctx context.Context, sess *session) error {
	if sess.holdsLease(s.Clock) {
		return nil
	}
	l, err := s.Leases.Look(ctx, sess.worker)
	if err != nil {
		return s.unavailable(ctx, "read a worker lease", err)
	}
	if l.Lost {
		s.removeSession(sess.worker, leaseLost(sess.worker))
		return leaseLost(sess.worker)
	}
	if sess.noteLease(&l); !sess.holdsLease(s.Clock) {
		return invalid("the lease of worker %s ran out: send a heartbeat first, every %v", sess.worker, l.HeartbeatEvery())
	}
	return nil
}

// removeSession forgets a worker whose lease has ended, ends its stream with the cause, and its
// claims under way.
func (s *Service) removeSession(worker string, cause error) {
	s.mu.Lock()
	sess := s.sessions[worker]
	delete(s.sessions, worker)
	s.mu.Unlock()
	if sess == nil {
		return
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.lost = true
	for p := range sess.polls {
		p.end(leaseLost(worker))
	}
	if sess.stream != nil {
		sess.stream.stop(cause)
	}
}

// sweepSessions forgets sessions without a stream whose lease ran out a while ago.
func (s *Service) sweepSessions() {
	now := clock.Steady(s.Clock)
	s.mu.Lock()
	defer s.mu.Unlock()
	for worker, sess := range s.sessions {
		if sess.current() == nil && now > sess.end().Add(sess.lease) {
			delete(s.sessions, worker)
		}
	}
}

// pollAgain makes all streams choose their queues again.
func (s *Service) pollAgain() {
	for _, sess := range s.all() {
		sess.mu.Lock()
		sess.pollAgain()
		sess.mu.Unlock()
	}
}

func (s *Service) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*session, 0, len(s.sessions))
	for _, sess := range s.sessions {
		all = append(all, sess)
	}
	return all
}

// Workers returns how many worker processes have a stream here.
func (s *Service) Workers() int {
	n := 0
	for _, sess := range s.all() {
		if sess.current() != nil {
			n++
		}
	}
	return n
}

// SlotsOf are the slots of the stream of one worker process.
type SlotsOf struct{ Slots, Used int }

// Slots returns the slots of the worker processes that have a stream here, by worker. Used may be more than Slots: tasks are
// sent ahead.
func (s *Service) Slots() map[string]SlotsOf {
	of := map[string]SlotsOf{}
	for _, sess := range s.all() {
		sess.mu.Lock()
		if sess.stream != nil {
			var sum SlotsOf
			for _, g := range sess.stream.groups {
				sum.Slots, sum.Used = sum.Slots+g.slots, sum.Used+g.used
			}
			of[sess.worker] = sum
		}
		sess.mu.Unlock()
	}
	return of
}

// reporter returns the session of a worker for reports, which need no lease: all that counts is whether the attempt still
// owns its task.
func (s *Service) reporter(worker string) (*session, error) {
	if worker == "" {
		return nil, errNoWorker
	}
	if sess := s.lookUp(worker); sess != nil {
		return sess, nil
	}
	return newSession(&lease.Lease{Worker: worker}), nil
}

// checkReporter refuses the reports of a caller that is not the owner of the worker's lease.
func (s *Service) checkReporter(ctx context.Context, sess *session) error {
	l, err := s.termsOf(ctx, sess.worker)
	switch {
	case err != nil || s.Caller == nil:
		return err
	case l.Version == 0:
		return leaseLost(sess.worker) // nobody can tell whose it was
	}
	return s.checkOwner(ctx, &l)
}

// termsOf returns a worker's lease as it was registered. It reads the lease if there is no session here, and
// nothing where all calls are of one identity.
func (s *Service) termsOf(ctx context.Context, worker string) (lease.Lease, error) {
	if s.Caller == nil {
		return lease.Lease{}, nil
	}
	if sess := s.lookUp(worker); sess != nil {
		return sess.terms, nil
	}
	l, err := s.Leases.Look(ctx, worker)
	if err != nil {
		return lease.Lease{}, s.unavailable(ctx, "read a worker lease", err)
	}
	return l, nil
}

// caller returns the identity that makes a call; empty where all calls are of one.
func (s *Service) caller(ctx context.Context) string {
	if s.Caller == nil {
		return ""
	}
	return s.Caller(ctx)
}
