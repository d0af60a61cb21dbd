package node

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/feature/group"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

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
