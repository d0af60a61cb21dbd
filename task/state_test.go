package task_test

import (
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

func TestStatesSurviveTheirTexts(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range task.States() {
		if got, err := task.ParseState(s.String()); err != nil || got != s || seen[s.String()] {
			t.Errorf("%q reads as %v, %v", s, got, err)
		}
		seen[s.String()] = true
	}
	if len(seen) != 13 {
		t.Errorf("%d states, want 13", len(seen))
	}
	for _, text := range []string{"", "unknown", "accepted", "Success", "success ", "state(99)"} {
		_, err := task.ParseState(text)
		if err == nil || !strings.Contains(err.Error(), "want one of scheduled, enqueued, claimed") {
			t.Errorf("state %q: %v, want an error that says what there is", text, err)
		}
	}
	if task.State(99).String() != "state(99)" || task.Outcome(99).String() != "outcome(99)" || task.EventKind(99).String() != "event(99)" {
		t.Error("no text for what is out of range")
	}
}

func TestEndsAndRunningStates(t *testing.T) {
	ends := map[task.State]bool{
		task.Success: true, task.FatalFailure: true, task.Dead: true, task.Cancelled: true, task.Dropped: true,
		task.Delivered: true, task.Expired: true,
	}
	const reserved = task.Dropped + 1
	running := map[task.State]bool{task.Claimed: true, task.Processing: true}
	for s := range task.State(20) {
		if stored := s >= task.Scheduled && s <= task.Expired && s != reserved; s.IsStored() != stored {
			t.Errorf("%s: stored %v", s, s.IsStored())
		}
		if s.IsEnd() != ends[s] || s.IsRunning() != running[s] {
			t.Errorf("%s: end %v, running %v", s, s.IsEnd(), s.IsRunning())
		}
		for next := range task.State(20) {
			if s.CanBecome(next) && (ends[s] && next != task.Scheduled || next < task.Scheduled || s < task.Scheduled) {
				t.Errorf("%s can become %s", s, next)
			}
		}
	}
}
