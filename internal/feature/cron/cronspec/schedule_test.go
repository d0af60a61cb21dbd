package cronspec_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/internal/zones"
)

// embedded makes tests independent of the machine they run on.
var embedded = zones.Open()

func at(t *testing.T, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return instant
}

func parse(t *testing.T, c cronspec.Config) *cronspec.Schedule {
	t.Helper()
	c.Zones = embedded
	s, err := cronspec.Parse(c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return s
}

// fires returns the next n fire times as text: 03-29T02:30:00+02:00.
func fires(s *cronspec.Schedule, after time.Time, n int) string {
	var all []string
	for range n {
		next, ok := s.Next(after)
		if !ok {
			all = append(all, "none")
			break
		}
		all = append(all, next.Format("01-02T15:04:05-07:00"))
		after = next
	}
	return strings.Join(all, " ")
}

// checkFires compares the fire times after an instant, as many as are wanted.
func checkFires(t *testing.T, c cronspec.Config, after, want string) {
	t.Helper()
	if got := fires(parse(t, c), at(t, after), len(strings.Fields(want))); got != want {
		t.Errorf("%s in %s, %s %s, after %s:\n got %s\nwant %s", c.Expression, c.Zone, c.Gap, c.Fold, after, got, want)
	}
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"*/20 * * * *":          "01-31T10:40:00+00:00 01-31T11:00:00+00:00",
		"0 9 * * mon-fri":       "02-01T09:00:00+00:00 02-02T09:00:00+00:00",
		"0 9 * * 7":             "02-07T09:00:00+00:00",
		"0 9 * * THU":           "02-04T09:00:00+00:00",
		"0 0 13 * fri":          "02-05T00:00:00+00:00 02-12T00:00:00+00:00 02-13T00:00:00+00:00", // either will do
		"0 0 */2 * fri":         "02-05T00:00:00+00:00 02-19T00:00:00+00:00",                      // both, since one begins with a star
		"0 0 L * *":             "02-28T00:00:00+00:00 03-31T00:00:00+00:00",
		"0 0 LW * *":            "02-26T00:00:00+00:00 03-31T00:00:00+00:00",
		"0 0 ? * FRI#2":         "02-12T00:00:00+00:00 03-12T00:00:00+00:00",
		"0 0 29 2 *":            "02-29T00:00:00+00:00 02-29T00:00:00+00:00",
		"0 22-1 31 1 *":         "01-31T22:00:00+00:00 01-31T23:00:00+00:00 01-31T00:00:00+00:00",
		"*/30 40 10 * * *":      "01-31T10:40:00+00:00 01-31T10:40:30+00:00 02-01T10:40:00+00:00",
		"@hourly":               "01-31T11:00:00+00:00",
		"@daily":                "02-01T00:00:00+00:00",
		"@WEEKLY":               "02-07T00:00:00+00:00",
		"@monthly":              "02-01T00:00:00+00:00 03-01T00:00:00+00:00",
		"@yearly":               "01-01T00:00:00+00:00 01-01T00:00:00+00:00",
		"@every 90s":            "01-31T10:31:30+00:00 01-31T10:33:00+00:00",
		"@every 36h":            "02-01T00:00:00+00:00 02-02T12:00:00+00:00",
		"@every 1d12h":          "02-01T00:00:00+00:00 02-02T12:00:00+00:00",
		"  0   12 1 jan,jul * ": "07-01T12:00:00+00:00 01-01T12:00:00+00:00",

		"DTSTART:20270101T080000 FREQ=WEEKLY;BYDAY=MO,WE":                   "02-01T08:00:00+00:00 02-03T08:00:00+00:00",
		"DTSTART:20270101T080000 RRULE:FREQ=WEEKLY;INTERVAL=2":              "02-12T08:00:00+00:00 02-26T08:00:00+00:00",
		"dtstart:20200131t080000z rrule:freq=monthly":                       "03-31T08:00:00+00:00 05-31T08:00:00+00:00",
		"DTSTART:20200101T000000 FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17":         "02-26T17:00:00+00:00 03-26T17:00:00+00:00",
		"DTSTART:20200101T000000 FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1":      "02-23T00:00:00+00:00 03-30T00:00:00+00:00",
		"DTSTART:20200229T000000 FREQ=YEARLY;INTERVAL=4":                    "02-29T00:00:00+00:00 02-29T00:00:00+00:00",
		"DTSTART:20200101T000500 FREQ=HOURLY;INTERVAL=7":                    "01-31T16:05:00+00:00 01-31T23:05:00+00:00",
		"DTSTART:20270131T103000 FREQ=MINUTELY;INTERVAL=20;BYHOUR=11":       "01-31T11:10:00+00:00 01-31T11:30:00+00:00 01-31T11:50:00+00:00 02-01T11:10:00+00:00",
		"DTSTART:20270131T103000 FREQ=SECONDLY;INTERVAL=45":                 "01-31T10:30:45+00:00 01-31T10:31:30+00:00",
		"DTSTART:20270131T120000 FREQ=DAILY;COUNT=2":                        "01-31T12:00:00+00:00 02-01T12:00:00+00:00 none",
		"DTSTART:20270131T120000Z FREQ=DAILY;UNTIL=20270201T120000Z":        "01-31T12:00:00+00:00 02-01T12:00:00+00:00 none",
		"DTSTART;TZID=UTC:20270131T120000 COUNT=2;FREQ=DAILY":               "01-31T12:00:00+00:00 02-01T12:00:00+00:00 none", // in any order
		"DTSTART:20270131T120000Z FREQ=DAILY;UNTIL=20270201T115959Z":        "01-31T12:00:00+00:00 none",
		"DTSTART:20270131T120000 FREQ=DAILY;UNTIL=20270201T120000":          "01-31T12:00:00+00:00 02-01T12:00:00+00:00 none",
		"DTSTART;TZID=UTC:20270131T120000 FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO": "05-17T12:00:00+00:00 05-15T12:00:00+00:00",
	} {
		checkFires(t, cronspec.Config{Expression: expression}, "2027-01-31T10:30:00Z", want)
	}
}

// The same times of day at the four kinds of clock change, under each policy.
func TestGapsAndFolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expression, zone, after string
		gap                     cronspec.Gap
		fold                    cronspec.Fold
		want                    string
	}{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "", "", "03-29T03:00:00+02:00 03-30T02:30:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", cronspec.GapSkip, "", "03-30T02:30:00+02:00"},
		{"0,30 2-3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "", "", "03-29T03:00:00+02:00 03-29T03:30:00+02:00 03-30T02:00:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "", "", "10-25T02:30:00+02:00 10-26T02:30:00+01:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "", cronspec.FoldBoth, "10-25T02:30:00+02:00 10-25T02:30:00+01:00 10-26T02:30:00+01:00"},
		{"0 2,3 * * *", "Europe/Berlin", "2026-10-24T23:59:59Z", "", cronspec.FoldBoth, "10-25T02:00:00+02:00 10-25T02:00:00+01:00 10-25T03:00:00+01:00"},
		// From within the hour that happens twice.
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "", "", "10-26T02:30:00+01:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "", cronspec.FoldBoth, "10-25T02:30:00+01:00"},
		// Steps are not times of day: the policies leave them alone.
		{"*/30 * * * *", "Europe/Berlin", "2026-03-29T00:20:00Z", "", "", "03-29T01:30:00+01:00 03-29T03:00:00+02:00 03-29T03:30:00+02:00"},
		{"5 * * * *", "Europe/Berlin", "2026-03-29T00:20:00Z", "", "", "03-29T03:05:00+02:00"},
		{"0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", cronspec.GapSkip, cronspec.FoldFirst, "10-25T02:00:00+02:00 10-25T02:00:00+01:00 10-25T03:00:00+01:00"},
		{"@every 1h", "Europe/Berlin", "2026-10-24T23:30:00Z", "", "", "10-25T02:00:00+02:00 10-25T02:00:00+01:00 10-25T03:00:00+01:00"},
		// Once a year, within the hour that happens twice.
		{"30 1 1 11 *", "America/New_York", "2026-10-01T00:00:00Z", "", cronspec.FoldBoth, "11-01T01:30:00-04:00 11-01T01:30:00-05:00 11-01T01:30:00-04:00"},
		// Half an hour, at midnight, two hours, a whole day.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "", "", "10-04T02:30:00+11:00 10-05T02:15:00+11:00"},
		{"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", "", "", "09-06T01:00:00-03:00 09-07T00:00:00-03:00"},
		{"0 2 * * *", "Antarctica/Troll", "2026-03-28T12:00:00Z", "", "", "03-29T03:00:00+02:00 03-30T02:00:00+02:00"},
		{"0 9,10 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "", "", "12-29T09:00:00-10:00 12-29T10:00:00-10:00 12-31T00:00:00+14:00 12-31T09:00:00+14:00"},
		{"0 9 30 * *", "Pacific/Apia", "2011-12-29T00:00:00Z", cronspec.GapSkip, "", "01-30T09:00:00+14:00"},
		// The last change that a zone lists, before a rule for all years, which Go misplaces.
		{"15 1 * * *", "America/Metlakatla", "2019-01-19T12:00:00Z", "", "", "01-20T01:15:00-08:00 01-21T01:15:00-09:00"},
		{"30 0 * * *", "Europe/Volgograd", "2018-10-27T12:00:00Z", "", "", "10-28T00:30:00+03:00 10-29T00:30:00+04:00"},
		{"DTSTART:20260101T023000 FREQ=DAILY", "Europe/Berlin", "2026-03-28T12:00:00Z", "", "", "03-29T03:00:00+02:00 03-30T02:30:00+02:00"},
		{"DTSTART:20260101T003000 FREQ=HOURLY", "Europe/Berlin", "2026-10-24T23:50:00Z", "", "", "10-25T02:30:00+02:00 10-25T02:30:00+01:00 10-25T03:30:00+01:00"},
	} {
		checkFires(t, cronspec.Config{Expression: c.expression, Zone: c.zone, Gap: c.gap, Fold: c.fold}, c.after, c.want)
	}
}

// Go's library has a wrong idea of the last day of a leap year (golang/go#81583).
func TestLastDayOfALeapYear(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Pacific/Auckland"} {
		s := parse(t, cronspec.Config{Expression: "0 0,8,16 * * *", Zone: zone})
		all := s.Between(at(t, "2028-12-01T00:00:00Z"), at(t, "2029-02-01T00:00:00Z"), 1000)
		if len(all) != 3*62 {
			t.Errorf("%s: %d fire times in 62 days, want 3 a day; the last is %s", zone, len(all), all[len(all)-1])
		}
	}
}

func TestStartAndEnd(t *testing.T) {
	t.Parallel()
	start, end := at(t, "2027-01-31T10:00:00Z"), at(t, "2027-01-31T12:00:00.5Z")
	for expression, want := range map[string]string{
		"0 * * * *":               "01-31T10:00:00+00:00 01-31T11:00:00+00:00 01-31T12:00:00+00:00 none",
		"@every 50m":              "01-31T10:00:00+00:00 01-31T10:50:00+00:00 01-31T11:40:00+00:00 none",
		"FREQ=HOURLY;INTERVAL=2":  "01-31T10:00:00+00:00 01-31T12:00:00+00:00 none",
		"FREQ=MINUTELY;COUNT=2":   "01-31T10:00:00+00:00 01-31T10:01:00+00:00 none",
		"FREQ=DAILY;BYMINUTE=0,1": "01-31T10:00:00+00:00 01-31T10:01:00+00:00 none",
	} {
		checkFires(t, cronspec.Config{Expression: expression, Start: start, End: end}, "2026-01-01T00:00:00Z", want)
	}
	// Nothing fires before a start within a second.
	checkFires(t, cronspec.Config{Expression: "@every 10s", Start: start.Add(time.Millisecond)}, "2026-01-01T00:00:00Z", "01-31T10:00:01+00:00 01-31T10:00:11+00:00")
	checkFires(t, cronspec.Config{Expression: "* * * * * *", Start: start.Add(time.Millisecond)}, "2026-01-01T00:00:00Z", "01-31T10:00:01+00:00")
}

func TestBetween(t *testing.T) {
	t.Parallel()
	s := parse(t, cronspec.Config{Expression: "0 * * * *"})
	from, to := at(t, "2027-01-31T10:00:00Z"), at(t, "2027-01-31T13:00:00Z")
	all := s.Between(from, to, 10)
	if len(all) != 3 || !all[0].Equal(from) || !all[2].Equal(to.Add(-time.Hour)) {
		t.Errorf("%v, want 10:00 to 12:00", all)
	}
	if first := s.Between(from, to, 2); len(first) != 2 {
		t.Errorf("%v, want the first two", first)
	}
}

// Jitter moves each occurrence by its own time, and always by the same.
func TestJitter(t *testing.T) {
	t.Parallel()
	a := parse(t, cronspec.Config{Name: "a", Expression: "@hourly", Jitter: time.Minute})
	b := parse(t, cronspec.Config{Name: "b", Expression: "@hourly", Jitter: time.Minute, Zone: "Asia/Tokyo"})
	nominal := at(t, "2027-01-31T10:00:00Z")
	seen := map[time.Duration]bool{}
	for range 100 {
		for _, s := range []*cronspec.Schedule{a, b} {
			later := s.Due(nominal).Sub(nominal)
			if later < 0 || later >= time.Minute || s.Due(nominal.In(time.FixedZone("", 3600))).Sub(nominal) != later {
				t.Fatalf("due %s later", later)
			}
			seen[later] = true
		}
		nominal = nominal.Add(time.Hour)
	}
	if len(seen) < 190 {
		t.Errorf("200 occurrences have %d delays", len(seen))
	}
	if got := a.Due(at(t, "2027-01-31T10:00:00Z")); got != at(t, "2027-01-31T10:00:00Z").Add(29*time.Millisecond) {
		t.Errorf("the jitter of a name changed: %s", got)
	}
}

// H never moves for a name: all its users would see their crons jump.
func TestSpread(t *testing.T) {
	t.Parallel()
	minutes, times := map[int]bool{}, map[string]bool{}
	for i := range 1000 {
		s := parse(t, cronspec.Config{Name: strings.Repeat("x", i), Expression: "H H H H *"})
		next, ok := s.Next(at(t, "2027-01-01T00:00:00Z"))
		if !ok || next.Day() > 28 || !s.HasSpread() {
			t.Fatal(next)
		}
		minutes[next.Minute()] = true
		times[next.Format("15:04")] = true
	}
	if len(minutes) != 60 || len(times) < 600 {
		t.Errorf("1000 names fire in %d minutes of an hour and at %d times of day", len(minutes), len(times))
	}
	for expression, want := range map[string]string{
		"H * * * *":                 "01-31T11:02:00+00:00 01-31T12:02:00+00:00",
		"H/20 10 * * *":             "01-31T10:42:00+00:00 02-01T10:02:00+00:00",
		"H(0-9)/5,30 H(9-17) * * *": "01-31T12:02:00+00:00 01-31T12:07:00+00:00 01-31T12:30:00+00:00",
		"0 0 * * THU":               "02-04T00:00:00+00:00",
	} {
		checkFires(t, cronspec.Config{Name: "report", Expression: expression}, "2027-01-31T10:30:00Z", want)
	}
}

// What the author of an expression may not have meant is told, with how it is read.
func TestReadingsAreTold(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"*/5 * * * * *":      "the expression has six fields, so the first is seconds; it fires next at 1970-01-01T00:00:00Z; leave out the first field if you meant five",
		"5/15 * * * *":       `minute "5/15" is read as 5-59/15; it fires`,
		"0 0 * * wed/2":      `day-of-week "wed/2" is read as wed-7/2; it fires`,
		"0 0 13 * fri":       `of day-of-month "13" and day-of-week "fri" either will do; it fires`,
		"0 0 */2 * fri":      `day-of-month "*/2" and day-of-week "fri" both have to fit, since one begins with a star; it fires`,
		"0 0 ? * 2-6":        `day-of-week "2-6" counts Sunday as 0 or 7, and Monday as 1; it fires`,
		"0 0 * * 6#3":        `day-of-week "6#3" counts Sunday as 0 or 7`,
		"0 0 9 * * 2":        `so the first is seconds; day-of-week "2" counts Sunday as 0 or 7`,
		"0 9 * * 1-5":        "",
		"*/5 * * * *":        "",
		"0 0 ? * fri":        "",
		"@daily":             "",
		"@every 5s":          "",
		"0 0 1 jan-mar/2 *":  "",
		"0 22-2/2 * * fri#3": "",
	} {
		got := parse(t, cronspec.Config{Expression: expression}).Note([]time.Time{time.Unix(0, 0)})
		if !strings.Contains(got, want) || (got != "") != (want != "") {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}

// A range of weekdays steps from its first day on, over Sunday too, which has two numbers and is one day.
func TestRangesOfWeekdays(t *testing.T) {
	t.Parallel()
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	monday := at(t, "2027-01-04T00:00:00Z")
	for from := range 8 {
		for to := range 8 {
			for step := 1; step <= 7; step++ {
				want, days := map[string]bool{}, 1
				for day := from; day%7 != to%7 || from == 0 && to == 7 && day == from; day++ {
					days++
				}
				for day := 0; day < days; day += step {
					want[names[(from+day)%7]] = true
				}
				for _, expression := range []string{
					fmt.Sprintf("0 0 * * %d-%d/%d", from, to, step), fmt.Sprintf("0 0 * * %s-%d/%d", names[from%7], to, step), fmt.Sprintf("0 0 * * %d-%s/%d", from, names[to%7], step),
				} {
					if strings.Contains(expression, "sun-7/") || strings.Contains(expression, "0-sun/") {
						continue
					}
					got := map[string]bool{}
					for _, fire := range parse(t, cronspec.Config{Expression: expression}).Between(monday, monday.AddDate(0, 0, 7), 8) {
						got[strings.ToLower(fire.Format("Mon"))] = true
					}
					if !maps.Equal(got, want) {
						t.Errorf("%s: %v, want %v", expression, got, want)
					}
				}
			}
		}
	}
}
