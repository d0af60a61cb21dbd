package zones

import (
	"strings"
	"time"
)

// OnClock reads a time of day of clocks in a zone, such as "2027-01-31 09:00", "today 18:00", "tomorrow 9:00" or "monday 9:00", and
// returns when they show it: as with crons, the first instant of a time that they show twice, and the first instant after a change
// of clocks that leaves the time out. change says so in both cases.
func OnClock(text string, now time.Time, zone *time.Location) (at time.Time, change string, found bool) {
	wall, found := wallTime(text, now.In(zone))
	if found {
		at, change = instantOf(wall, zone)
	}
	return at, change, found
}

// wallTime reads a time of day, and returns what clocks show then as if it were UTC. A weekday means the next one on which the time
// is still to come.
func wallTime(text string, now time.Time) (wall time.Time, found bool) {
	date, clockText, _ := strings.Cut(strings.ToLower(strings.Join(strings.Fields(text), " ")), " ")
	hour, err := time.Parse("15:04", clockText)
	if err != nil {
		if hour, err = time.Parse(time.TimeOnly, clockText); err != nil {
			return wall, false
		}
	}
	at := func(day time.Time, ahead int) time.Time {
		return time.Date(day.Year(), day.Month(), day.Day()+ahead, hour.Hour(), hour.Minute(), hour.Second(), 0, time.UTC)
	}
	switch date {
	case "today":
		return at(now, 0), true
	case "tomorrow":
		return at(now, 1), true
	}
	for ahead := range 8 {
		day := at(now, ahead)
		if strings.ToLower(day.Weekday().String()) == date && day.After(shown(now)) {
			return day, true
		}
	}
	day, err := time.Parse(time.DateOnly, date)
	return at(day, 0), err == nil
}

// shown returns what clocks show at t, as if it were UTC.
func shown(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instantOf returns when clocks in a zone show a time.
func instantOf(wall time.Time, zone *time.Location) (at time.Time, change string) {
	at = time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	start, end := at.ZoneBounds()
	leftOut := ": a change of clocks leaves " + wall.Format(time.TimeOnly) + " out, and this is the first instant after it"
	switch {
	case shown(at).After(wall):
		return start, leftOut
	case shown(at).Before(wall):
		return end, leftOut
	}
	twice := ": clocks show this time twice, and this is the first"
	// withOffsetAt returns the instant at which clocks would show the time if they had the offset that they have at t.
	withOffsetAt := func(t time.Time) time.Time {
		_, here := at.Zone()
		_, there := t.In(zone).Zone()
		return at.Add(time.Duration(here-there) * time.Second)
	}
	if !start.IsZero() && withOffsetAt(start.Add(-1)).Before(start) {
		return withOffsetAt(start.Add(-1)), twice
	}
	if !end.IsZero() && !withOffsetAt(end).Before(end) {
		return at, twice
	}
	return at, ""
}
