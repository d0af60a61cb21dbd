// Package cronspec computes when something that repeats fires: from an expression, a zone and policies for clock
// changes to instants. It owns expressions and calendar arithmetic, on top of libraries that know wall-clock
// time only, and calls nothing else: no clock, no store. It never registers or runs anything.
package cronspec

import (
	"fmt"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/zones"
)

// Gap says what becomes of a time of day that a clock change leaves out.
type Gap string

// Fold says what becomes of a time of day that a clock change makes happen twice.
type Fold string

// The policies. The empty ones are GapShift and FoldFirst.
const (
	GapShift  Gap  = "shift" // fires at the first instant after the gap, once whatever falls into it
	GapSkip   Gap  = "skip"
	FoldFirst Fold = "first"
	FoldBoth  Fold = "both"
)

// Bounds of a schedule.
const (
	ExpressionBytesMax = 1000
	JitterMax          = 24 * time.Hour
	EveryMin           = time.Second
	EveryMax           = 366 * 24 * time.Hour

	firstYear = 1970
	lastYear  = 2200
)

// Config is what a schedule is made of.
type Config struct {
	// Name is that of what repeats. It decides where H and jitter put it, and nothing else.
	Name string
	// Expression is five fields, six with seconds first, a word such as @daily, "@every 90s" or an RRULE.
	Expression string
	Zone       string // an IANA name; empty: UTC

	// Fires happen from Start on and before End; zero for no bound. Start also anchors @every (which without
	// it counts from 1970) and an RRULE without DTSTART (which needs it).
	Start, End time.Time

	Jitter time.Duration // 0 to JitterMax, in milliseconds
	Gap    Gap
	Fold   Fold

	Zones *zones.Database // nil: the default one
}

// Schedule tells the instants at which something fires. It is immutable.
type Schedule struct {
	config  Config
	zone    *time.Location
	fires   rule
	seconds bool // it has six fields
	// readings are what of its expression dialects of cron read differently, and how it is read here.
	readings []string
}

// rule is the part of a schedule that knows no bounds.
type rule interface {
	// next returns the first instant after an instant, at the precision of a second.
	next(after time.Time) (time.Time, bool)
}

// Parse checks a configuration. Its errors are for who wrote it: what is wrong, what is allowed.
func Parse(c Config) (*Schedule, error) {
	if c.Zones == nil {
		c.Zones = zones.Default()
	}
	c.Expression = strings.TrimSpace(c.Expression)
	c.Start, c.End = c.Start.Round(0), c.End.Round(0)
	if err := c.check(); err != nil {
		return nil, err
	}
	zone, err := c.Zones.Load(c.Zone)
	if err != nil {
		return nil, err
	}
	s := &Schedule{config: c, zone: zone}
	if err := s.parse(); err != nil {
		return nil, err
	}
	if _, ok := s.Next(time.Time{}); !ok {
		return nil, s.neverWithin()
	}
	return s, nil
}

func (c *Config) check() error {
	switch n := len(c.Expression); {
	case n == 0:
		return fmt.Errorf("the expression is empty: want %s", wantExpression)
	case n > ExpressionBytesMax:
		return fmt.Errorf("the expression has %d bytes: want at most %d", n, ExpressionBytesMax)
	case c.Gap != "" && c.Gap != GapShift && c.Gap != GapSkip:
		return fmt.Errorf("gap %q is unknown: want %s or %s", c.Gap, GapShift, GapSkip)
	case c.Fold != "" && c.Fold != FoldFirst && c.Fold != FoldBoth:
		return fmt.Errorf("fold %q is unknown: want %s or %s", c.Fold, FoldFirst, FoldBoth)
	case c.Jitter < 0 || c.Jitter > JitterMax || c.Jitter%time.Millisecond != 0:
		return fmt.Errorf("jitter %s is out of range: want 0 to %s, in milliseconds", c.Jitter, JitterMax)
	case !c.Start.IsZero() && !c.End.IsZero() && !c.Start.Before(c.End):
		return fmt.Errorf("the end %s is not after the start %s", text(c.End), text(c.Start))
	}
	for what, t := range map[string]time.Time{"start": c.Start, "end": c.End} {
		if !t.IsZero() && (t.Year() < firstYear || t.Year() >= lastYear) {
			return fmt.Errorf("the %s %s is out of range: want the years %d to %d", what, text(t), firstYear, lastYear-1)
		}
	}
	return nil
}

const wantExpression = `five fields (minute hour day-of-month month day-of-week), six with seconds first, ` +
	`@hourly, @daily, @weekly, @monthly, @yearly, "@every 90s" or an RRULE`

func (s *Schedule) parse() error {
	switch e := s.config.Expression; {
	case isEvery(e):
		return s.parseEvery()
	case isRRule(e):
		return s.parseRRule()
	default:
		return s.parseFields()
	}
}

// onClock makes the rule one of wall-clock times. If repeats, they are steps rather than times of day: each
// instant that shows such a time fires, and the policies do not matter.
func (s *Schedule) onClock(t times, repeats bool) {
	w := &clock{times: t, zone: s.zone, skip: s.config.Gap == GapSkip, both: s.config.Fold == FoldBoth}
	if repeats {
		w.skip, w.both = true, true
	}
	s.fires = w
}

// Next returns the first nominal time after an instant, in the schedule's zone; false if there is none. It
// looks at the years 1970 to 2199.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	from := time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	if from.Before(s.config.Start) {
		from = s.config.Start
	}
	if after.Before(from) {
		after = from.Add(-1)
	}
	if after.Year() >= lastYear {
		return time.Time{}, false
	}
	t, ok := s.fires.next(after)
	if !ok || t.Year() >= lastYear || !s.config.End.IsZero() && !t.Before(s.config.End) {
		return time.Time{}, false
	}
	return t.In(s.zone), true
}

// After returns the first nominal times after an instant, at most limit.
func (s *Schedule) After(after time.Time, limit int) []time.Time {
	return s.Between(after.Add(1), time.Date(lastYear, 1, 1, 0, 0, 0, 0, time.UTC), limit)
}

// Between returns the nominal times from one instant on and before another, the first ones if there are
// more than limit.
func (s *Schedule) Between(from, to time.Time, limit int) []time.Time {
	var all []time.Time
	for t, ok := s.Next(from.Add(-1)); ok && t.Before(to) && len(all) < limit; t, ok = s.Next(t) {
		all = append(all, t)
	}
	return all
}

// Zone returns the zone whose clock it follows.
func (s *Schedule) Zone() *time.Location { return s.zone }

// Due returns when the occurrence of a nominal time becomes due: at it, or later by less than the jitter,
// always by the same for the same name and nominal time.
func (s *Schedule) Due(nominal time.Time) time.Time {
	if s.config.Jitter == 0 {
		return nominal
	}
	steps := uint64(s.config.Jitter / time.Millisecond)
	n := hash(s.config.Name, "jitter", nominal.UTC().Format(time.RFC3339)) % steps
	return nominal.Add(time.Duration(n) * time.Millisecond)
}

// Note says of an expression that its author may have meant otherwise how it is read, and when it fires next: people
// who write six fields often mean five, and dialects of cron read some things differently. Empty: there is nothing to
// say, or it fires no more.
func (s *Schedule) Note(next []time.Time) string {
	if !s.seconds && len(s.readings) == 0 || len(next) == 0 {
		return ""
	}
	notes := s.readings
	if s.seconds {
		notes = append([]string{"the expression has six fields, so the first is seconds"}, notes...)
	}
	var texts []string
	for _, t := range next[:min(len(next), timesShown)] {
		texts = append(texts, t.In(s.zone).Format(time.RFC3339))
	}
	text := strings.Join(notes, "; ") + "; it fires next at " + strings.Join(texts, ", ")
	if s.seconds {
		text += "; leave out the first field if you meant five"
	}
	return text
}

// timesShown is how many fire times Note shows.
const timesShown = 3

// HasSpread reports whether the expression has an H, so that fire times depend on the name.
func (s *Schedule) HasSpread() bool { return hasSpread(s.config.Expression) }

func (s *Schedule) neverWithin() error {
	bounds := ""
	if start := s.config.Start; !start.IsZero() {
		bounds += " from the start " + text(start)
	}
	if end := s.config.End; !end.IsZero() {
		bounds += " before the end " + text(end)
	}
	return fmt.Errorf("%q never fires%s", s.config.Expression, bounds)
}

func text(t time.Time) string { return t.Format(time.RFC3339) }
