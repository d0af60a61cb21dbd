package node

import (
	"context"
	"errors"
	"log/slog"
	"math"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// HandOverMax bounds how long a process that stops goes on with its partitions, until others have taken them
// over and it has dispatched what it still knows to be due.
const HandOverMax = fleet.FarewellMax + scheduler.Linger

// Run runs the roles until ctx ends, then stops them in the direction in which work flows: it accepts nothing
// new, waits until others have taken over its partitions, sends workers elsewhere, and dispatches nothing
// more. The store and the queue stay open.
func (n *Node) Run(ctx context.Context) error {
	defer n.draining.Store(true)
	roles, stopRoles := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRoles()
	group, groupCtx := errgroup.WithContext(roles)
	group.Go(func() error { return n.catalog.Run(groupCtx) })
	group.Go(func() error { return n.gates.Run(groupCtx) })
	group.Go(func() error { return n.keyring.Run(groupCtx) })
	group.Go(func() error { return n.objectives.Run(groupCtx) })
	group.Go(func() error { return n.quotas.book.Run(groupCtx) })
	if n.steps != nil {
		group.Go(func() error { return n.watchClock(groupCtx) })
	}
	if n.grower != nil {
		group.Go(func() error { return n.grower.run(groupCtx) })
	}
	if n.audit != nil {
		group.Go(func() error { return n.audit.Run(groupCtx) })
	}
	if n.blobs != nil {
		group.Go(func() error { return n.blobs.Run(groupCtx) })
	}
	var registering, consuming, serving, scheduling, changing, gating, grouping part
	if n.inbound != nil {
		consuming = startPart(groupCtx, group, n.consume)
		registering = startPart(groupCtx, group, n.register)
		changing = startPart(groupCtx, group, n.jobs.Run)
		gating = startPart(groupCtx, group, n.gating.Run)
		grouping = startPart(groupCtx, group, n.groups.Run)
	}
	group.Go(func() error { return n.firing.Run(groupCtx) })
	group.Go(func() error { return n.chains.Run(groupCtx) })
	if n.hsc != nil || n.scheduler != nil {
		group.Go(func() error { return n.breakers.Run(groupCtx) })
	}
	if n.hsc != nil {
		serving = startPart(groupCtx, group, n.hsc.Run)
	}
	if n.scheduler != nil {
		scheduling = startPart(groupCtx, group, n.schedule)
		n.members.run(groupCtx, group) // leaves the fleet after scheduling has ended
	}
	group.Go(func() error {
		select {
		case <-ctx.Done():
		case <-groupCtx.Done():
		}
		n.draining.Store(true)
		n.members.leaving()
		if n.inbound != nil {
			n.inbound.Drain()
		}
		registering.end()
		changing.end()
		gating.end()
		grouping.end()
		consuming.end()
		if n.farewell(groupCtx) {
			serving.end() // so that workers report nothing more here, which the others would not know
			_ = clock.Sleep(groupCtx, n.clock, scheduler.Linger)
		}
		scheduling.end()
		stopRoles()
		return nil
	})
	n.running.Store(true)
	return group.Wait()
}

// part is a role, or a part of one, that can be ended alone. The zero value is none.
type part struct {
	stop  context.CancelFunc
	ended <-chan struct{}
}

func startPart(ctx context.Context, group *errgroup.Group, run func(ctx context.Context) error) part {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	group.Go(func() error {
		defer stop()
		defer close(ended)
		return run(ctx)
	})
	return part{stop, ended}
}

// end stops the part and waits for it.
func (p part) end() {
	if p.stop != nil {
		p.stop()
		<-p.ended
	}
}

// schedule runs everything that belongs to the scheduler's role.
func (n *Node) schedule(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	var found func(t *task.Task) // a claimed task
	if n.hsc != nil {
		found = n.hsc.RecoverClaim
	}
	group.Go(func() error { return n.scheduler.Run(ctx, n.dispatcher, found) })
	group.Go(func() error { return n.sweeper.Run(ctx) })
	group.Go(func() error { return n.watchOwners(ctx) })
	return group.Wait()
}

// Flush stores what is written last: audit records and counts. Run must have returned.
func (n *Node) Flush() {
	n.quotas.starts.Limiter.Wait()
	if n.audit != nil {
		n.audit.Flush(context.Background())
	}
	if flushErr := n.objectives.Flush(context.Background()); flushErr != nil {
		n.log.Warn("the last counts of objectives not stored", slog.Any("error", flushErr))
	}
}

// Close closes the buffer, the queue and the store, after a Flush. Run must have returned.
func (n *Node) Close() error {
	var err error
	n.Flush()
	if n.buffer != nil {
		err = n.buffer.Close()
	}
	return errors.Join(err, n.queue.Close(), n.store.Close())
}

// Look has the scheduler look again at what is due in a partition from an instant on, and returns the number of the look
// (scheduler.Scheduler.Look).
func (n *Node) Look(p task.Partition, from task.Instant) uint64 { return n.scheduler.Look(p, from) }

// Rests reports whether the scheduler has nothing to do with a partition before it acts, and which look it has made
// (scheduler.Scheduler.Rests). What is due there then is held.
func (n *Node) Rests(p task.Partition) (look uint64, acts task.Instant, ok bool) {
	return n.scheduler.Rests(p)
}

// WorkRests reports whether nothing works now that no task tells of: no job, no look at circuit breakers, no follow-up that
// is to take its key, and no group of partitions that is to be opened. It returns when the first of them goes on.
func (n *Node) WorkRests() (until task.Instant, ok bool) {
	until = task.Instant(math.MaxInt64)
	for _, rests := range []func() (task.Instant, bool){n.jobs.Rests, n.breakers.Rests, n.chains.Rests, n.scheduler.Attends} {
		at, ok := rests()
		if !ok {
			return 0, false
		}
		until = min(until, at)
	}
	return until, true
}
