package cron

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/task"
)

// nominal is a nominal time of the revision that is in charge of it.
type nominal struct {
	at, due  task.Instant
	revision *Revision
}

// charge is the time of which a revision is in charge: after one instant, up to another one.
type charge struct {
	revision       *Revision
	after, through task.Instant
}

// charges returns what each revision is in charge of, newest first, and leaves out those that pause.
func charges(c *Cron) []charge {
	return slices.DeleteFunc(allCharges(c), func(of charge) bool { return of.revision.Pause != nil })
}

// allCharges also returns what revisions that pause are in charge of: times at which nothing fires.
func allCharges(c *Cron) (all []charge) {
	through := task.Instant(math.MaxInt64)
	for i := len(c.Revisions) - 1; i >= 0; i-- {
		r := &c.Revisions[i]
		all = append(all, charge{r, r.From, through})
		through = r.From
	}
	return all
}

// nextOf returns the first nominal times after an instant.
func nextOf(c *Cron, after task.Instant, limit int) (all []nominal) {
	ordered := charges(c)
	slices.Reverse(ordered)
	return nextIn(c, ordered, after, limit)
}

// nextIn returns the first nominal times of some charges after an instant.
func nextIn(c *Cron, ordered []charge, after task.Instant, limit int) (all []nominal) {
	for _, of := range ordered {
		schedule, err := of.revision.Spec.Parse(c.Name)
		if err != nil {
			continue // another release took it
		}
		for at, ok := schedule.Next(max(after, of.after).Time()); ok && len(all) < limit && task.InstantOf(at) <= of.through; at, ok = schedule.Next(at) {
			all = append(all, nominalAt(schedule, of.revision, at))
		}
	}
	return all
}

// replacedOf returns the occurrences that may wait though their revisions were replaced before their time:
// for each the first nominal time of which it is in charge no more.
func replacedOf(c *Cron) (all []nominal) {
	for _, of := range charges(c) {
		if of.through == math.MaxInt64 {
			continue
		}
		schedule, err := of.revision.Spec.Parse(c.Name)
		if err != nil {
			continue // another release took it
		}
		if at, ok := schedule.Next(max(of.through, of.after).Time()); ok {
			all = append(all, nominalAt(schedule, of.revision, at))
		}
	}
	return all
}

func nominalAt(s *cronspec.Schedule, r *Revision, at time.Time) nominal {
	return nominal{at: task.InstantOf(at), due: task.InstantOf(s.Due(at)), revision: r}
}

// lastOf returns the last nominal times of some charges from one instant through another, newest first.
func lastOf(ctx context.Context, c *Cron, charges []charge, from, to task.Instant, limit int) (all []nominal, err error) {
	for _, of := range charges {
		schedule, err := of.revision.Spec.Parse(c.Name)
		if err != nil {
			return nil, err
		}
		first, last := max(from, of.after+1), min(to, of.through)
		times, err := lastTimes(ctx, schedule, first.Time(), last.Time().Add(time.Microsecond), limit-len(all))
		if err != nil {
			return nil, err
		}
		for _, at := range times {
			all = append(all, nominalAt(schedule, of.revision, at))
		}
		if len(all) == limit {
			break
		}
	}
	return all, nil
}

// lastTimes returns the last nominal times of a schedule from one instant on and before another, newest
// first. A schedule is known forwards only. So it is read in windows that reach back, each twice as wide as
// the one after it, and half as wide again if there is more in it than one read may find.
func lastTimes(ctx context.Context, s *cronspec.Schedule, from, to time.Time, limit int) (all []time.Time, err error) {
	readMax := 4 * limit
	width := time.Duration(limit) * time.Second // there is at most one in a second
	for to.After(from) && len(all) < limit {
		if err := ctx.Err(); err != nil {
			return nil, err //nolint:wrapcheck // the caller's own
		}
		begin := to.Add(-width)
		if begin.Before(from) {
			begin = from
		}
		found := s.Between(begin, to, readMax+1)
		if len(found) > readMax {
			width = to.Sub(begin) / 2
			continue
		}
		slices.Reverse(found)
		all = append(all, found[:min(len(found), limit-len(all))]...)
		to, width = begin, min(2*width, 100*365*24*time.Hour)
	}
	return all, nil
}
