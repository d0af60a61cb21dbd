package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestCronPreview(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"--zone Europe/Berlin --from 2026-03-28T12:00:00Z --count 2":                          {"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		"--zone Europe/Berlin --from 2026-03-28T12:00:00Z --count 1 --gap skip":               {"2026-03-30T02:30:00+02:00"},
		"--zone Europe/Berlin --from 2026-10-25T00:00:00Z --count 2":                          {"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		"--zone Europe/Berlin --from 2026-10-25T00:00:00Z --count 2 --fold both":              {"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"},
		"--from 2026-10-25T02:30:00Z --count 1":                                               {"2026-10-26T02:30:00Z"},
		"--from 2026-01-01T00:00:00Z --start 2026-10-25T02:30:00Z --end 2026-10-26T02:30:00Z": {"2026-10-25T02:30:00Z"},
		"--from 2027-01-01T00:00:00Z --end 2026-10-26T02:30:00Z":                              {},
	} {
		checkPreview(t, "30 2 * * *", line, want...)
	}
	// An RRULE without a start begins with --from.
	checkPreview(t, "FREQ=DAILY;COUNT=2", "--zone Asia/Tokyo --from 2026-10-25T00:00:00Z", "2026-10-25T09:00:00+09:00", "2026-10-26T09:00:00+09:00")
	checkPreview(t, "FREQ=DAILY", "--from 2026-10-25T00:00:00Z --start 2026-10-30T00:00:00Z --count 1", "2026-10-30T00:00:00Z")
	// H depends on the name alone.
	checkPreview(t, "H * * * *", "--name report --from 2026-10-25T00:00:00Z --count 1", "2026-10-25T00:02:00Z")
}

func checkPreview(t *testing.T, expression, line string, want ...string) {
	t.Helper()
	o := run(t.Context(), nil, "", append([]string{"cron", "preview", expression, "-o", "json"}, strings.Fields(line)...)...)
	o.check(t, line, 0)
	var got []string
	if err := json.Unmarshal([]byte(o.stdout), &got); err != nil || got == nil || !slices.Equal(got, want) {
		t.Errorf("%q %s: %v, got %s, want %v", expression, line, err, o.stdout, want)
	}
}

func TestCronPreviewAsText(t *testing.T) {
	t.Parallel()
	o := run(t.Context(), nil, "", "cron", "preview", "0 12 * * *", "--zone", "America/New_York", "--from", "2026-03-07T00:00:00Z", "--count", "3")
	o.check(t, "text", 0, "zone America/New_York of the tz database 20")
	want := []string{
		"TIME DAY ZONE CLOCK CHANGE", "2026-03-07T12:00:00-05:00 Sat EST",
		"2026-03-08T12:00:00-04:00 Sun EDT +1h since the line before", "2026-03-09T12:00:00-04:00 Mon EDT",
	}
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q\nwant %q", lines, want)
	}
}

func TestCronPreviewSaysWhatMayNotBeMeant(t *testing.T) {
	t.Parallel()
	const from = "--from=2026-01-01T00:00:00Z"
	run(t.Context(), nil, "", "cron", "preview", "*/10 * * * * *", from, "--count", "1").check(t, "six fields", 0,
		"six fields, so the first is seconds; it fires next at 2026-01-01T00:00:10Z, 2026-01-01T00:00:20Z, 2026-01-01T00:00:30Z;")
	run(t.Context(), nil, "", "cron", "preview", "H * * * *", from).check(t, "H", 0, "H depends on the name")
	run(t.Context(), nil, "", "cron", "preview", "@daily", from, "--end", "2026-01-02T12:00:00Z").check(t, "end", 0, "it fires 1 times after 2026-01-01T00:00:00Z, and then no more")
	for _, bad := range [][]string{
		{"EXPR in quotes is missing"},
		{`"*" is one argument too many: want one EXPR in quotes`, "0", "*"},
		{"never fires: there is no date", "0 0 30 2 *"},
		{`unknown zone "Europe/Berln"; did you mean Europe/Berlin?`, "@daily", "--zone", "Europe/Berln"},
		{"is not after the start", "@daily", "--start", "2026-01-02T00:00:00Z", "--end", "2026-01-01T00:00:00Z"},
		{"fires more than once a second", "@every 100ms"},
		{"want a time by RFC 3339", "@daily", "--from", "tomorrow"},
		{"out of range: want 1 to 10000", "@daily", "--count", "0"},
		{`"second" is unknown: want first or both`, "@daily", "--fold", "second"},
	} {
		run(t.Context(), nil, "", append([]string{"cron", "preview"}, bad[1:]...)...).check(t, bad[0], 2, bad[0])
	}
}

// plain returns a table with one space between its columns.
func plain(table string) string {
	lines := strings.Split(table, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

func TestSixFieldsShowWhenTheyFire(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "report")
	o := s.do("cron", "create", "often", "--lambda", "report", "--schedule", "0 */10 * * * *", "--zone", "Asia/Tokyo")
	o.check(t, "create", 0, "cron often fires first at 20")
	o.check(t, "create", 0, "the expression has six fields, so the first is seconds; it fires next at 20", "+09:00, 20", "leave out the first field")
	s.do("cron", "set", "often", "--schedule", "*/10 * * * *").check(t, "five fields", 0)
	s.do("cron", "set", "often", "--schedule", "0 */5 * * * *").check(t, "six again", 0, "six fields")
	if set := s.object("cron", "set", "often", "--tag", "kind=night", "--collection", "tokyo"); set["tags"] == nil || set["collection"] != "tokyo" {
		t.Errorf("%v", set)
	}
	s.do("cron", "set", "often", "--reset", "zone", "--zone", "Europe/Paris").check(t, "both", 2, "zone is to be reset and has a value")
	if unset := s.object("cron", "set", "often", "--reset", "tags,collection"); unset["tags"] != nil || unset["collection"] != nil {
		t.Errorf("%v", unset)
	}
}
