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
	// processLookEvery is the interval at which a process whose stream has ended is checked.
	processLookEvery = 25 * time.Millisecond
	// orphansDieIn is how long after a process its children may live on: the guard of `kinesin worker` kills
	// their groups as soon as it sees that their worker is gone.
	orphansDieIn = 750 * time.Millisecond
	// markTriesMax bounds the tries to mark a lease lost that the last heartbeats of its worker still change.
	markTriesMax = 4
)

// processOf returns the process at the other end of a stream if it runs on this machine, which is so when its
// connection comes from here.
func (s *Service) processOf(c conn, p *kinesinv1.Process) Process {
	from, known := c.(interface{ Peer() connect.Peer })
	if s.WatchProcess == nil || p == nil || !known {
		return nil
	}
	if at, err := netip.ParseAddrPort(from.Peer().Addr); err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil
	}
	return s.WatchProcess(p)
}

// watchProcess ends a lease at once, instead of when it runs out, if the process that holds it has ended. It
// begins when the process's stream has ended, and goes on until there is another stream, or the lease is
// judged like those of workers on other machines.
func (st *stream) watchProcess() {
	defer st.process.Close()
	s, ctx := st.svc, context.WithoutCancel(st.ctx)
	for !st.process.HasEnded() {
		if !st.sess.holdsLease(s.Clock) || !s.isAbandoned(st.sess) || clock.Sleep(s.lifetime, s.Clock, processLookEvery) != nil {
			return
		}
	}
	if clock.Sleep(s.lifetime, s.Clock, orphansDieIn) == nil && s.isAbandoned(st.sess) {
		s.endDied(ctx, st.sess)
	}
}

// isAbandoned reports whether a worker has a lease and no stream, as far as is known here.
func (s *Service) isAbandoned(sess *session) bool {
	return s.lookUp(sess.worker) == sess && sess.current() == nil && !sess.isLost()
}

// endDied ends the lease of a worker whose process has ended, and then takes back the tasks that are known
// here to be assigned to it. The others are found by their wake-ups and judged by the lease. The store has
// the last word, as for a lease that ran out.
func (s *Service) endDied(ctx context.Context, sess *session) {
	l, err := s.markLost(ctx, sess.worker)
	if err != nil {
		if !errors.Is(err, lease.ErrLost) {
			s.Hooks.Failed("end the lease of a process that has ended", err)
		}
		return
	}
	s.removeSession(sess.worker, leaseLost(sess.worker))
	rows := sess.withdrawAll()
	s.endAttempts(ctx, sess, rows, func(row *task.Task) task.Event {
		return task.Event{Kind: task.WorkerLost, Blame: l.Blames(row)}
	})
	s.Hooks.Died(sess.worker, len(rows))
	s.Log.WarnContext(ctx, "worker lost: its process has ended", slog.String("worker", sess.worker), slog.Int("tasks", len(rows)))
}

// markLost marks a lease lost and returns it as it was. It returns lease.ErrLost when the lease had ended
// before.
func (s *Service) markLost(ctx context.Context, worker string) (l lease.Lease, err error) {
	for range markTriesMax {
		if l, err = s.Leases.Look(ctx, worker); err != nil {
			return l, err
		}
		if l.Lost {
			return l, lease.ErrLost
		}
		if err = s.Leases.MarkLost(ctx, l); !errors.Is(err, store.ErrConflict) {
			return l, err
		}
		if err := clock.Sleep(ctx, s.Clock, processLookEvery); err != nil {
			return l, err
		}
	}
	return l, err
}
