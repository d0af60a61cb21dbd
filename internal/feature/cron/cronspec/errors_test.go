package cronspec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
)

// Each error says what was wrong and what is allowed.
func TestBadExpressions(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"":                  "the expression is empty: want five fields",
		"1 2 3":             "has 3 fields: want five fields (minute hour day-of-month month day-of-week), six with seconds first",
		"* * * * * * *":     "has 7 fields",
		"0 0 1 1 * 2027":    "seems to end with a year",
		"60 * * * *":        `minute "60": end of range (60) above maximum (59): "60"; want 0-59`,
		"* 24 * * *":        "want 0-23",
		"* * 0 * *":         "want 1-31",
		"* * * 13 *":        "want 1-12 or jan-dec",
		"* * * * 8":         "want 0-7 or sun-sat",
		"60 * * * * *":      `second "60"`,
		"0 0 30 2 * *":      `hour "30": end of range (30) above maximum (23): "30"; want 0-23, with * , - and / as usual, or H; the first of six fields is seconds: leave it out if you meant five`,
		"*/0 * * * *":       "step of range must be a positive number",
		"5,,6 * * * *":      `"" is not a number, a name, a range or a step`,
		"*-5 * * * *":       `"*-5" is not a number`,
		"a b c d e":         `minute "a": "a" is not a number or a name of this field; want 0-59, with`,
		"0 0 * * funday":    `day-of-week "funday": "funday" is not a number or a name of this field; want 0-7 or sun-sat`,
		"? * * * *":         `minute "?": ? stands alone, in day-of-month or day-of-week; for each value write *`,
		"0 0 ?/2 * *":       "? stands alone",
		"0 0 1,? * *":       "? stands alone",
		"0 0 ? * ?":         "day-of-month is ? as well",
		"0 0 * * sun-sat/8": "step",
		"0 0 * * fri-mon/0": "step",
		"*/60 * * * *":      "step",
		"0 0 * * 5l":        "day-of-week \"5l\"",
		"0 0 15w-20 * *":    "day-of-month",
		"TZ=UTC * * * * *":  `second "TZ=UTC"`,
		"0 0 30 2 *":        "never fires: there is no date with day-of-month 30, month 2 and day-of-week *",
		"0 0 31 4,6,9,11 *": "never fires",
		"@noon":             `"@noon" is unknown: want five fields`,
		"@every":            "has no duration: want @every with a duration in whole seconds",
		"@every soon":       "has no duration",
		"@every 999ms":      "fires more than once a second",
		"@every d":          "has no duration",
		"@every -1d":        "has no duration",
		"@every 1d-1h":      "has no duration",
		"@every 367d":       "is out of range",
		"@every 0s":         "is out of range: want 1s to 366 days",
		"@every 9000h":      "is out of range",
		"@every 1500ms":     "is not in whole seconds",
		"H(0-60) * * * *":   `minute "H(0-60)": "H(0-60)" is out of range: want H(0-59) or a part of it`,
		"* * H(20-29) * *":  "want H(1-28) or a part of it",
		"H/0 * * * *":       "a step of 0 is out of range: want 1 to 60",
		"Hx * * * *":        `"Hx" is not a spread: want H, H(0-59) or H/2`,

		"FREQ=DAILY":                                                                       "counts from a start: give one, or begin with DTSTART",
		"DTSTART:20270101T000000":                                                          "has no rule: want FREQ=",
		"DTSTART:20270101 FREQ=DAILY":                                                      `"DTSTART:20270101": want DTSTART:20270131T090000`,
		"DTSTART:20271331T000000 FREQ=DAILY":                                               "is not a time",
		"DTSTART:99990101T000000 FREQ=DAILY":                                               "want the years 1970 to 2199",
		"DTSTART;TZID=Asia/Tokyo:20270101T000000 FREQ=DAILY":                               "DTSTART is in zone Asia/Tokyo and the schedule in UTC: want the same",
		start + "FREQ=DAILY EXDATE:20270101T000000":                                        `"EXDATE:20270101T000000" in an RRULE is not supported`,
		start + "FREQ=DAILY;COUNT=1001":                                                    "COUNT=1001 is out of range: want 1 to 1000",
		start + "FREQ=DAILY;INTERVAL=36501":                                                "INTERVAL=36501 is out of range: want 1 to 36500",
		start + "FREQ=DAILY;UNTIL=20260101T000000":                                         "never fires: UNTIL is before the first time",
		"DTSTART:20270101T000000Z FREQ=DAILY;UNTIL=20260101T000000Z":                       "never fires",
		start + "FREQ=WEEKLY;INTERVAL=1000000000000":                                       "want 1 to 5214",
		start + "FREQ=SECONDLY;INTERVAL=100001":                                            "want 1 to 100000",
		start + "FREQ=MONTHLY;BYDAY=53MO":                                                  "a month has 1 to 5",
		start + "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30":                                       "never fires: there is no such date",
		start + "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30":                                    "it never fires",
		start + "FREQ=HOURLY;INTERVAL=24;BYHOUR=3":                                         "it never fires",
		start + "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=1":                                     "it never fires",
		start + "FREQ=SECONDLY;BYHOUR=3":                                                   "want FREQ=MINUTELY with BYSECOND",
		start + "FREQ=YEARLY;BYHOUR=1,2,3;BYMINUTE=0,1,2,3,4,5,6,7,8,9;BYSECOND=0,1,2,3,4": "150 times a day are too many for its FREQ",
		"0 0 1 1 " + strings.Repeat("*", 1000):                                             "has 1008 bytes: want at most 1000",
	} {
		checkRefused(t, cronspec.Config{Expression: expression}, want)
	}
}

const start = "DTSTART:20270101T000000 "

func checkRefused(t *testing.T, c cronspec.Config, want string) {
	t.Helper()
	c.Zones = embedded
	if _, err := cronspec.Parse(c); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%q: %v\nwant %s", c.Expression, err, want)
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]cronspec.Config{
		`unknown zone "Europe/Berln"; did you mean Europe/Berlin?`:                            {Zone: "Europe/Berln"},
		`gap "next" is unknown: want shift or skip`:                                           {Gap: "next"},
		`fold "second" is unknown: want first or both`:                                        {Fold: "second"},
		"the end 2027-01-31T10:00:00Z is not after the start 2027-01-31T10:00:00Z":            {Start: at(t, "2027-01-31T10:00:00Z"), End: at(t, "2027-01-31T10:00:00Z")},
		"never fires from the start 2027-01-31T10:00:01Z before the end 2027-01-31T10:59:00Z": {Start: at(t, "2027-01-31T10:00:01Z"), End: at(t, "2027-01-31T10:59:00Z")},
		"the start 2200-01-01T00:00:00Z is out of range: want the years 1970 to 2199":         {Start: at(t, "2200-01-01T00:00:00Z")},
		"jitter 24h0m0.001s is out of range: want 0 to 24h0m0s":                               {Jitter: 24*time.Hour + time.Millisecond},
		"jitter 1µs is out of range":                                                          {Jitter: time.Microsecond},
	} {
		c.Expression = "@hourly"
		checkRefused(t, c, want)
	}
}
