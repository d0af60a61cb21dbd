package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/zones"
)

func TestDueTimesOfClocks(t *testing.T) {
	t.Parallel()
	local, err := zones.Default().Load("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2027, 3, 3, 12, 30, 0, 0, time.UTC) // a Wednesday, 13:30 in Paris, 7:30 in New York
	left := func(wall string) string {
		return " a change of clocks leaves " + wall + " out, and this is the first instant after it"
	}
	for _, c := range []struct{ at, zone, want, says string }{
		{"2027-01-31T09:00:00+01:00", "", "2027-01-31T08:00:00Z", ""},
		{"2027-04-01 09:00", "Europe/Paris", "2027-04-01T07:00:00Z", "due 2027-04-01T09:00:00+02:00"},
		{"2027-04-01  9:00:07", "Europe/Paris", "2027-04-01T07:00:07Z", "due 2027-04-01T09:00:07+02:00"},
		{"2027-04-01 09:00", "", "2027-04-01T13:00:00Z", "due 2027-04-01T09:00:00-04:00"},
		{"today 18:00", "Europe/Paris", "2027-03-03T17:00:00Z", "due 2027-03-03T18:00:00+01:00"},
		{"Today 18:00", "", "2027-03-03T23:00:00Z", "due 2027-03-03T18:00:00-05:00"},
		{"today 1:00", "Europe/Paris", "2027-03-03T00:00:00Z", "due 2027-03-03T01:00:00+01:00"},
		{"tomorrow 9:00", "Asia/Tokyo", "2027-03-04T00:00:00Z", "due 2027-03-04T09:00:00+09:00"},
		{"monday 9:00", "UTC", "2027-03-08T09:00:00Z", "due 2027-03-08T09:00:00Z"},
		{"wednesday 14:00", "Europe/Paris", "2027-03-03T13:00:00Z", "due 2027-03-03T14:00:00+01:00"},
		{"wednesday 13:30", "Europe/Paris", "2027-03-10T12:30:00Z", "due 2027-03-10T13:30:00+01:00"},
		{"sunday 2:30", "America/New_York", "2027-03-07T07:30:00Z", "due 2027-03-07T02:30:00-05:00"},
		{"2027-03-28 02:30", "Europe/Paris", "2027-03-28T01:00:00Z", "due 2027-03-28T03:00:00+02:00:" + left("02:30:00")},
		{"2027-03-14 02:30", "", "2027-03-14T07:00:00Z", "due 2027-03-14T03:00:00-04:00:" + left("02:30:00")},
		{"2027-10-31 02:30", "Europe/Paris", "2027-10-31T00:30:00Z", "due 2027-10-31T02:30:00+02:00: clocks show this time twice, and this is the first"},
		{"2027-11-07 01:30", "", "2027-11-07T05:30:00Z", "due 2027-11-07T01:30:00-04:00: clocks show this time twice, and this is the first"},
		{"2011-12-30 12:00", "Pacific/Apia", "2011-12-30T10:00:00Z", "due 2011-12-31T00:00:00+14:00:" + left("12:00:00")}, // a day that was not
		{"2027-10-31 03:00", "Europe/Paris", "2027-10-31T02:00:00Z", "due 2027-10-31T03:00:00+01:00"},
		{"2027-10-31 01:59", "Europe/Paris", "2027-10-30T23:59:00Z", "due 2027-10-31T01:59:00+02:00"},
	} {
		at, note, err := (&atFlags{c.at, c.zone}).readAt(now, local)
		if err != nil || at.UTC().Format(time.RFC3339) != c.want || note != c.says {
			t.Errorf("%s %s: %v, %q, %v; want %s, %q", c.at, c.zone, at.UTC(), note, err, c.want, c.says)
		}
	}
	for _, c := range [][3]string{
		{"", "UTC", "--zone is for an --at without an offset: want both, or neither"},
		{"2027-01-31T09:00:00Z", "UTC", "--zone is for an --at without an offset, and 2027-01-31T09:00:00Z has one"},
		{"today 9:00", "Europe/Bern", `--zone: unknown zone "Europe/Bern"; did you mean`},
		{"soon", "", `--at: "soon" is no time: want a time by RFC 3339`},
		{"tomorrow", "", "or a time of day, such as '2027-01-31 09:00', 'today 18:00', 'tomorrow 9:00' or 'monday 9:00'"},
		{"tomorrow 25:00", "", "is no time"},
		{"2027-02-30 09:00", "", "is no time"},
		{"mon 9:00", "", "is no time"},
		{"1999-01-01 09:00", "UTC", "before 2001"},
	} {
		if _, _, err := (&atFlags{c[0], c[1]}).readAt(now, local); !isUsage(err) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q: %v", c, err)
		}
	}
}
