package cronspec_test

import (
	"testing"

	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
)

// What RFC 5545 (3.3.10 and 3.8.5.3) forbids of a rule, and what of it is not supported, is refused by name.
func TestRulesOfRFC5545(t *testing.T) {
	t.Parallel()
	const utc, zoned = "DTSTART:20270101T000000Z ", "DTSTART;TZID=UTC:20270101T000000 "
	for rule, want := range map[string]string{
		// Each part is there once, in any order, and FREQ has to be.
		"RRULE:BYDAY=MO;COUNT=1":                                 "FREQ is required",
		"FREQ=DAILY;FREQ=DAILY":                                  "FREQ is there twice: a rule has each part once",
		"FREQ=DAILY;INTERVAL=2;INTERVAL=3":                       "INTERVAL is there twice",
		"FREQ=DAILY;COUNT=3;COUNT=3":                             "COUNT is there twice",
		"FREQ=DAILY;UNTIL=20280101T000000;UNTIL=20290101T000000": "UNTIL is there twice",
		"FREQ=WEEKLY;BYDAY=MO;BYDAY=TU":                          "BYDAY is there twice",
		"FREQ=DAILY;BYHOUR=1;BYHOUR=2":                           "BYHOUR is there twice",
		"FREQ=WEEKLY;WKST=MO;wkst=SU":                            "WKST is there twice",
		"FREQ=DAILY;":                                            `"" is not supported: want the parts BYDAY, BYHOUR,`,
		"FREQ=DAILY;;COUNT=2":                                    `"" is not supported`,
		"RRULE:RRULE:FREQ=DAILY":                                 `"RRULE:FREQ=DAILY" is not supported`,
		"FREQ=DAILY;X-NAME=1":                                    `"X-NAME=1" is not supported`,
		"FREQ=DAILY;BYEASTER=1":                                  `"BYEASTER=1" is not supported`,
		"FREQ=DAILY;RSCALE=GREGORIAN":                            `"RSCALE=GREGORIAN" is not supported`,
		"FREQ=DAILY;SKIP=OMIT":                                   `"SKIP=OMIT" is not supported`,
		"FREQ=DAILY;DTSTART=20270101T000000":                     "DTSTART is no part of a rule",
		"RRULE:FREQ=DAILY RRULE:FREQ=WEEKLY":                     `"RRULE:FREQ=WEEKLY" in an RRULE is not supported`,
		"FREQ=DAILY EXRULE:FREQ=WEEKLY":                          `"EXRULE:FREQ=WEEKLY" in an RRULE is not supported`,
		"FREQ=DAILY RDATE:20270101T000000":                       `"RDATE:20270101T000000" in an RRULE is not supported`,
		// Values.
		"FREQ=OFTEN":                         `"FREQ=OFTEN": want FREQ with SECONDLY, MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY`,
		"FREQ=":                              "want FREQ with SECONDLY",
		"FREQ=DAILY=2":                       "want FREQ with SECONDLY",
		"FREQ=DAILY;INTERVAL=0":              "INTERVAL=0 is out of range: want 1 or more",
		"FREQ=DAILY;INTERVAL=-1":             "want INTERVAL with a number from 1 on",
		"FREQ=DAILY;INTERVAL=+1":             "want INTERVAL with a number from 1 on",
		"FREQ=DAILY;COUNT=00":                "COUNT=00 is out of range: want 1 or more",
		"FREQ=DAILY;COUNT=-2":                "want COUNT with a number from 1 on",
		"FREQ=DAILY;COUNT=+2":                "want COUNT with a number from 1 on",
		"FREQ=DAILY;COUNT=x":                 "want COUNT with a number from 1 on",
		"FREQ=DAILY;WKST=1MO":                "want WKST with SU, MO,",
		"FREQ=DAILY;WKST=":                   "want WKST with SU, MO,",
		"FREQ=DAILY;BYSECOND=60":             "bysecond must be between 0 and 59",
		"FREQ=DAILY;BYSECOND=-1":             "want BYSECOND with 0 to 59",
		"FREQ=DAILY;BYMINUTE=60":             "byminute must be between 0 and 59",
		"FREQ=DAILY;BYMINUTE=+1":             "want BYMINUTE with 0 to 59",
		"FREQ=DAILY;BYHOUR=24":               "byhour must be between 0 and 23",
		"FREQ=DAILY;BYHOUR=1,,2":             "want BYHOUR with 0 to 23",
		"FREQ=DAILY;BYHOUR=":                 "want BYHOUR with 0 to 23",
		"FREQ=DAILY;BYDAY=MON":               "want BYDAY with weekdays such as MO",
		"FREQ=MONTHLY;BYDAY=0MO":             "want BYDAY with weekdays such as MO, or with a number from 1 or -1 on",
		"FREQ=YEARLY;BYDAY=54MO":             "byday must be between 1 and 53 or -1 and -53",
		"FREQ=MONTHLY;BYMONTHDAY=0":          "bymonthday must be between 1 and 31 or -1 and -31",
		"FREQ=MONTHLY;BYMONTHDAY=-32":        "bymonthday must be between",
		"FREQ=YEARLY;BYYEARDAY=0":            "byyearday must be between 1 and 366 or -1 and -366",
		"FREQ=YEARLY;BYYEARDAY=-367":         "byyearday must be between",
		"FREQ=YEARLY;BYWEEKNO=0":             "byweekno must be between 1 and 53 or -1 and -53",
		"FREQ=YEARLY;BYWEEKNO=54":            "byweekno must be between",
		"FREQ=YEARLY;BYMONTH=0":              "bymonth must be between 1 and 12",
		"FREQ=YEARLY;BYMONTH=13":             "bymonth must be between 1 and 12",
		"FREQ=YEARLY;BYMONTH=-1":             "want BYMONTH with 1 to 12",
		"FREQ=DAILY;BYHOUR=1,2;BYSETPOS=0":   "bysetpos must be between 1 and 366 or -1 and -366",
		"FREQ=DAILY;BYHOUR=1,2;BYSETPOS=367": "bysetpos must be between",
		// What goes with what.
		"FREQ=DAILY;COUNT=2;UNTIL=20280101T000000": "want COUNT or UNTIL, not both",
		"FREQ=DAILY;BYSETPOS=1":                    "BYSETPOS wants another BY… part",
		"FREQ=WEEKLY;BYMONTHDAY=3":                 "BYMONTHDAY does not go with FREQ=WEEKLY",
		"FREQ=DAILY;BYYEARDAY=3":                   "BYYEARDAY does not go with FREQ=DAILY, WEEKLY and MONTHLY",
		"FREQ=WEEKLY;BYYEARDAY=3":                  "BYYEARDAY does not go with",
		"FREQ=MONTHLY;BYYEARDAY=3":                 "BYYEARDAY does not go with",
		"FREQ=MONTHLY;BYWEEKNO=3":                  "BYWEEKNO wants FREQ=YEARLY",
		"FREQ=HOURLY;BYWEEKNO=3":                   "BYWEEKNO wants FREQ=YEARLY",
		"FREQ=WEEKLY;BYDAY=MO,-2TU":                "a number in BYDAY, such as 2MO, wants FREQ=MONTHLY or FREQ=YEARLY",
		"FREQ=HOURLY;BYDAY=1MO":                    "wants FREQ=MONTHLY or FREQ=YEARLY",
		"FREQ=YEARLY;BYWEEKNO=3;BYDAY=2MO":         "does not go with BYWEEKNO",
		// UNTIL is a time as DTSTART is, which always has one.
		"FREQ=DAILY;UNTIL=x":                "want UNTIL with a time such as 20271231T235959",
		"FREQ=DAILY;UNTIL=20280101":         "want UNTIL with a time such as 20271231T235959",
		"FREQ=DAILY;UNTIL=20271301T000000":  "month out of range",
		"FREQ=DAILY;UNTIL=20280101T000000Z": "UNTIL=20280101T000000Z is in UTC and DTSTART on the clock",
	} {
		checkRefused(t, cronspec.Config{Expression: start + rule}, want)
	}
	for expression, want := range map[string]string{
		utc + "FREQ=DAILY;UNTIL=20280101T000000":       "UNTIL=20280101T000000 is on the clock and DTSTART has a Z or a TZID",
		zoned + "FREQ=DAILY;UNTIL=20280101T000000":     "UNTIL=20280101T000000 is on the clock and DTSTART has a Z or a TZID",
		"DTSTART;TZID=UTC:20270101T000000Z FREQ=DAILY": "is in a zone and in UTC: want TZID or Z, not both",
		"DTSTART;VALUE=DATE:20270101 FREQ=DAILY":       "want DTSTART:20270131T090000",
		"DTSTART:20270229T000000 FREQ=DAILY":           "is not a time",
	} {
		checkRefused(t, cronspec.Config{Expression: expression}, want)
	}
	for _, expression := range []string{
		utc + "FREQ=DAILY;UNTIL=20280101T000000Z", zoned + "FREQ=DAILY;UNTIL=20280101T000000Z", start + "FREQ=DAILY;UNTIL=20280101T000000",
		start + "COUNT=2;FREQ=DAILY", start + "INTERVAL=2;BYDAY=+1MO,-1FR;FREQ=MONTHLY",
		start + "FREQ=YEARLY;BYDAY=53MO", start + "FREQ=YEARLY;BYWEEKNO=-53,53;BYDAY=MO", start + "FREQ=HOURLY;BYYEARDAY=1", start + "FREQ=MONTHLY;BYMONTHDAY=+31,-31",
		start + "FREQ=DAILY;BYHOUR=01,23;BYSETPOS=-1;WKST=SU",
	} {
		parse(t, cronspec.Config{Expression: expression})
	}
	given := at(t, "2027-01-01T00:00:00Z")
	for _, expression := range []string{"FREQ=DAILY;UNTIL=20280101T000000", "FREQ=DAILY;UNTIL=20280101T000000Z"} {
		parse(t, cronspec.Config{Expression: expression, Start: given})
	}
}
