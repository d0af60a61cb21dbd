package cli_test

import (
	"strings"
	"testing"
)

func TestAGateFromDryRunToEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	due, later := s.must("schedule", "mail", "--tag", "tenant=acme"), s.must("schedule", "mail", "--in", "30m", "--tag", "tenant=acme")
	s.must("schedule", "mail", "--in", "40m")

	pause := []string{"gate", "pause", "mail", "--tag", "tenant=acme", "--reason", "db maintenance", "--for", "2h"}
	if got := s.must(append(pause, "--dry-run")...); got != "would hold 1 tasks now and 1 more within an hour" {
		t.Error(got)
	}
	would := s.object(append(pause, "--dry-run")...)
	counts, _ := would["counts"].(map[string]any)
	if would["id"] != nil || counts["now"] != 1.0 || counts["next_hour"] != 1.0 || counts["exact"] != true || counts["sent"] != 0.0 {
		t.Errorf("%v", would)
	}
	if got := s.must("gate", "list"); got != "" {
		t.Errorf("a dry run has set a gate: %s", got)
	}

	if o := s.do(pause...); o.code != 0 || o.stdout != "1\n" || o.stderr != "" {
		t.Fatalf("%+v", o)
	}
	o := s.do("gate", "drop", "mail", "--collection", "nobody", "--reason", "bad batch")
	if o.check(t, "drop", 0, "it overlaps with gate 1", "no live task of lambda mail has collection nobody"); o.stdout != "2\n" {
		t.Errorf("%+v", o)
	}
	if g := s.object("gate", "get", "1"); g["reason"] != "db maintenance" || g["state"] != "active" || g["owner"] != "anonymous" || g["tag"] != "tenant=acme" || g["until"] == nil {
		t.Errorf("%v", g)
	}
	if text := s.must("gate", "get", "1"); !strings.Contains(text, "holds 1 tasks now and 1 more within an hour") || !strings.Contains(text, "mail, tag tenant=acme") {
		t.Error(text)
	}
	for _, id := range []string{due, later} {
		waits, _ := s.object("get", id)["waits_for"].(map[string]any)
		if text, _ := waits["text"].(string); waits["reason"] != "gate" || waits["gate"] != "1" || waits["until"] == nil || !strings.HasPrefix(text, `gate 1 "db maintenance" until `) {
			t.Errorf("%v", waits)
		}
		if text := s.must("get", id); !strings.Contains(text, `waits for     gate 1 "db maintenance" until `) {
			t.Error(text)
		}
	}
	if all := s.objects("gate", "list", "mail"); len(all) != 2 || all[0]["id"] != "2" || all[1]["id"] != "1" || all[0]["counts"] != nil {
		t.Errorf("%v", all)
	}
	if table := s.must("gate", "list"); !strings.Contains(table, "mail, collection nobody") || !strings.HasPrefix(table, "ID  ACTION") {
		t.Error(table)
	}

	if got := s.must("gate", "resume", "1", "--pace", "1"); got != "resuming" {
		t.Error(got)
	}
	if got := s.must("gate", "list"); !strings.Contains(got, "resuming at 1/s") {
		t.Error(got)
	}
	if got := s.must("gate", "resume", "1"); got != "ended" {
		t.Error(got)
	}
	if o := s.do("gate", "resume", "1"); o.code != 0 || o.stdout != "ended\n" || !strings.Contains(o.stderr, "had ended before") {
		t.Errorf("again: %+v", o)
	}
	if waits, _ := s.object("get", due)["waits_for"].(map[string]any); waits["reason"] != "no worker" || waits["gate"] != nil {
		t.Errorf("after the gate: %v", waits)
	}
	if all := s.objects("gate", "list", "--ended"); len(all) != 2 || all[1]["ended_by"] != "anonymous" || all[1]["ended"] == nil {
		t.Errorf("%v", all)
	}
}

func TestRefusedGates(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	s.must("gate", "drop", "mail", "--reason", "x")
	for line, says := range map[string]string{
		"gate pause nail --reason x":                   `unknown lambda "nail"`,
		"gate pause mail --reason x --priority urgent": "invalid priority \"urgent\": lambda mail has high, normal, low",
		"gate resume 7":                                "no gate 7",
		"gate resume mail":                             "an id is a number",
		"gate get 7":                                   "no gate 7",
		"gate resume 1 --pace 5":                       "drops tasks",
		"gate list nail":                               `unknown lambda "nail"`,
	} {
		s.do(strings.Fields(line)...).check(t, line, 1, says)
	}
	s.do("gate", "pause", "mail", "--reason", "two\nlines").check(t, "two lines", 1, "on one line")
	s.do("gate", "resume", "1", "--pace", "1.5").check(t, "half a task", 2, `"1.5" is not a whole number`)
}

func TestAGateSaysUntilWhenItCounts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	s.must("schedule", "mail")
	s.must("schedule", "mail", "--in", "30m")
	for expiry, want := range map[string]string{
		"10m": "would drop 1 tasks now and 0 more before it ends",
		"2h":  "would drop 1 tasks now and 1 more within an hour",
	} {
		if got := s.must("gate", "drop", "mail", "--reason", "x", "--for", expiry, "--dry-run"); got != want {
			t.Errorf("for %s: %s", expiry, got)
		}
	}
	s.must("gate", "pause", "mail", "--reason", "x")
	s.must("gate", "pause", "mail", "--reason", "x", "--priority", "low")
	o := s.do("gate", "drop", "mail", "--reason", "x", "--tag", "a=b", "--dry-run")
	o.check(t, "overlap", 0, "it overlaps with gates 1, 2: all", "the gate drops those that come")
	s.must("gate", "resume", "1", "--pace", "1")
	text := s.must("gate", "get", "1")
	if !strings.Contains(text, "resumed by  anonymous") || strings.Contains(text, "ended by") || strings.Contains(text, "more") {
		t.Error(text)
	}
	s.must("gate", "resume", "1")
	if text := s.must("gate", "get", "1"); !strings.Contains(text, "ended by") {
		t.Error(text)
	}
}
