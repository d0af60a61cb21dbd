package cli_test

import (
	"strings"
	"testing"
)

func TestACronFromCreateToDelete(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "report")
	create := []string{
		"cron", "create", "nightly", "--lambda", "report", "--schedule", "30 2 * * *", "--zone", "Europe/Berlin", "--payload", "at {{nominal}}",
		"--tag", "kind=night", "--catch-up", "all", "--catch-up-max", "5",
	}
	o := s.do(create...)
	o.check(t, "create", 0)
	for _, want := range []string{
		"name nightly", "zone Europe/Berlin", "state active", "overlap skip", "catch-up all, at most 5 of the last 24h",
		"tags kind=night", "payload 14 bytes", "T02:30:00+0", "created 20",
	} {
		if !strings.Contains(plain(o.stdout), want) {
			t.Errorf("no %q in\n%s", want, o.stdout)
		}
	}
	if o := s.do(create...); o.code != 1 || !strings.Contains(o.stderr, "cron nightly exists already, with these settings") {
		t.Errorf("again: %+v", o)
	}
	one := s.object("cron", "get", "nightly")
	if next, _ := one["next"].([]any); one["payload_text"] != "at {{nominal}}" || one["version"] != 1.0 || one["revision"] != 1.0 || one["catch_up_within"] != "24h" || len(next) != 5 || one["pause"] != nil {
		t.Errorf("%v", one)
	}

	changed := s.object("cron", "set", "nightly", "--schedule", "0 3 * * *", "--catch-up", "last", "--jitter", "90s", "--collection", "reports")
	if changed["schedule"] != "0 3 * * *" || changed["catch_up"] != "last" || changed["catch_up_max"] != nil || changed["jitter"] != "1m30s" || changed["payload_text"] != "at {{nominal}}" || changed["zone"] != "Europe/Berlin" || changed["revision"] != 2.0 {
		t.Errorf("%v", changed)
	}
	if changed = s.object("cron", "set", "nightly", "--end", "2100-01-01T00:00:00Z"); changed["end"] == nil || changed["schedule"] != "0 3 * * *" {
		t.Errorf("%v", changed)
	}
	if changed = s.object("cron", "set", "nightly", "--reset", "end,payload"); changed["end"] != nil || changed["payload"] != nil {
		t.Errorf("%v", changed)
	}

	if table := plain(s.must("cron", "list")); !strings.HasPrefix(table, "NAME LAMBDA SCHEDULE ZONE STATE NEXT") || !strings.Contains(table, "nightly report 0 3 * * * Europe/Berlin active 20") {
		t.Error(table)
	}
	if got := s.must("cron", "pause", "nightly", "--reason", "moving"); got != "paused" {
		t.Error(got)
	}
	if text := plain(s.must("cron", "get", "nightly")); !strings.Contains(text, "reason moving") || !strings.Contains(text, "paused by anonymous") || strings.Contains(text, "next") {
		t.Error(text)
	}
	if got := s.must("cron", "pause", "nightly", "--reason", "moving", "--for", "2h"); !strings.HasPrefix(got, "paused until 20") {
		t.Error(got)
	}
	id := s.must("cron", "run", "nightly")
	if ran := s.object("get", id); ran["lambda"] != "report" || ran["collection"] != "reports" {
		t.Errorf("%v", ran)
	}
	if got := s.must("cron", "resume", "nightly"); got != "active" {
		t.Error(got)
	}
	if all := s.objects("cron", "list", "--lambda", "report"); len(all) != 1 || all[0]["name"] != "nightly" {
		t.Errorf("%v", all)
	}
	if got := s.must("cron", "history", "nightly", "--limit", "3"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "(manual)") || !strings.Contains(got, id) {
		t.Error(got)
	}
	if got := s.must("cron", "delete", "nightly"); got != "deleted cron nightly" {
		t.Error(got)
	}
	if got := s.must("cron", "list"); got != "" {
		t.Error(got)
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

func TestRefusedCrons(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "report")
	s.must("cron", "create", "nightly", "--lambda", "report", "--schedule", "@daily")
	for line, want := range map[string]string{
		"create nightly --lambda report --schedule @hourly":                                                  "exists with other settings",
		"create a --lambda reprt --schedule @daily":                                                          "reprt",
		"create a --lambda report --schedule @dayly":                                                         "@dayly",
		"create a --lambda report --schedule @daily --zone Europe/Berln":                                     "Europe/Berlin",
		"create a --lambda report --schedule @daily --priority urgent":                                       "high, normal, low",
		"create a --lambda report --schedule @daily --catch-up-max 5":                                        "goes with all",
		"create a --lambda report --schedule @daily --start 2100-01-01T00:00:00Z --end 2099-01-01T00:00:00Z": "is not after the start",
		"create a --lambda report --schedule @daily --end 2020-01-01T00:00:00Z":                              "fires no more",
		"update none --schedule @daily":                                                                      "none",
		"show none":                                                                                          "there is no cron \"none\"",
		"run none":                                                                                           "none",
		"delete none":                                                                                        "none",
		"history none":                                                                                       "none",
	} {
		s.do(append([]string{"cron"}, strings.Fields(line)...)...).check(t, line, 1, want)
	}
}
