package scheduler

import (
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks with a concurrency quota are started by one process at a time. A process that owns a group opens it,
// and then starts its tasks, when no other process does, and when it has read all that is in flight: first it
// waits until all others follow the same list of members and know the same lambdas, then its loops count the
// slots in use. It shuts the group as soon as it sees that another process owns the group, and starts nothing while
// the others may take this process for gone.

const (
	// quotaKnown is how long after a quota was set all processes know the quota, by all clocks.
	quotaKnown = 2500 * time.Millisecond
	// startsSettle is how long the last writes of a process may be under way after it stopped starting tasks of a
	// group, where there are several processes.
	startsSettle = time.Second
	// openEvery is how often a process looks whether it may open its groups.
	openEvery = 100 * time.Millisecond
)

// groupsOf returns the exclusive group of each partition that has one.
func (s *Scheduler) groupsOf(all []task.Partition) map[task.Partition]task.Partition {
	groups := map[task.Partition]task.Partition{}
	if s.Concurrency == nil {
		return groups
	}
	for _, p := range all {
		if name, limited := s.Concurrency.Group(p); limited && (s.Delivery == nil || !s.Delivery.Is(p)) {
			groups[p] = name
		}
	}
	return groups
}

// followGroups keeps the exclusive groups of the partitions that are dispatched here, and takes each a step further towards
// being open if this process owns all its partitions. It reports whether a group is still to be opened.
func (s *Scheduler) followGroups(a *assignment) (pending bool) {
	if len(a.groups) == 0 && len(s.openings) == 0 {
		return false
	}
	parts := map[task.Partition][]task.Partition{}
	for p, name := range a.groups {
		if _, handingOver := a.handingOver[p]; a.owns[p] || handingOver {
			parts[name] = append(parts[name], p)
		}
	}
	s.setGroups(parts)
	for name, parts := range parts {
		if c, weights := s.Concurrency.Limits(name); c != nil {
			g, o := (*s.exclusiveGroups.Load())[name], s.openings[name]
			g.Set(*c, weights)
			s.followGroup(a, g, o, parts, c.Set)
			pending = pending || o.phase != open && o.phase != shut
		}
	}
	return pending
}

// setGroups adds the groups of new names, and removes the groups of names that are gone.
func (s *Scheduler) setGroups(of map[task.Partition][]task.Partition) {
	old, next := *s.exclusiveGroups.Load(), exclusiveGroups{}
	for name := range of {
		if next[name] = old[name]; next[name] == nil {
			next[name] = &exclusiveGroup{Slots: limit.NewSlots()}
			s.openings[name] = &opening{}
		}
	}
	s.exclusiveGroups.Store(&next)
	for name, g := range old {
		if next[name] == nil {
			g.opened.Store(nil)
			delete(s.openings, name)
			for _, l := range s.loops() { // what waits for its slots may wait for nothing
				notify(l.wake)
			}
		}
	}
}

// followGroup takes the next step towards opening a group, or shuts it.
func (s *Scheduler) followGroup(a *assignment, g *exclusiveGroup, o *opening, parts []task.Partition, set task.Instant) {
	now := clock.Mono(s.Clock)
	counted, ok := s.Handover.Counted()
	owned := !slices.ContainsFunc(parts, func(p task.Partition) bool { return !a.owns[p] })
	switch {
	case !owned:
		o.phase = shut
	case o.phase == open && counted == o.counted:
		if s.areRead(g, parts) {
			return
		}
		o.phase = reads // the group has more partitions, of which no other process has started a task
	case !ok, o.phase == shut, counted != o.counted, o.phase == waiting && !slices.Equal(a.Members, o.members):
		*o = opening{phase: waiting, members: a.Members, counted: counted, since: now}
	}
	g.opened.Store(nil)
	if o.phase == shut || !ok {
		return
	}
	if o.phase == waiting {
		known := set.IsZero() || s.Clock.Now() >= set.Add(quotaKnown) // by another server's clock, which may be ahead
		if s.Foreign && !a.areAllKnown(now) {
			known = false // another process, which does not know the newest lambda, may take the group for its own
		}
		if (!known || !s.Handover.Agree(a.Members)) && now-o.since < ReleaseMax {
			return
		}
		o.phase, o.since = settles, now
	}
	if o.phase == settles {
		if s.Foreign && now-o.since < startsSettle {
			return
		}
		o.phase = reads
		g.slotCount.Add(1)
		s.wakeLoops(parts)
	}
	if o.phase == reads && s.areRead(g, parts) {
		o.phase = open
		g.opened.Store(&counted)
		s.wakeLoops(parts)
	}
}

// areRead reports whether all partitions of a group have counted their slots. An idle partition has nothing
// in flight.
func (s *Scheduler) areRead(g *exclusiveGroup, parts []task.Partition) bool {
	number := g.slotCount.Load()
	for _, p := range parts {
		one := s.firedOf(p)
		if one == nil {
			return false
		}
		if l := one.loop.Load(); l != nil && l.stats.slotCount.Load() != number || l == nil && !one.isWarm(&s.idle) {
			return false
		}
	}
	return true
}

func (s *Scheduler) wakeLoops(of []task.Partition) {
	for _, p := range of {
		if l := s.loopOf(p); l != nil {
			notify(l.wake)
		}
	}
}
