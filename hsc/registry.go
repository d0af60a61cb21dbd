package hsc

import (
	"context"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
)

// session returns the session of a worker. If there is none here it begins one from the worker's lease.
func (s *Service) session(ctx context.Context, worker string) (*session, error) {
	if worker == "" {
		return nil, errNoWorker
	}
	if sess := s.lookUp(worker); sess != nil {
		return sess, nil
	}
	l, err := s.Leases.Look(ctx, worker)
	if err != nil {
		return nil, s.unavailable(ctx, "read a worker lease", err)
	}
	if l.Lost {
		return nil, leaseLost(worker)
	}
	return s.sessionOf(&l), nil
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

// requireLease refuses a worker whose lease ran out: nobody would notice when it is lost. It reads the lease
// before, because the worker's heartbeats may go to another HSC.
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

// removeSession forgets a worker whose lease has ended, and ends its stream with the cause.
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
