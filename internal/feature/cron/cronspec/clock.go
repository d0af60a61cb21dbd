package cronspec

import (
	"sort"
	"time"
)

// times are those at which a wall clock fires. A wall-clock time is a time.Time in UTC that shows it.
type times interface {
	// after returns the first one after another.
	after(wall time.Time) (time.Time, bool)
}

// clock is a rule that fires when the wall clock of a zone shows certain times.
type clock struct {
	times times
	zone  *time.Location
	skip  bool // a time in a gap does not fire, instead of at the gap's end
	both  bool // a time that happens twice fires twice
}

const (
	// changesMax bounds how many clock changes one step may look at. It skips those between two fire times.
	changesMax = 100
	// sway is longer than any gap or fold: at most a day, where a country moved across the date line.
	sway = 48 * time.Hour
)

// period is a stretch of time in which a zone has one offset from UTC.
type period struct {
	start, end     time.Time // zero: there is none before, after
	before, offset time.Duration
}

func periodOf(t time.Time, zone *time.Location) period {
	local := t.In(zone)
	p := period{offset: offsetAt(t, zone)}
	p.before = p.offset
	p.start, p.end = local.ZoneBounds()
	if !p.end.IsZero() && !p.end.After(t) {
		// On the last day of a leap year Go says that the period ended the day before (golang/go#81583).
		// No zone changes its clock on this day by a rule for all years, and others are not concerned.
		p.end = t.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	if p.start.IsZero() {
		return p
	}
	if offsetAt(p.start, zone) != p.offset {
		// After the last change that a zone lists Go says that the period began with the year.
		p.start = lastChange(p.start, t, zone)
	}
	p.before = offsetAt(p.start.Add(-1), zone)
	return p
}

func offsetAt(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// lastChange returns since when a zone has the offset that it has at an instant, after another instant at
// which it has a different one.
func lastChange(from, to time.Time, zone *time.Location) time.Time {
	offset := offsetAt(to, zone)
	seconds := sort.Search(int(to.Sub(from)/time.Second), func(i int) bool {
		return offsetAt(from.Add(time.Duration(i)*time.Second), zone) == offset
	})
	return from.Add(time.Duration(seconds) * time.Second)
}

// next walks from one clock change to the next. Within a period wall clock and time run alike; only at its
// start something is to be decided.
func (c *clock) next(after time.Time) (time.Time, bool) {
	from := after.UTC().Truncate(time.Second).Add(time.Second)
	for range changesMax {
		p := periodOf(from, c.zone)
		wall, ok := c.times.after(c.earliest(&p, from).Add(-time.Second))
		if !ok {
			return time.Time{}, false
		}
		t := wall.Add(-p.offset)
		if t.Before(p.start) { // in the gap before
			t = p.start.UTC()
		}
		if p.end.IsZero() || t.Before(p.end) {
			return t, true
		}
		// Nothing fires until t. Far from a change, none of what the next changes repeat fires either.
		far := p.end.Sub(from) > sway
		from = p.end.UTC()
		if far && t.Add(-sway).After(from) {
			from = t.Add(-sway)
		}
	}
	return time.Time{}, false
}

// earliest returns the wall-clock time from which on something may fire at or after an instant of a period.
func (c *clock) earliest(p *period, from time.Time) time.Time {
	wall := from.Add(p.offset)
	if p.start.IsZero() {
		return wall
	}
	old := p.start.UTC().Add(p.before) // what the clock would have shown at the change
	switch {
	case p.offset > p.before && from.Equal(p.start) && !c.skip:
		return old // what is in the gap fires now
	case p.offset < p.before && !c.both && wall.Before(old):
		return old // what comes before it happens a second time
	}
	return wall
}
