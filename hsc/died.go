package hsc

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// diedLookEvery is how often it is looked whether a process has ended whose stream has.
	diedLookEvery = 25 * time.Millisecond
	// orphansDieIn is how long after a process its children may live on: the guard of `kinesin worker` kills
	// their groups as soon as it sees that their worker is gone.
	orphansDieIn = 750 * time.Millisecond
	// diedTriesMax bounds how often a lease is ended that its last heartbeats still change.
	diedTriesMax = 4
)

// Process is a worker process that runs beside this one.
type Process interface {
	// HasEnded reports whether it has ended for certain.
	HasEnded() bool
	Close() error
}

// Beside begins to watch a process that says of itself where it runs and what it is; nil when it can't be
// seen from here.
type Beside func(p *kinesinv1.Process) Process

// processOf is the process at the other end of a stream, if it runs beside this one: then its connection is
// of this machine.
func (s *Service) processOf(c conn, p *kinesinv1.Process) Process {
	from, known := c.(interface{ Peer() connect.Peer })
	if s.Beside == nil || p == nil || !known {
		return nil
	}
	if at, err := netip.ParseAddrPort(from.Peer().Addr); err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil
	}
	return s.Beside(p)
}

// watchDeath ends a lease at once, instead of when it is over, if the process that holds it has ended. It
// begins when the process's stream has, and goes on until there is another one, or the lease tells as it does
// for workers on other machines.
func (st *stream) watchDeath() {
	defer st.process.Close()
	s, ctx := st.svc, context.WithoutCancel(st.ctx)
	for !st.process.HasEnded() {
		if !st.sess.isGood(s.Clock) || !s.isLeft(st.sess) || !s.nap(diedLookEvery) {
			return
		}
	}
	if s.nap(orphansDieIn) && s.isLeft(st.sess) {
		s.endDied(ctx, st.sess)
	}
}

// isLeft reports whether a worker's lease is as it was when its stream ended, as far as is known here.
func (s *Service) isLeft(sess *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[sess.worker] == sess && sess.current() == nil && !sess.isLost()
}

// nap is false when the service stops.
func (s *Service) nap(d time.Duration) bool {
	t := s.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-s.stopping:
		return false
	}
}

// endDied ends the lease of a worker whose process has ended, and then takes back what is known here to be in
// its hands. The rest is found by its wake-ups, and judged by the lease. The store has the last word, as when
// a lease is over.
func (s *Service) endDied(ctx context.Context, sess *session) {
	l, err := s.markDied(ctx, sess.worker)
	if err != nil {
		if !errors.Is(err, lease.ErrLost) {
			s.Hooks.failed("end the lease of a process that has ended", err)
		}
		return
	}
	s.lose(sess.worker)
	rows := sess.giveUpHands()
	reports := make([]report, len(rows))
	for i := range rows {
		reports[i] = report{attempt: attempt{rows[i].ID, rows[i].Attempt}, row: &rows[i], event: task.Event{
			Kind: task.WorkerLost, Blame: l.Blames(&rows[i]),
		}}
	}
	s.record(ctx, sess, reports)
	s.Hooks.died(sess.worker, len(rows))
	s.Log.WarnContext(ctx, "worker lost, its process has ended", slog.String("worker", sess.worker), slog.Int("tasks", len(rows)))
}

// markDied marks a lease lost and returns it as it was. It is lease.ErrLost when it had ended before.
func (s *Service) markDied(ctx context.Context, worker string) (l lease.Lease, err error) {
	for range diedTriesMax {
		if l, err = s.Leases.Look(ctx, worker); err != nil {
			return l, err
		}
		if l.Lost {
			return l, lease.ErrLost
		}
		if err = s.Leases.MarkLost(ctx, l); !errors.Is(err, store.ErrConflict) {
			return l, err
		}
		if err := clock.Sleep(ctx, s.Clock, diedLookEvery); err != nil {
			return l, err
		}
	}
	return l, err
}
