package node

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/feature/blob"
	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/internal/feature/cron"
	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/feature/gate/breaker"
	"github.com/kinesin-io/kinesin/internal/feature/group"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// newChains returns the store to which the intake writes.
func (n *Node) newChains(c *Config, starter *dispatcher.Starter, hints intake.Scheduler) *chain.Keeper {
	k := chain.Config{
		Store: n.store, Lambda: n.lambdaOfFollowup, Added: hints.Added, Clock: c.Clock, Log: c.Log, Rested: n.rests,
	}
	if n.scheduler != nil {
		k.Starter = starter
	}
	return chain.New(k)
}

func (n *Node) lambdaOfFollowup(ctx context.Context, ref uint32) (*task.Lambda, error) {
	l := n.catalog.ByRef(ref)
	if l == nil && !n.gone.has(ref) { // another process may have created it a moment ago
		if err := n.catalog.Refresh(ctx); err != nil {
			return nil, err
		}
		if l = n.catalog.ByRef(ref); l == nil {
			n.gone.add(ref)
		}
	}
	if l == nil || l.Deleting {
		return nil, nil //nolint:nilnil // it was deleted
	}
	return &l.Lambda, nil
}

// extendChain returns the chain of a task with what its handler adds to what follows it. The worker's caller
// needs the same right as whoever schedules such a task.
func (n *Node) extendChain(ctx context.Context, t *task.Task, add *kinesinv1.Followups) (*task.Chain, error) {
	if err := n.guard.ScheduleAll(ctx, add.GetThen(), add.GetElse(), add.GetFinally()); err != nil {
		return nil, err
	}
	b, end := n.intake.Begin(0)
	defer end()
	return n.chains.Extend(ctx, b, t, add)
}

// composeGroups makes what counts groups and what serves them. It comes after inbound.
func (n *Node) composeGroups(c *Config, seal *task.Sealer) {
	n.groups = group.NewKeeper(group.KeeperConfig{
		Store: n.store, Mine: n.looksAfter, Stepped: c.Stepped, Clock: c.Clock, Log: c.Log,
		FollowUp: n.followUp, ForNow: isForNow,
	})
	n.grouping = group.NewService(group.ServiceConfig{Store: n.store, Tasks: n.inbound, Look: n.groups.Look, Full: n.groups.Full, CancelMembers: n.jobs.CancelMembers, PublicID: seal.SealTask, Clock: c.Clock})
}

// looksAfter reports whether this process is the first to count a group: the one that owns the partition that
// the group's id has in the lambda of its follow-up, or any without a scheduler.
func (n *Node) looksAfter(g *group.Group) bool {
	l := n.catalog.ByRef(g.ThenRef)
	if n.scheduler == nil || l == nil {
		return true
	}
	return n.scheduler.Fires(intake.PartitionOf(l, 0, g.Key(), ""))
}

func (n *Node) followUp(ctx context.Context, raw []byte, as task.ID, after *task.GroupEnd, completed task.Instant) (string, error) {
	item := &kinesinv1.ScheduleItem{}
	if err := proto.Unmarshal(raw, item); err != nil {
		return "", fmt.Errorf("%w: what follows after a group: %w", store.ErrCorrupt, err)
	}
	return n.inbound.FollowUp(ctx, item, as, after, completed)
}

// isForNow reports whether a task that was refused may be taken later.
func isForNow(err error) bool {
	switch inbound.ReasonOf(err) { //nolint:exhaustive // the others are for good
	case kinesinv1.Reason_REASON_UNAVAILABLE, kinesinv1.Reason_REASON_INTERNAL, kinesinv1.Reason_REASON_FULL, kinesinv1.Reason_REASON_THROTTLED:
		return true
	}
	return false
}

// memberEnded tells this process's keeper of groups that a task has ended.
func (n *Node) memberEnded(t *task.Task) {
	if n.groups != nil && t.Member != nil {
		n.groups.Ended(t)
	}
}

// newFiring returns what puts the occurrences of crons.
func (n *Node) newFiring(c *Config, hints intake.Scheduler) *cron.Firing {
	return cron.NewFiring(cron.FiringConfig{
		Store: n.store, InlineMax: n.store.PayloadInlineMax(), Added: hints.Added, Cancel: n.cancelOccurrence, Clock: c.Clock, Log: c.Log,
		Fired: func(t *task.Task, made string) string {
			return n.tracer.Fired(t, nameOf(n.catalog.ByRef(t.Partition.Lambda)), made)
		},
		Lambda: func(ref uint32) *task.Lambda {
			if l := n.catalog.ByRef(ref); l != nil {
				return &l.Lambda
			}
			return nil
		},
	})
}

// cancelOccurrence asks for the end of a dispatched task. Another process may have changed it meanwhile: then
// whoever asked asks again.
func (n *Node) cancelOccurrence(ctx context.Context, t *task.Task) {
	l := n.catalog.ByRef(t.Partition.Lambda)
	if l == nil || t.CancelRequested {
		return
	}
	next, effect, err := t.Apply(task.Event{Kind: task.Cancel}, n.clock.Now(), l.PolicyFor(t))
	if err != nil {
		return
	}
	outcomes, err := n.chains.Apply(ctx, store.Change(next, false, false)) // it may end the task
	if err == nil && outcomes[0] == nil && effect == task.TellWorker {
		cancels{n}.CancelRequested(&next)
	}
}

// cronFirstRow returns the key of the row with which an occurrence waits.
func cronFirstRow(c *cron.Cron, l *catalog.Entry, r *cron.Revision, nominal, due task.Instant) store.WakeKey {
	id := task.OccurrenceID(c.Ref, c.Name, c.Created, task.Firing{Revision: r.Number, Nominal: nominal})
	return store.WakeKey{Partition: cron.PartitionOf(&l.Lambda, r.Spec.Class, c.Name), Wake: due, ID: id}
}

func (n *Node) newBreakers(c *Config) *breaker.Keeper {
	return breaker.New(breaker.Config{
		Store: n.store, Book: n.gates, Clock: c.Clock, Log: c.Log,
		Lambdas: n.lambdasWithBrakes, Setting: n.breakerOf, Recovery: n.quotas.book.Recovery, Changed: n.breakerChanged, Rested: n.rests,
	})
}

// lambdasWithBrakes returns the lambdas that have a circuit breaker, or gates, which may be of one.
func (n *Node) lambdasWithBrakes() (some []*task.Lambda) {
	for _, l := range n.catalog.All() {
		if l.Breaker.IsSet() || n.gates.Has(l.Ref) {
			some = append(some, &l.Lambda)
		}
	}
	return some
}

func (n *Node) breakerOf(lambda uint32) task.Breaker {
	if l := n.catalog.ByRef(lambda); l != nil {
		return l.Breaker
	}
	return task.Breaker{}
}

// noteOutcome tells the circuit breaker of a lambda how an attempt ended. One that was given back or
// cancelled says nothing.
func (n *Node) noteOutcome(t *task.Task, o task.Outcome) {
	switch o {
	case task.OutcomeSuccess, task.OutcomeSnoozed:
		n.breakers.Ended(t.Partition.Lambda, t.ClaimedAt, false)
	case task.OutcomeRetriable, task.OutcomeFatal:
		n.breakers.Ended(t.Partition.Lambda, t.ClaimedAt, true)
	default:
	}
}

// breakerChanged records what a circuit breaker did with its gate, as the calls that set and resume gates are
// recorded.
func (n *Node) breakerChanged(ctx context.Context, before, after *hold.Gate) {
	if n.audit == nil {
		return
	}
	r := audit.Record{Identity: hold.BreakerOwner, From: access.ServerName, Action: "gate.set", Target: after.Lambda, Outcome: audit.OK, After: n.gateText(after)}
	if before != nil {
		r.Before = n.gateText(before)
	}
	if after.Breaker == nil || !after.Ended.IsZero() || after.Probes() {
		r.Action = "gate.resume"
	}
	n.audit.Note(ctx, r)
}

func (n *Node) gateText(g *hold.Gate) string {
	return string(jsonform.AppendRecord(nil, gate.View(g, n.clock.Now())))
}

// composeBlobs makes what deletes blobs. It comes after inbound, without which blobs of follow-ups are kept.
func (n *Node) composeBlobs(c *Config) {
	if c.Blobs == nil {
		return
	}
	var chains blob.Chains
	if n.inbound != nil {
		chains = chainBlobs{n}
	}
	n.blobs = &blob.Sweeper{Blobs: c.Blobs, Rows: n.store, Lambdas: n.catalog, KeyedID: task.KeyedID, Groups: groupBlobs{n.store}, Chains: chains, Clock: c.Clock, Log: c.Log}
}

// groupBlobs tells the sweeper of blobs which of them groups need.
type groupBlobs struct{ group.Store }

// MemberID returns the id of the task that is a member of a group.
func (b groupBlobs) MemberID(ctx context.Context, id task.ID, index uint32) (task.ID, error) {
	return group.MemberID(ctx, b.Store, id, index)
}

// FollowUpBlobs returns the blobs of tasks that may follow after groups, and of what follows these.
func (b groupBlobs) FollowUpBlobs(ctx context.Context) (map[[16]byte]bool, error) {
	blobs := map[[16]byte]bool{}
	err := group.EachFollowUp(ctx, b.Store, func(raw []byte) error {
		item := &kinesinv1.ScheduleItem{}
		if err := proto.Unmarshal(raw, item); err != nil {
			return fmt.Errorf("%w: what follows after a group: %w", store.ErrCorrupt, err)
		}
		for blob := range chain.Blobs(&kinesinv1.Followups{Then: []*kinesinv1.ScheduleItem{item}}) {
			if id := blob.GetId(); len(id) == 16 {
				blobs[[16]byte(id)] = true
			}
		}
		return nil
	})
	return blobs, err
}

// chainBlobs tells the sweeper of blobs which of them tasks need that are to follow others.
type chainBlobs struct{ *Node }

// chainRowsMax is how many rows that name blobs in what follows them are in memory at a time.
const chainRowsMax = 1000

// FollowUpBlobs calls each with the blobs that rows name in what follows their tasks.
func (n chainBlobs) FollowUpBlobs(ctx context.Context, each func(blob [16]byte)) error {
	of := inbound.Selection{By: access.All(), Live: true, Ended: true, Only: func(t *task.Task) bool {
		return t.Chain != nil && !t.Chain.FollowSum.IsZero()
	}}
	for position := []byte(nil); ; {
		page, err := n.inbound.Page(ctx, &of, position, chainRowsMax)
		switch {
		case err != nil:
			return err
		case page.Unread > 0:
			return fmt.Errorf("%w: %d rows, and what follows their tasks may name blobs", store.ErrCorrupt, page.Unread)
		}
		for i := range page.Rows {
			f, err := n.chains.Read(ctx, &page.Rows[i].Task)
			if errors.Is(err, store.ErrNotFound) {
				continue // nobody can create what follows it any more
			}
			if err != nil {
				return err
			}
			for blob := range chain.Blobs(f) {
				if id := blob.GetId(); len(id) == 16 {
					each([16]byte(id))
				}
			}
		}
		if position = page.Next; len(position) == 0 {
			return nil
		}
	}
}
