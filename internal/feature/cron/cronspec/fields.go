package cronspec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// searchYears is how far ahead a date is looked for. February 29 on a given weekday has pauses of 40 years.
const searchYears = 41

// field is one of the six, seconds first.
type field struct {
	name, want string
	// low and high bound what H may become. It never becomes a day that some months do not have.
	low, high int
}

var fieldsOf = []field{
	{"second", "0-59", 0, 59},
	{"minute", "0-59", 0, 59},
	{"hour", "0-23", 0, 23},
	{"day-of-month", "1-31, L (the last), L-3, 15W (the weekday nearest to the 15th) or LW", 1, 28},
	{"month", "1-12 or jan-dec", 1, 12},
	{"day-of-week", "0-7 or sun-sat, fri#3 (the third Friday) or fri#L (the last)", 0, 6},
}

const (
	secondField = iota
	minuteField
	hourField
	dayField
	_
	weekdayField
)

var words = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

var (
	parser = cron.MustNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Extended)
	// The parser overlooks an empty term and what follows a star.
	termForm = regexp.MustCompile(`^([*?]|[0-9a-z]+(-[0-9a-z]+)?)(/[0-9]+)?$|^[0-9a-z]+#[1-5l]$`)
	yearForm = regexp.MustCompile(`(^|[^0-9])[0-9]{4}`)
	// What dialects of cron read differently.
	openStepForm   = regexp.MustCompile(`^[0-9a-z]+/[0-9]+$`)
	weekdayForm    = regexp.MustCompile(`^([a-z]{3}|[0-7])-([a-z]{3}|[0-7])(?:/([0-9]{1,2}))?$`)
	numberedForm   = regexp.MustCompile(`[0-7]`)
	numberedOfForm = regexp.MustCompile(`(^|,)[0-7]#`)
)

// dates are the times of fields.
type dates struct{ spec *cron.SpecSchedule }

func (d dates) after(wall time.Time) (time.Time, bool) {
	t := d.spec.Next(wall)
	return t, !t.IsZero()
}

func (s *Schedule) parseFields() (err error) {
	defer func() {
		if err != nil && s.seconds {
			err = fmt.Errorf("%w; the first of six fields is seconds: leave it out if you meant five", err)
		}
	}()
	fields, err := s.split()
	if err != nil {
		return err
	}
	for i := range fields {
		if fields[i], err = spread(fields[i], i, s.config.Name); err != nil {
			return fmt.Errorf("%s %w", fieldsOf[i].name, err)
		}
	}
	spec, err := parseSpec(fields)
	if err != nil {
		return err
	}
	s.readings = readingsOf(fields, s.seconds)
	d := dates{spec}
	if _, ok := d.after(time.Date(2000, 1, 1, 0, 0, 0, -1, time.UTC)); !ok {
		return fmt.Errorf("%q never fires: there is no date with day-of-month %s, month %s and day-of-week %s",
			s.config.Expression, fields[dayField], fields[4], fields[weekdayField])
	}
	// As cron of Debian has it: a star in a time of day means steps.
	s.onClock(d, slices.ContainsFunc(fields[:hourField+1], isStar))
	return nil
}

// split returns six fields, in lower case but for H.
func (s *Schedule) split() ([]string, error) {
	expression := s.config.Expression
	if strings.HasPrefix(expression, "@") {
		known, found := words[strings.ToLower(expression)]
		if !found {
			return nil, fmt.Errorf("%q is unknown: want %s", expression, wantExpression)
		}
		expression = known
	}
	fields := strings.Fields(expression)
	switch n := len(fields); {
	case n == 5:
		fields = append([]string{"0"}, fields...)
	case n == 6 && yearForm.MatchString(fields[5]):
		return nil, fmt.Errorf("%q seems to end with a year: of six fields the first is seconds, and there is none for years; "+
			"bound it with a start and an end", expression)
	case n == 6:
		s.seconds = true
	default:
		return nil, fmt.Errorf("%q has %d fields: want %s", expression, n, wantExpression)
	}
	return fields, nil
}

func isStar(field string) bool { return strings.HasPrefix(field, "*") || strings.HasPrefix(field, "?") }

func parseSpec(fields []string) (*cron.SpecSchedule, error) {
	for i, text := range fields {
		fields[i] = strings.ToLower(text) // the parser takes the H in THU for its own
		for term := range strings.SplitSeq(fields[i], ",") {
			if !termForm.MatchString(term) {
				return nil, badField(i, text, fmt.Sprintf("%q is not a number, a name, a range or a step", term))
			}
		}
		if strings.Contains(fields[i], "?") && (fields[i] != "?" || i != dayField && i != weekdayField) {
			return nil, badField(i, text, "? stands alone, in day-of-month or day-of-week; for each value write *")
		}
	}
	if fields[dayField] == "?" && fields[weekdayField] == "?" {
		return nil, badField(weekdayField, "?", "day-of-month is ? as well, and one of them at most may be; for each day write *")
	}
	sent := slices.Clone(fields)
	sent[weekdayField] = oneSunday(fields[weekdayField])
	parsed, err := parser.Parse(strings.Join(sent, " "))
	if err != nil {
		return nil, blame(fields, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is no fields: want %s", strings.Join(fields, " "), wantExpression)
	}
	spec.Location, spec.MaxSearchYears = time.UTC, searchYears
	// As crontab(5) has it: either day will do, unless one of them begins with a star.
	spec.DowOrDom = !isStar(fields[dayField]) && !isStar(fields[weekdayField])
	return spec, nil
}

// oneSunday writes the ranges of a day-of-week field as lists of days. The parser counts 0 and 7, which are both
// Sunday, as two days of a range that goes over it, such as fri-mon/2.
func oneSunday(text string) string {
	terms := strings.Split(text, ",")
	for i, term := range terms {
		parts := weekdayForm.FindStringSubmatch(term)
		if parts == nil {
			continue
		}
		from, to := weekdayOf(parts[1]), weekdayOf(parts[2])
		step := 1
		if parts[3] != "" {
			step, _ = strconv.Atoi(parts[3]) // two digits
		}
		if from < 0 || to < 0 || step < 1 || step > daysOfWeek {
			continue // the parser refuses it
		}
		if from == daysOfWeek {
			from, to = 0, to%daysOfWeek
		}
		if to < from {
			to += daysOfWeek
		}
		var days []string
		for day := from; day <= to; day += step {
			days = append(days, strconv.Itoa(day%daysOfWeek))
		}
		terms[i] = strings.Join(days, ",")
	}
	return strings.Join(terms, ",")
}

const daysOfWeek = 7

// weekdayOf returns the number of a day of week, 7 for the second number of Sunday; negative if it is none.
func weekdayOf(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return slices.Index([]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, text)
}

// readingsOf says how what dialects of cron read differently is read here.
func readingsOf(fields []string, seconds bool) (all []string) {
	for i, text := range fields {
		for term := range strings.SplitSeq(text, ",") {
			if openStepForm.MatchString(term) {
				from, step, _ := strings.Cut(term, "/")
				all = append(all, fmt.Sprintf("%s %q is read as %s-%s/%s", fieldsOf[i].name, term, from, lastOf[i], step))
			}
		}
	}
	day, weekday := fields[dayField], fields[weekdayField]
	if numberedOfForm.MatchString(weekday) || numberedForm.MatchString(weekday) && !isStar(weekday) && (seconds || day == "?") {
		all = append(all, fmt.Sprintf("day-of-week %q counts Sunday as 0 or 7, and Monday as 1", weekday))
	}
	switch isEach := func(text string) bool { return text == "*" || text == "?" }; {
	case isEach(day) || isEach(weekday):
	case isStar(day) || isStar(weekday):
		all = append(all, fmt.Sprintf("day-of-month %q and day-of-week %q both have to fit, since one begins with a star", day, weekday))
	default:
		all = append(all, fmt.Sprintf("of day-of-month %q and day-of-week %q either will do", day, weekday))
	}
	return all
}

// lastOf is the last value of each field.
var lastOf = []string{"59", "59", "23", "31", "12", "7"}

// blame finds the field that the parser does not take.
func blame(fields []string, err error) error {
	for i, text := range fields {
		alone := []string{"*", "*", "*", "*", "*", "*"}
		alone[i] = text
		if _, err := parser.Parse(strings.Join(alone, " ")); err != nil {
			why := err.Error()
			if bad := new(strconv.NumError); errors.As(err, &bad) {
				why = fmt.Sprintf("%q is not a number or a name of this field", bad.Num)
			}
			return badField(i, text, why)
		}
	}
	return err
}

func badField(i int, text, why string) error {
	return fmt.Errorf("%s %q: %s; want %s, with * , - and / as usual, or H", fieldsOf[i].name, text, why, fieldsOf[i].want)
}
