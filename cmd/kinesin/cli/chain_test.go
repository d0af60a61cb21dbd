package cli_test

import (
	"strings"
	"testing"
)

// A chain is scheduled, shown, paused, resumed and cancelled, and its tasks say where in it they are.
func TestAChainFromScheduleToItsEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "charge")
	s.must("lambda", "create", "ship")
	s.must("lambda", "create", "refund")
	scheduled := s.doWith(`{"then":[{"lambda":"ship","in":"1h"}],"else":[{"lambda":"refund"}]}`,
		"schedule", "charge", "--in", "1h", "--then", "-")
	scheduled.check(t, "schedule", 0)
	id := strings.TrimSpace(scheduled.stdout)
	s.doWith(`[{"lambda":"nope"}]`, "schedule", "charge", "--then", "-").check(t, "unknown", 1, `then[0]`, `unknown lambda "nope"`)
	shown := s.object("chain", "show", id)
	root, _ := shown["root"].(map[string]any)
	followups, _ := root["followups"].([]any)
	if shown["state"] != "live" || root["id"] != id || len(followups) != 2 {
		t.Errorf("%v", shown)
	}
	s.must("chain", "pause", id)
	if s.object("chain", "show", id)["state"] != "paused" {
		t.Error("not paused")
	}
	s.must("chain", "resume", id)
	s.must("chain", "cancel", id)
	s.do("wait", id).check(t, "wait", 1)
	for _, want := range []string{"digraph", "refund"} {
		if got := s.must("chain", "show", id, "-o", "dot"); !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	first := s.object("get", id)
	if link, _ := first["chain"].(map[string]any); link["root"] != id || link["followups"] != 2.0 || first["state"] != "cancelled" {
		t.Errorf("%v", first)
	}
}
