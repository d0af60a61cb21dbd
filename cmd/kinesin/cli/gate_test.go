package cli_test

import (
	"strings"
	"testing"
)

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
