package cron

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/task"
)

// LateAfter is how long after its due time an occurrence counts as late: it was missed, and the catch-up
// policy decides about it.
const LateAfter = time.Minute

// The reasons of an occurrence that is skipped with some after it, which get no task, begin with these.
const (
	LaterWaited = "an earlier one had not ended, and a later one waited too"
	TimeMissed  = "its time was missed"
)

// Past is what became of an earlier occurrence. The zero value is one that nobody knows any more.
type Past struct {
	Nominal   task.Instant
	Undecided bool // its row waits for its time, or for a decision
	Live      bool // it was dispatched and has not ended
	Started   bool // a worker may have begun it
	Skipped   bool
	Succeeded bool
	Failed    bool
	Ended     task.Instant
}

// Fate is what becomes of an occurrence.
type Fate uint8

// The fates.
const (
	Run Fate = iota + 1
	Skip
	Wait // it is decided later
)

// Decision is what is decided about an occurrence when its time comes.
type Decision struct {
	Fate   Fate
	Reason string // of Skip, for people
	// Next is the nominal time of the one after it, which is put before; zero: there is none, or not yet.
	Next task.Instant
	// Cancel says that the newest occurrence that ran is to be cancelled.
	Cancel bool
	// Pause says that the cron is to be paused, because so many occurrences failed in a row.
	Pause uint32

	schedule *cronspec.Schedule // of the revision, of the next one too; nil if it was not read
}

// Tally counts outcomes of occurrences.
type Tally struct {
	Failed    uint32 // in a row
	Succeeded task.Instant
}

// add counts one more.
func (t Tally) add(p *Past) Tally {
	switch {
	case p.Succeeded:
		return Tally{Succeeded: p.Nominal}
	case p.Failed:
		t.Failed++
	}
	return t
}

// Memory is what an occurrence remembers of those before it, as seen by whoever decides about it.
type Memory struct {
	Ran   task.Firing // the newest one that ran
	past  *Past       // what became of it
	Tally Tally       // without it
}

// remember says which of the two occurrences that one names is the newest that ran. It depends on rows alone,
// so that two who decide at once agree.
func remember(o *task.Occurrence, before, ran *Past) Memory {
	tally := Tally{o.Failed, o.Succeeded}
	if before.Skipped {
		return Memory{Ran: o.Ran, past: ran, Tally: tally}
	}
	return Memory{Ran: o.Before, past: before, Tally: tally.add(ran)}
}

// Decide decides about an occurrence which is due at an instant, from the cron as it is now, and from what
// became of the occurrences that it names.
func (c *Cron) Decide(o *task.Occurrence, due task.Instant, before, ran *Past, now task.Instant) (Decision, error) {
	r := c.InCharge(o.At.Revision, o.At.Nominal)
	if r == nil || r.Pause != nil {
		return Decision{Fate: Skip, Reason: c.whyNot(o)}, nil
	}
	if before.Undecided {
		return Decision{Fate: Wait}, nil
	}
	s, err := r.Spec.Parse(c.Name)
	if err != nil {
		return Decision{}, err
	}
	times := nominals{s, c.untilOf(r), r.Resumed}
	d := Decision{Fate: Run, Next: times.after(o.At.Nominal), schedule: s}
	m := remember(o, before, ran)
	if n := m.Tally.add(m.past).Failed; r.Spec.FailuresMax > 0 && int(n) >= r.Spec.FailuresMax {
		return Decision{Fate: Skip, Pause: n, Reason: fmt.Sprintf("%d occurrences in a row have failed", n)}, nil
	}
	since := due
	if r.Spec.waits() && r.Spec.CatchUp != CatchUpAll {
		since = max(since, m.past.Ended) // it may have waited for that
	}
	late := now.Sub(since) > LateAfter || o.At.Nominal <= r.Resumed
	if late && (!m.past.Live || r.Spec.Overlap != OverlapQueue) {
		if missed := times.missed(&r.Spec, o.At.Nominal, now); missed.Fate == Skip {
			missed.schedule = s
			return missed, nil
		}
	}
	if since > due && !m.past.Live {
		if newest := times.newest(o.At.Nominal, now); newest > o.At.Nominal {
			reason := fmt.Sprintf("%s (overlap %s)", LaterWaited, r.Spec.Overlap)
			return Decision{Fate: Skip, Reason: reason, Next: newest, schedule: s}, nil
		}
	}
	if m.past.Live {
		d.overlaps(&r.Spec, m.past, late)
	}
	if d.Fate == Wait {
		d.Next = 0
	}
	return d, nil
}

// overlaps decides about an occurrence while an earlier one lives.
func (d *Decision) overlaps(s *Spec, earlier *Past, late bool) {
	switch s.Overlap {
	case OverlapAllow:
	case OverlapQueue:
		d.Fate = Wait
	case OverlapCancel:
		d.Fate, d.Cancel = Wait, true
	case OverlapReplace:
		d.Fate, d.Cancel = Wait, !earlier.Started
	case OverlapSkip, "":
		if late && s.CatchUp == CatchUpAll { // those that are caught up run one after the other
			d.Fate = Wait
			return
		}
		d.Fate, d.Reason = Skip, fmt.Sprintf("the occurrence of %s has not ended (overlap skip)", text(earlier.Nominal))
	}
}

// whyNot says why an occurrence does not run of whose time its revision is not in charge.
func (c *Cron) whyNot(o *task.Occurrence) string {
	if r := c.Now(); r.Pause != nil && o.At.Nominal > r.From {
		return fmt.Sprintf("the cron is paused: %s", r.Pause.Reason)
	}
	return fmt.Sprintf("the cron was changed: revision %d is not in charge of this time any more", o.At.Revision)
}

func (c *Cron) untilOf(r *Revision) task.Instant {
	for i := range c.Revisions {
		if c.Revisions[i].Number == r.Number {
			return c.until(i)
		}
	}
	return 0
}

// nominals are the nominal times of a revision.
type nominals struct {
	*cronspec.Schedule

	until   task.Instant // the last one of which it is in charge
	resumed task.Instant // those until then were missed
}

// after returns the first one after an instant; zero if there is none.
func (n nominals) after(at task.Instant) task.Instant {
	next, ok := n.Next(at.Time())
	if !ok || task.InstantOf(next) > n.until {
		return 0
	}
	return task.InstantOf(next)
}

// due returns when the occurrence of a nominal time is due.
func (n nominals) due(nominal task.Instant) task.Instant {
	return task.InstantOf(n.Due(nominal.Time()))
}

// last returns the last nominal time after one instant and not after another; zero if there is none. It looks
// back from the end, further each time, so that it counts few.
func (n nominals) last(after, through task.Instant) (last task.Instant) {
	through = min(through, n.until)
	for back := time.Minute; ; back *= 8 {
		from := max(after, through.Add(-back))
		for at := n.after(from); at != 0 && at <= through; at = n.after(at) {
			last = at
		}
		if last != 0 || from == after {
			return last
		}
	}
}

// newest returns the last nominal time after one that is due by now; zero if there is none.
func (n nominals) newest(nominal, now task.Instant) task.Instant {
	newest := n.last(nominal, now)
	for newest > nominal && n.due(newest) > now { // jitter
		newest = n.last(nominal, newest-1)
	}
	return newest
}

// isMissed reports whether a nominal time counts as missed: it is in a pause, or its occurrence is late. The others run
// as ever, however short the time between two is.
func (n nominals) isMissed(nominal, now task.Instant) bool {
	return nominal <= n.resumed || now.Sub(n.due(nominal)) > LateAfter
}

// lastMissed returns the last nominal time after one that was missed, too; zero if there is none.
func (n nominals) lastMissed(nominal, now task.Instant) task.Instant {
	last := n.last(nominal, max(min(n.resumed, now), now.Add(-LateAfter)))
	for last > nominal && !n.isMissed(last, now) { // jitter
		last = n.last(nominal, last-1)
	}
	return last
}

// missed decides about an occurrence that is late, from what was missed until now: Skip, or Run.
func (n nominals) missed(s *Spec, nominal, now task.Instant) Decision {
	if s.CatchUp == CatchUpAll {
		return n.missedOfMany(s, nominal, now)
	}
	// The first one that may not be late: with a jitter one that was missed may lie behind it.
	next := n.after(max(nominal, n.resumed, now.Add(-LateAfter-time.Duration(s.JitterMS)*time.Millisecond)-1))
	if s.CatchUp == CatchUpNone {
		return Decision{Fate: Skip, Reason: TimeMissed + " (catch-up none)", Next: next}
	}
	if last := n.lastMissed(nominal, now); last > nominal {
		if next == 0 || last < next {
			next = last
		}
		return Decision{Fate: Skip, Reason: TimeMissed + ", and a later one too (catch-up last)", Next: next}
	}
	return Decision{Fate: Run}
}

// missedOfMany decides where all that were missed run, within bounds.
func (n nominals) missedOfMany(s *Spec, nominal, now task.Instant) Decision {
	most := cmp.Or(s.CatchUpMax, int(cronspec.Defaults.CatchUpMax))
	within := task.Micros(cmp.Or(s.CatchUpWithinMS*1000, cronspec.Defaults.CatchUpWithin))
	if oldest := now.Add(-within); nominal < oldest {
		next := n.after(max(nominal, oldest-1))
		return Decision{Fate: Skip, Reason: fmt.Sprintf("%s more than %s ago (catch-up within)", TimeMissed, within), Next: next}
	}
	first := nominal // of the last ones, as many as may run
	count := 1
	for at, last := n.after(nominal), n.lastMissed(nominal, now); at != 0 && at <= last; at = n.after(at) {
		if count++; count > most {
			first = n.after(first)
		}
	}
	if first > nominal {
		return Decision{Fate: Skip, Reason: fmt.Sprintf("%s, and %d later ones too (catch-up max)", TimeMissed, count-1), Next: first}
	}
	return Decision{Fate: Run}
}

func text(i task.Instant) string { return i.Time().UTC().Format(time.RFC3339) }

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
