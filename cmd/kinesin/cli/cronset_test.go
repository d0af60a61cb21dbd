package cli_test

import (
	"strings"
	"testing"
)

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
