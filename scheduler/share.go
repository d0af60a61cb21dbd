package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Partitions change hands without a gap: whoever is to have one reads it ahead first (then it is warm) and
// says so, whoever had it fires on until then. In between both fire it, which costs refused writes. See
// docs/adr/0016.
const (
	// ReleaseMax bounds how long a partition that is another's is fired on here because that one does not
	// show that it has taken over.
	ReleaseMax = 6 * time.Second
	// SecondLook is how long after the first look at a partition the second one is: it finds what only those
	// who fired it before were told of in the meantime.
	SecondLook = 2 * time.Second
	// Linger is for how long after a partition was taken over the one who had it fires what he knows of it:
	// until the second look.
	Linger = SecondLook
	// progressEvery is how often Run shows that it makes progress.
	progressEvery = 10 * time.Second
)

// Ownership says which of all partitions are this process's.
type Ownership interface {
	// Self is the name of this process among the members.
	Self() string
	// Owners are the members whose the partitions are, in their order, and all members that there are.
	Owners(all []task.Partition) (owners, members []string)
	// Changed returns a channel that is closed when Owners may answer otherwise; nil when it never will.
	Changed() <-chan struct{}
}

// Handover is how processes tell each other what they fire.
type Handover interface {
	// InForce says that this process fires all that is its own among these members, and is warm with it.
	InForce(members []string)
	// Follows reports whether a member has said that of itself about these members.
	Follows(member string, members []string) bool
	// Heard returns a channel that is closed when Follows may answer otherwise, or a process may have gone.
	Heard() <-chan struct{}
}

// alone is the Handover of a process that nobody takes over from.
type alone struct{}

func (alone) InForce([]string)              {}
func (alone) Follows(string, []string) bool { return true }
func (alone) Heard() <-chan struct{}        { return nil }

// Share is what follows from one view of the members for this process.
type Share struct {
	Members []string
	// Load is how many partitions each of the members has.
	Load map[string]int
	// Owned are this process's; it also fires others for a while, until they are taken over.
	Owned int
	// Gained and Lost are how many partitions this view brought or took, by comparison with the one before,
	// among those that are in both.
	Gained, Lost int
	// Since is when this view came up, Warm how long it took from then until all of Owned had been read
	// ahead; 0: not yet. In monotonic time.
	Since, Warm time.Duration
}

// share is the working state of one view. It belongs to Run.
type share struct {
	Share

	owned  []task.Partition
	giving map[task.Partition]gift // fired here and another's
	warm   int                     // that many of owned, from the first on, were seen to be warm
	told   bool                    // that all are
}

// gift is a partition that another one is to take over.
type gift struct {
	to    string
	since time.Duration
}

// newShare looks at who the members are now.
func (s *Scheduler) newShare(before *share) *share {
	all := s.Partitions.Partitions()
	owners, members := s.Ownership.Owners(all)
	now := clock.Mono(s.Clock)
	next := &share{Share: Share{Members: members, Load: make(map[string]int, len(members)), Since: now}, giving: map[task.Partition]gift{}}
	had := make(map[task.Partition]bool, len(before.owned))
	for _, p := range before.owned {
		had[p] = true
	}
	self := s.Ownership.Self()
	for i, p := range all {
		if owners[i] == "" {
			continue // nobody is known yet
		}
		next.Load[owners[i]]++
		switch {
		case owners[i] == self:
			next.owned = append(next.owned, p)
			if !had[p] {
				next.Gained++
			}
		case had[p]:
			next.Lost++
			next.giving[p] = gift{owners[i], now}
		default:
			if g, given := before.giving[p]; given && g.to == owners[i] {
				next.giving[p] = g
			} else if given {
				next.giving[p] = gift{owners[i], now} // who gets it now begins now
			}
		}
	}
	next.Owned = len(next.owned)
	return next
}

// release finds the partitions that have been taken over, or not for too long.
func (s *Scheduler) release(sh *share) (released []task.Partition) {
	follows := map[string]bool{}
	now := clock.Mono(s.Clock)
	for p, g := range sh.giving {
		taken, asked := follows[g.to]
		if !asked {
			taken = s.Handover.Follows(g.to, sh.Members)
			follows[g.to] = taken
		}
		if taken || now-g.since >= ReleaseMax {
			delete(sh.giving, p)
			released = append(released, p)
		}
	}
	return released
}

// fired are the partitions that are fired here by a view.
func (sh *share) fired() []task.Partition {
	fired := slices.Clone(sh.owned)
	for p := range sh.giving {
		fired = append(fired, p)
	}
	return fired
}

// tellWarm says that the view is in force, as soon as all that is owned was read ahead.
func (s *Scheduler) tellWarm(sh *share) {
	if sh.told || !slices.Contains(sh.Members, s.Ownership.Self()) {
		return
	}
	for ; sh.warm < len(sh.owned); sh.warm++ {
		if !s.isWarm(sh.owned[sh.warm]) {
			return
		}
	}
	sh.told = true
	sh.Warm = max(1, clock.Mono(s.Clock)-sh.Since)
	s.publish(sh)
	s.Handover.InForce(sh.Members)
	if s.Ready != nil {
		s.Ready()
	}
	if s.Hooks.Warm != nil {
		s.Hooks.Warm(&sh.Share)
	}
}

func (s *Scheduler) isWarm(p task.Partition) bool {
	l := s.loopOf(p)
	return l != nil && l.warm.Load()
}

// review has what is in flight looked at again, in all partitions: what a process changed that is gone now,
// only it knew of.
func (s *Scheduler) review() {
	for _, l := range *s.loops.Load() {
		l.review()
	}
}

// publish lets others see the share.
func (s *Scheduler) publish(sh *share) {
	seen := sh.Share
	s.share.Store(&seen)
}

// Share is what this process has now; its maps and slices must not be changed.
func (s *Scheduler) Share() Share { return *s.share.Load() }

// warmed makes Run look whether all is warm.
func (s *Scheduler) warmed() { wake(s.pokeWarm) }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run fires what is due until ctx ends, following changes of lambdas and ownership.
func (s *Scheduler) Run(ctx context.Context) error {
	since := clock.Steady(s.Clock)
	var group sync.WaitGroup
	defer group.Wait()
	defer s.clear()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer s.progress.end()
	if s.Doubts != nil {
		if !s.readNote(ctx) {
			return nil
		}
		group.Go(func() { s.keepNote(ctx) })
	}
	s.lookWhetherStoodStill(since)
	group.Go(func() { s.watchStandstill(ctx) })
	retire := s.Clock.NewTimer(guestRetireEvery)
	defer retire.Stop()
	sh := &share{}
	var lambdas, owners <-chan struct{}
	for anew := true; ctx.Err() == nil; {
		s.progress.mark(s.Clock)
		heard := s.Handover.Heard()
		if anew {
			lambdas, owners = s.Partitions.Changed(), s.Ownership.Changed()
			sh = s.newShare(sh)
			s.publish(sh)
			if s.Hooks.Shared != nil {
				s.Hooks.Shared(&sh.Share)
			}
		}
		if released := s.release(sh); anew || len(released) > 0 {
			s.divide(ctx, &group, since, sh, released, anew)
		}
		s.tellWarm(sh)
		anew = s.await(ctx, sh, signals{
			lambdas: lambdas, owners: owners, heard: heard, retire: retire,
			admit: func() { s.admit(ctx, &group, since) },
		})
	}
	return nil
}

// divide starts and stops what fires partitions, so that they are those of the share.
func (s *Scheduler) divide(ctx context.Context, group *sync.WaitGroup, since task.Instant, sh *share, released []task.Partition, anew bool) {
	s.demote(released)
	s.follow(ctx, group, since, sh.fired())
	s.dismiss()
	if anew && s.Guests {
		s.review()
	}
}

// signals are what Run waits for, and what it does in between.
type signals struct {
	lambdas, owners, heard <-chan struct{}

	retire clock.Timer
	admit  func()
}

// await waits for the next thing to do. anew says that the lambdas or the members may have changed.
func (s *Scheduler) await(ctx context.Context, sh *share, on signals) (anew bool) {
	wait := progressEvery
	for _, g := range sh.giving {
		wait = min(wait, max(0, g.since+ReleaseMax-clock.Mono(s.Clock)))
	}
	timer := s.Clock.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-on.lambdas:
			return true
		case <-on.owners:
			return true
		case <-on.heard:
			s.review()
			return false
		case <-s.pokeWarm:
			return false
		case <-timer.C():
			return false
		case <-s.guests.poke:
			on.admit()
		case <-on.retire.C():
			s.retire()
			on.retire.Reset(guestRetireEvery)
		case <-ctx.Done():
			return false
		}
	}
}
