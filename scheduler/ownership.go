package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// newAssignment computes who owns what now.
func (s *Scheduler) newAssignment(before *assignment) *assignment {
	all := s.Partitions.Partitions()
	owners, members := s.Ownership.Owners(all)
	now := clock.Mono(s.Clock)
	next := &assignment{
		Assignment:  Assignment{Members: members, Load: make(map[string]int, len(members)), Since: now},
		handingOver: map[task.Partition]handOver{},
		owns:        make(map[task.Partition]bool, len(before.owned)),
		groups:      s.groupsOf(all),
	}
	next.noteAll(all, before)
	begins := handOver{since: now, unannounced: next.isNews(now)}
	had := before.owns
	self := s.Ownership.Self()
	for i, p := range all {
		if begins.to = owners[i]; begins.to == "" {
			continue // no member is known yet
		}
		next.Load[owners[i]]++
		switch {
		case owners[i] == self:
			next.owned = append(next.owned, p)
			next.owns[p] = true
			if !had[p] {
				next.Gained++
			}
		case had[p]:
			next.Lost++
			next.handingOver[p] = begins
		default:
			if h, under := before.handingOver[p]; under && h.to == owners[i] {
				next.handingOver[p] = h
			} else if under {
				next.handingOver[p] = begins // another next owner begins now
			}
		}
	}
	next.Owned = len(next.owned)
	return next
}

// release returns the partitions that have been taken over, or not for too long, and for how long what is
// known of them is still fired here.
func (s *Scheduler) release(a *assignment) (released map[task.Partition]time.Duration) {
	follows := map[string]bool{}
	released = map[task.Partition]time.Duration{}
	now := clock.Mono(s.Clock)
	for p, h := range a.handingOver {
		taken, asked := follows[h.to]
		if !asked {
			taken = s.Handover.Follows(h.to, a.Members)
			follows[h.to] = taken
		}
		if taken && !h.unannounced || now-h.since >= ReleaseMax {
			delete(a.handingOver, p)
			released[p] = s.lingers(now - h.since)
		}
	}
	return released
}

// lingers returns for how long the previous owner of a partition fires what it knows, after a hand-over that
// took so long: until the next read-ahead of the next owner, which may be the one after its second.
func (s *Scheduler) lingers(took time.Duration) time.Duration {
	if took <= SecondRead {
		return Linger
	}
	return max(Linger, s.Window/2)
}

// announceWarm tells the other processes that all owned partitions have been read ahead, as soon as they are.
func (s *Scheduler) announceWarm(a *assignment) {
	if a.announced || !slices.Contains(a.Members, s.Ownership.Self()) {
		return
	}
	for ; a.warm < len(a.owned); a.warm++ {
		if p := s.firedOf(a.owned[a.warm]); p == nil || !p.isWarm(&s.idle) {
			return
		}
	}
	a.announced = true
	a.Warm = max(1, clock.Mono(s.Clock)-a.Since)
	s.publish(a)
	s.Handover.InForce(a.Members)
	if s.Ready != nil {
		s.Ready()
	}
	if s.Hooks.Warm != nil {
		s.Hooks.Warm(&a.Assignment)
	}
}

// publish lets others see the assignment.
func (s *Scheduler) publish(a *assignment) {
	seen := a.Assignment
	s.assignment.Store(&seen)
}

// Assignment returns the present assignment; its maps and slices must not be changed.
func (s *Scheduler) Assignment() Assignment { return *s.assignment.Load() }

// checkAllInFlight has all that is in flight read again: only a process that is gone knew what it changed
// last.
func (s *Scheduler) checkAllInFlight() {
	for _, l := range s.loops() {
		l.checkAllInFlight()
	}
}

// apply starts and stops loops, so that they are those of the assignment.
func (s *Scheduler) apply(a *assignment, released map[task.Partition]time.Duration) {
	now, kept := clock.Mono(s.Clock), map[task.Partition]bool{}
	for p, lingers := range released {
		if l := s.loopOf(p); l != nil && s.Foreign {
			kept[p] = s.foreign.adopt(now, p, l, lingers)
		}
	}
	s.setFired(a.fired(), kept)
}

// Run fires what is due until ctx ends, following changes of lambdas and ownership. The dispatcher carries out
// what the loops decide; found, if it is not nil, is called with each row that was claimed when this process
// took its partition over.
func (s *Scheduler) Run(ctx context.Context, d Dispatcher, found func(t *task.Task)) error {
	s.dispatcher, s.found = observedDispatcher{d, observer{s.Clock, s.health}}, found
	defer s.progress.end()
	ctx, stop := context.WithCancel(ctx)
	g := &loopGroup{ctx: ctx, start: tickOf(s.Clock)}
	defer g.Wait()
	defer s.fired.Store(&map[task.Partition]*firedPartition{})
	defer s.foreign.close()
	defer s.idle.end()
	defer stop()
	if s.Downtime != nil {
		if s.readActivity(ctx, &s.progress) != nil {
			return nil
		}
		g.Go(func() { s.recordActivity(ctx) })
	}
	if s.Gating != nil {
		g.Go(func() { s.watchGates(ctx) })
	}
	s.health.checkPause(s.Clock)
	g.Go(func() { s.health.watchPauses(ctx, s.Clock) })
	s.idle.begin(g, s.Clock)
	if !s.Foreign {
		g.Go(func() { s.watchIdle(ctx) })
	}
	s.foreign.open(func(p task.Partition) *loop { return s.startForeign(g, p) })
	s.follow(ctx)
	return nil
}

// follow keeps the loops those of the present assignment, until ctx ends.
func (s *Scheduler) follow(ctx context.Context) {
	a, limited := &assignment{}, map[uint32]bool{}
	var lambdas, owners <-chan struct{}
	heard, quotas := s.Handover.Heard(), s.quotasChanged()
	for changed := true; ctx.Err() == nil; {
		s.progress.mark(s.Clock)
		var fired bool
		if heard, fired = renew(heard, s.Handover.Heard); fired {
			s.checkAllInFlight()
		}
		if quotas, fired = renew(quotas, s.quotasChanged); fired {
			changed = changed || !maps.Equal(a.groups, s.groupsOf(s.Partitions.Partitions()))
		}
		if changed {
			lambdas, owners = s.Partitions.Changed(), s.Ownership.Changed()
			a = s.newAssignment(a)
			s.publish(a)
			if s.Hooks.Assigned != nil {
				s.Hooks.Assigned(&a.Assignment)
			}
		}
		opening := s.followGroups(a)
		if released := s.release(a); changed || len(released) > 0 {
			s.apply(a, released)
		}
		if changed && s.KeyLimits != nil {
			limited = s.wakeLimited(limited)
		}
		if changed && s.Foreign {
			s.checkAllInFlight()
		}
		s.foreign.stop(clock.Mono(s.Clock), s.Fires)
		s.announceWarm(a)
		changed = s.wait(ctx, a, opening, lambdas, owners, quotas, heard)
	}
}

// wakeLimited wakes the loops of lambdas that limit their limit keys or did so before, since the limits may have
// changed. It returns which lambdas limit theirs now.
func (s *Scheduler) wakeLimited(before map[uint32]bool) (limited map[uint32]bool) {
	limited = map[uint32]bool{}
	for p, l := range s.loops() {
		if atOnce, rate, _ := s.KeyLimits(p.Lambda); keyLimitsOf(atOnce, rate).isSet() {
			limited[p.Lambda] = true
		}
		if limited[p.Lambda] || before[p.Lambda] {
			notify(l.wake)
		}
	}
	return limited
}

// renew replaces a signal that has fired. Asking for a new one every round would lose one that fires at the
// same moment as something else that ends the wait.
func renew(signal <-chan struct{}, next func() <-chan struct{}) (current <-chan struct{}, fired bool) {
	select {
	case <-signal:
		return next(), true
	default:
		return signal, false
	}
}

// wait waits for the next thing to do, openEvery at most while a group is to be opened. It returns true when
// the lambdas or the members may have changed.
func (s *Scheduler) wait(ctx context.Context, a *assignment, opening bool, lambdas, owners, quotas, heard <-chan struct{}) (changed bool) {
	wait := progressEvery
	if opening {
		wait = openEvery
	}
	for _, h := range a.handingOver {
		wait = min(wait, max(0, h.since+ReleaseMax-clock.Mono(s.Clock)))
	}
	timer := s.Clock.NewTimer(wait)
	defer timer.Stop()
	w := &attending{again: never, told: []<-chan struct{}{lambdas, owners, quotas, heard}}
	if opening {
		w.again = s.Clock.Now().Add(wait)
	}
	s.attending.Store(w)
	defer s.attending.Store(nil)
	if s.Hooks.Rests != nil {
		s.Hooks.Rests()
	}
	select {
	case <-lambdas:
		return true
	case <-owners:
		return true
	case <-heard: // the next round renews these
	case <-quotas:
	case <-s.slotsShut:
	case <-s.warmed:
	case <-timer.C():
	case <-ctx.Done():
	}
	return false
}

// setFired makes the partitions those that are fired here. Loops that are kept for foreign partitions go on.
func (s *Scheduler) setFired(fired []task.Partition, kept map[task.Partition]bool) {
	old := *s.fired.Load()
	next := make(map[task.Partition]*firedPartition, len(fired))
	var fresh []*firedPartition
	for _, p := range fired {
		one := old[p]
		if one == nil {
			one = &firedPartition{Partition: p}
			fresh = append(fresh, one)
		}
		next[p] = one
	}
	s.idle.mu.Lock()
	s.idle.rows = min(max(s.LookaheadRows/max(len(fired), 1), partitionRowsMin), partitionRowsMax)
	s.idle.mu.Unlock()
	s.fired.Store(&next) // before the first read, so that no hint falls in between
	for p, one := range old {
		if next[p] == nil {
			s.remove(one, kept[p])
		}
	}
	for _, one := range fresh {
		s.add(one)
	}
}

// watchGates wakes all loops when the gates change, until ctx ends.
func (s *Scheduler) watchGates(ctx context.Context) {
	for {
		changed := s.Gating.Gates.Changed()
		for _, l := range s.loops() {
			notify(l.wake)
		}
		s.foreign.wakeAll()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
