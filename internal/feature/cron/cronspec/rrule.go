package cronspec

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

// Bounds of an RRULE.
const (
	ruleCountMax    = 1000    // COUNT, since all of them are walked through
	ruleIntervalMax = 100_000 // INTERVAL
	ruleTimesMax    = 50_000  // times in a period of FREQ, since the library makes them all at once
	ruleStepYears   = 100     // from one period to the next

	// cycles moves a rule's times to the last centuries before the year 9999, at which the library gives up
	// looking for a date that never comes. The calendar repeats itself every 400 years, weekdays included.
	cycles = 19 * 400
)

var dtstartForm = regexp.MustCompile(`^(?i:DTSTART)(?:;(?i:TZID)=([^:;]+))?:(\d{8}[Tt]\d{6})([Zz]?)$`)

// rulePart is how the value of a part of a rule is written (RFC 5545, 3.3.10). Lists have commas.
type rulePart struct {
	form *regexp.Regexp
	want string
}

var ruleParts = map[string]rulePart{
	"FREQ":       {regexp.MustCompile(`^(SECONDLY|MINUTELY|HOURLY|DAILY|WEEKLY|MONTHLY|YEARLY)$`), "SECONDLY, MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY"},
	"UNTIL":      {regexp.MustCompile(`^\d{8}T\d{6}Z?$`), "a time such as 20271231T235959, or with a Z for UTC"},
	"COUNT":      {regexp.MustCompile(`^\d{1,9}$`), "a number from 1 on"},
	"INTERVAL":   {regexp.MustCompile(`^\d{1,18}$`), "a number from 1 on"},
	"BYSECOND":   numbersOf(`\d{1,2}`, "0 to 59"), // 60, a leap second, is no time of Unix clocks
	"BYMINUTE":   numbersOf(`\d{1,2}`, "0 to 59"),
	"BYHOUR":     numbersOf(`\d{1,2}`, "0 to 23"),
	"BYDAY":      numbersOf(`([+-]?0?[1-9]\d?)?(SU|MO|TU|WE|TH|FR|SA)`, "weekdays such as MO, or with a number from 1 or -1 on such as -1FR"),
	"BYMONTHDAY": numbersOf(`[+-]?\d{1,2}`, "1 to 31 or -1 to -31"),
	"BYYEARDAY":  numbersOf(`[+-]?\d{1,3}`, "1 to 366 or -1 to -366"),
	"BYWEEKNO":   numbersOf(`[+-]?\d{1,2}`, "1 to 53 or -1 to -53"),
	"BYMONTH":    numbersOf(`\d{1,2}`, "1 to 12"),
	"BYSETPOS":   numbersOf(`[+-]?\d{1,3}`, "1 to 366 or -1 to -366"),
	"WKST":       {regexp.MustCompile(`^(SU|MO|TU|WE|TH|FR|SA)$`), "SU, MO, TU, WE, TH, FR or SA"},
}

func numbersOf(one, want string) rulePart {
	return rulePart{regexp.MustCompile("^" + one + "(," + one + ")*$"), want}
}

// ruleValues are the values of a rule's parts, by name.
type ruleValues map[string]string

// partsOf takes a rule in upper case apart. Each part is there once, in any order.
func partsOf(ruleText string) (ruleValues, error) {
	parts := ruleValues{}
	for text := range strings.SplitSeq(ruleText, ";") {
		name, value, _ := strings.Cut(text, "=")
		part, known := ruleParts[name]
		switch {
		case name == "DTSTART":
			return nil, fmt.Errorf("DTSTART is no part of a rule: put it before, with a space between")
		case !known:
			return nil, fmt.Errorf("%q is not supported: want the parts %s, with a ; between two", text, strings.Join(slices.Sorted(maps.Keys(ruleParts)), ", "))
		case !part.form.MatchString(value):
			return nil, fmt.Errorf("%q: want %s with %s", text, name, part.want)
		}
		if _, twice := parts[name]; twice {
			return nil, fmt.Errorf("%s is there twice: a rule has each part once", name)
		}
		parts[name] = value
	}
	return parts, nil
}

// ruleUses are the parts of a rule that do not go with every FREQ, or with every other part (RFC 5545, 3.3.10).
var ruleUses = []struct {
	allowed func(parts ruleValues) bool
	want    string
}{
	{func(p ruleValues) bool { return p.has("FREQ") }, "FREQ is required"},
	{func(p ruleValues) bool { return !p.has("COUNT") || !p.has("UNTIL") }, "want COUNT or UNTIL, not both"},
	{func(p ruleValues) bool { return !p.has("BYWEEKNO") || p.every("YEARLY") }, "BYWEEKNO wants FREQ=YEARLY"},
	{func(p ruleValues) bool { return !p.has("BYYEARDAY") || !p.every("DAILY", "WEEKLY", "MONTHLY") }, "BYYEARDAY does not go with FREQ=DAILY, WEEKLY and MONTHLY"},
	{func(p ruleValues) bool { return !p.has("BYMONTHDAY") || !p.every("WEEKLY") }, "BYMONTHDAY does not go with FREQ=WEEKLY"},
	{func(p ruleValues) bool { return !p.hasOrdinal() || p.every("MONTHLY", "YEARLY") }, "a number in BYDAY, such as 2MO, wants FREQ=MONTHLY or FREQ=YEARLY"},
	{func(p ruleValues) bool { return !p.hasOrdinal() || !p.has("BYWEEKNO") }, "a number in BYDAY, such as 2MO, does not go with BYWEEKNO"},
	{func(p ruleValues) bool { return !p.has("BYSETPOS") || p.selects() }, "BYSETPOS wants another BY… part, from whose times it selects"},
}

func (p ruleValues) has(name string) bool { return p[name] != "" }

func (p ruleValues) every(periods ...string) bool { return slices.Contains(periods, p["FREQ"]) }

func (p ruleValues) hasOrdinal() bool { return strings.ContainsAny(p["BYDAY"], "0123456789") }

// selects reports whether there is a BY… part besides BYSETPOS.
func (p ruleValues) selects() bool {
	for name := range p {
		if strings.HasPrefix(name, "BY") && name != "BYSETPOS" {
			return true
		}
	}
	return false
}

// steps are how far apart two periods of a FREQ are, and at least for years and months.
var steps = map[rrule.Frequency]time.Duration{
	rrule.YEARLY: 365 * 24 * time.Hour, rrule.MONTHLY: 28 * 24 * time.Hour, rrule.WEEKLY: 7 * 24 * time.Hour, rrule.DAILY: 24 * time.Hour,
	rrule.HOURLY: time.Hour, rrule.MINUTELY: time.Minute, rrule.SECONDLY: time.Second,
}

// recurrence are the times of an RRULE.
type recurrence struct {
	option rrule.ROption // with Dtstart, and without COUNT and UNTIL
	until  time.Time     // wall clock; zero: none
}

func isRRule(expression string) bool {
	upper := strings.ToUpper(expression)
	return strings.HasPrefix(upper, "DTSTART") || strings.Contains(upper, "RRULE:") || strings.Contains(upper, "FREQ=")
}

// NeedsStart reports whether an expression is an RRULE without DTSTART, which counts from the schedule's
// start.
func NeedsStart(expression string) bool {
	return isRRule(strings.TrimSpace(expression)) && !strings.Contains(strings.ToUpper(expression), "DTSTART")
}

func (s *Schedule) parseRRule() error {
	start, ruleText, err := s.splitRRule()
	if err != nil {
		return err
	}
	parts, err := partsOf(ruleText)
	if err == nil {
		err = s.checkParts(parts)
	}
	if err != nil {
		return fmt.Errorf("RRULE %q: %w", ruleText, err)
	}
	parsed, err := rrule.StrToROption(ruleText)
	if err != nil {
		return fmt.Errorf("RRULE %q: %w", ruleText, err)
	}
	r := &recurrence{option: *parsed}
	until, count := r.option.Until, r.option.Count
	r.option.Until, r.option.Count, r.option.Dtstart = time.Time{}, 0, start
	if err := r.check(parsed); err != nil {
		return fmt.Errorf("RRULE %q: %w", ruleText, err)
	}
	r.fill()
	if err := r.checkCost(); err != nil {
		return fmt.Errorf("RRULE %q: %w", ruleText, err)
	}
	first, ok := r.after(start.Add(-time.Second))
	if !ok {
		return fmt.Errorf("RRULE %q never fires: there is no such date", ruleText)
	}
	if err := s.bound(r, parts, until, first, count); err != nil {
		return err
	}
	s.onClock(r, r.option.Freq >= rrule.HOURLY)
	return nil
}

// checkParts refuses what RFC 5545 does not allow and the library takes.
func (s *Schedule) checkParts(p ruleValues) error {
	for _, use := range ruleUses {
		if !use.allowed(p) {
			return errors.New(use.want)
		}
	}
	for _, name := range []string{"COUNT", "INTERVAL"} { // the library takes 0 for what is not there
		if p.has(name) && strings.Trim(p[name], "0") == "" {
			return fmt.Errorf("%s=%s is out of range: want 1 or more", name, p[name])
		}
	}
	inUTC := strings.HasSuffix(p["UNTIL"], "Z")
	switch start := s.startForm(); {
	case !p.has("UNTIL") || start == startGiven:
	case start == startOnClock && inUTC:
		return fmt.Errorf("UNTIL=%s is in UTC and DTSTART on the clock: want UNTIL without a Z, or DTSTART with one or with a TZID", p["UNTIL"])
	case start == startInstant && !inUTC:
		return fmt.Errorf("UNTIL=%s is on the clock and DTSTART has a Z or a TZID: want UNTIL in UTC, with a Z", p["UNTIL"])
	}
	return nil
}

// The forms of a start, which say how UNTIL is written.
const (
	startGiven   = iota // with the schedule: an instant, which has a time on its clock as well
	startOnClock        // DTSTART without a zone
	startInstant        // DTSTART with a zone, or in UTC
)

func (s *Schedule) startForm() int {
	for part := range strings.FieldsSeq(s.config.Expression) {
		if form := dtstartForm.FindStringSubmatch(part); form != nil {
			if form[1] != "" || form[3] != "" {
				return startInstant
			}
			return startOnClock
		}
	}
	return startGiven
}

// splitRRule returns DTSTART on the wall clock and the rule, in upper case. They are apart by white space.
func (s *Schedule) splitRRule() (start time.Time, ruleText string, err error) {
	const want = "want FREQ=…, optionally after DTSTART:20270131T090000 and a space"
	for part := range strings.FieldsSeq(s.config.Expression) {
		upper := strings.ToUpper(part)
		switch {
		case strings.HasPrefix(upper, "DTSTART") && start.IsZero():
			if start, err = s.dtstart(part); err != nil {
				return start, "", err
			}
		case ruleText == "" && (strings.HasPrefix(upper, "RRULE:") || strings.Contains(upper, "FREQ=")):
			ruleText = strings.TrimPrefix(upper, "RRULE:")
		default:
			return start, "", fmt.Errorf("%q in an RRULE is not supported: %s", part, want)
		}
	}
	if ruleText == "" {
		return start, "", fmt.Errorf("%q has no rule: %s", s.config.Expression, want)
	}
	if start.IsZero() {
		if s.config.Start.IsZero() {
			return start, "", fmt.Errorf("an RRULE counts from a start: give one, or begin with DTSTART:20270131T090000 and a space")
		}
		start = s.wall(s.config.Start.Add(time.Second - 1).Truncate(time.Second))
	}
	if start.Year() < firstYear || start.Year() >= lastYear {
		return start, "", fmt.Errorf("DTSTART %s is out of range: want the years %d to %d", text(start), firstYear, lastYear-1)
	}
	return start, ruleText, nil
}

func (s *Schedule) dtstart(part string) (time.Time, error) {
	parts := dtstartForm.FindStringSubmatch(part)
	if parts == nil {
		return time.Time{}, fmt.Errorf("%q: want DTSTART:20270131T090000, or with a Z for UTC", part)
	}
	if parts[1] != "" && parts[3] != "" {
		return time.Time{}, fmt.Errorf("%q is in a zone and in UTC: want TZID or Z, not both", part)
	}
	if parts[1] != "" && parts[1] != s.zone.String() {
		return time.Time{}, fmt.Errorf("DTSTART is in zone %s and the schedule in %s: want the same", parts[1], s.zone)
	}
	t, err := time.Parse("20060102T150405", strings.ToUpper(parts[2]))
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time: want DTSTART:20270131T090000", part)
	}
	if parts[3] != "" {
		t = s.wall(t)
	}
	return t, nil
}

// wall returns what the zone's clock shows at an instant.
func (s *Schedule) wall(t time.Time) time.Time {
	_, seconds := t.In(s.zone).Zone()
	return t.UTC().Add(time.Duration(seconds) * time.Second)
}

// check refuses what is out of its range, as far as the library takes or does not survive that.
func (r *recurrence) check(parsed *rrule.ROption) error {
	o := &r.option
	inMonth := o.Freq == rrule.MONTHLY || o.Freq == rrule.YEARLY && len(o.Bymonth) > 0
	tooFar := slices.ContainsFunc(o.Byweekday, func(d rrule.Weekday) bool { return d.N() > 5 || d.N() < -5 })
	longest := min(ruleIntervalMax, int(ruleStepYears*steps[rrule.YEARLY]/steps[o.Freq]))
	switch {
	case parsed.Count > ruleCountMax:
		return fmt.Errorf("COUNT=%d is out of range: want 1 to %d, or UNTIL", parsed.Count, ruleCountMax)
	case o.Interval > longest:
		return fmt.Errorf("INTERVAL=%d is out of range: want 1 to %d", o.Interval, longest)
	case tooFar && inMonth:
		return fmt.Errorf("a number in BYDAY is out of range: a month has 1 to 5, and -1 to -5, of each weekday")
	}
	_, err := rrule.NewRRule(*o) // bounds of all numbers
	return err
}

// fill makes explicit what a rule takes from its start, so that it means the same from a later one.
func (r *recurrence) fill() {
	o, start := &r.option, r.option.Dtstart
	o.Interval = max(o.Interval, 1)
	if len(o.Byweekno)+len(o.Byyearday)+len(o.Bymonthday)+len(o.Byweekday) == 0 {
		switch o.Freq {
		case rrule.YEARLY:
			if len(o.Bymonth) == 0 {
				o.Bymonth = []int{int(start.Month())}
			}
			o.Bymonthday = []int{start.Day()}
		case rrule.MONTHLY:
			o.Bymonthday = []int{start.Day()}
		case rrule.WEEKLY:
			o.Byweekday = []rrule.Weekday{[]rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}[start.Weekday()]}
		default:
		}
	}
	for _, part := range []struct {
		by   *[]int
		unit rrule.Frequency
		own  int
	}{{&o.Byhour, rrule.HOURLY, start.Hour()}, {&o.Byminute, rrule.MINUTELY, start.Minute()}, {&o.Bysecond, rrule.SECONDLY, start.Second()}} {
		if len(*part.by) == 0 && o.Freq < part.unit {
			*part.by = []int{part.own}
		}
		slices.Sort(*part.by)
		*part.by = slices.Compact(*part.by)
	}
}

// checkCost refuses rules on which the library would take long, or would never come back.
func (r *recurrence) checkCost() error {
	o := &r.option
	many := max(len(o.Byhour), 1) * max(len(o.Byminute), 1) * max(len(o.Bysecond), 1)
	if days := map[rrule.Frequency]int{rrule.YEARLY: 366, rrule.MONTHLY: 31, rrule.WEEKLY: 7}[o.Freq]; o.Freq < rrule.HOURLY && many*max(days, 1) > ruleTimesMax {
		return fmt.Errorf("%d times a day are too many for its FREQ: want a smaller one, such as FREQ=HOURLY or FREQ=MINUTELY", many)
	}
	if o.Freq < rrule.HOURLY {
		return nil
	}
	byDay := len(o.Bymonth) + len(o.Byyearday) + len(o.Bymonthday) + len(o.Byweekday)
	if o.Freq == rrule.SECONDLY && byDay+len(o.Byhour)+len(o.Byminute)+len(o.Bysecond)+len(o.Bysetpos) > 0 {
		return fmt.Errorf("FREQ=SECONDLY takes INTERVAL, COUNT and UNTIL only: want FREQ=MINUTELY with BYSECOND for the rest")
	}
	days := recurrence{option: rrule.ROption{
		Freq: rrule.DAILY, Interval: 1, Dtstart: o.Dtstart,
		Bymonth: o.Bymonth, Byyearday: o.Byyearday, Bymonthday: o.Bymonthday, Byweekday: o.Byweekday,
	}}
	if _, ok := days.after(o.Dtstart.Add(-time.Second)); byDay > 0 && !ok || !r.meetsTime() {
		return fmt.Errorf("it never fires: no step from its start meets its BY… parts")
	}
	return nil
}

// meetsTime reports whether the steps of a rule ever come to a time of day that it allows.
func (r *recurrence) meetsTime() bool {
	const daySeconds = 24 * 60 * 60
	o := &r.option
	step := o.Interval * int(steps[o.Freq]/time.Second)
	at := o.Dtstart.Hour()*3600 + o.Dtstart.Minute()*60 + o.Dtstart.Second()
	in := func(by []int, unit rrule.Frequency, value int) bool {
		return len(by) == 0 || o.Freq < unit || slices.Contains(by, value)
	}
	for range daySeconds / int(steps[o.Freq]/time.Second) {
		at = (at + step) % daySeconds
		if in(o.Byhour, rrule.HOURLY, at/3600) && in(o.Byminute, rrule.MINUTELY, at/60%60) {
			return true
		}
	}
	return false
}

// bound applies UNTIL, which includes what it names, and COUNT, whose last time it finds.
func (s *Schedule) bound(r *recurrence, parts ruleValues, until, first time.Time, count int) error {
	if count > 0 {
		last, ok := first, true
		for next := first; ok && count > 0; count-- {
			last = next
			next, ok = r.after(last)
		}
		r.until = last
		return nil
	}
	if until.IsZero() {
		return nil
	}
	if strings.HasSuffix(parts["UNTIL"], "Z") {
		if end := until.Add(time.Second); s.config.End.IsZero() || end.Before(s.config.End) {
			s.config.End = end
		}
	} else {
		r.until = until
	}
	if !r.until.IsZero() && r.until.Before(first) {
		return fmt.Errorf("RRULE %q never fires: UNTIL is before the first time, %s", s.config.Expression, first.Format("2006-01-02T15:04:05"))
	}
	return nil
}

func (r *recurrence) after(wall time.Time) (time.Time, bool) {
	option := r.option
	option.Dtstart = r.startFor(wall).AddDate(cycles, 0, 0)
	rule, err := rrule.NewRRule(option)
	if err != nil { // checked when it was parsed
		return time.Time{}, false
	}
	sought := wall.AddDate(cycles, 0, 0)
	for next := rule.Iterator(); ; {
		t, ok := next()
		if !ok {
			return time.Time{}, false
		}
		if t.After(sought) {
			t = t.AddDate(-cycles, 0, 0)
			return t, r.until.IsZero() || !t.After(r.until)
		}
	}
}

// startFor returns a start from which the rule goes on as from its own and which is not long before a time.
// It is two periods before, so that no period near the time is cut short.
func (r *recurrence) startFor(wall time.Time) time.Time {
	o := &r.option
	start := o.Dtstart
	months := map[rrule.Frequency]int{rrule.YEARLY: 12, rrule.MONTHLY: 1}[o.Freq] * o.Interval
	if months > 0 {
		passed := (wall.Year()-start.Year())*12 + int(wall.Month()) - int(start.Month())
		if k := passed/months - 2; k > 0 {
			first := start.AddDate(0, 0, 1-start.Day())
			if o.Freq == rrule.YEARLY {
				first = time.Date(start.Year(), 1, 1, start.Hour(), start.Minute(), start.Second(), 0, time.UTC)
			}
			return first.AddDate(0, k*months, 0)
		}
		return start
	}
	step := time.Duration(o.Interval) * steps[o.Freq]
	if passed := wall.Sub(start); passed > 2*step {
		return wall.Add(-passed%step - 2*step)
	}
	return start
}
