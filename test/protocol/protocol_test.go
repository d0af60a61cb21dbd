package protocol_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/protocol"
)

// scenarios are those of the test; KINESIN_MODEL_LONG=1 searches with more crashes and more processes, for
// minutes.
func scenarios() []protocol.Scenario {
	return protocol.Scenarios(os.Getenv("KINESIN_MODEL_LONG") != "")
}

// TestProtocol searches every scenario with all rules on: its first states, or all of them with KINESIN_LONG.
func TestProtocol(t *testing.T) {
	states, enough := 0, 20_000
	if os.Getenv("KINESIN_LONG") != "" {
		enough = 0
	}
	for _, s := range scenarios() {
		r := protocol.SearchFirst(s, protocol.Protocol, enough)
		states += r.States
		t.Logf("%8d states, %8d steps: %s", r.States, r.Steps, s.Name)
		if r.Broken != protocol.NoProperty {
			t.Errorf("%s: %s\n%s", s.Name, r.Broken, strings.Join(r.Trace, "\n"))
		}
	}
	t.Logf("%8d states", states)
}

func scenario(t *testing.T, prefix string) protocol.Scenario {
	t.Helper()
	all := protocol.Scenarios(false)
	i := slices.IndexFunc(all, func(s protocol.Scenario) bool { return strings.HasPrefix(s.Name, prefix) })
	if i < 0 {
		t.Fatalf("no scenario %q", prefix)
	}
	return all[i]
}

// TestWithoutRule leaves out one rule at a time: each of them prevents something.
func TestWithoutRule(t *testing.T) {
	tests := []struct {
		rule     protocol.Rule
		scenario string
		breaks   protocol.Property
	}{
		{protocol.LiveProtects, "buffer", protocol.NoWakeup},
		{protocol.HigherIsToCome, "moves: there", protocol.NoWakeup},
		{protocol.PutMustBeSeen, "moves: there", protocol.NoWakeup},
		{protocol.NamesPlace, "shards: a key", protocol.NeverEnds},
		{protocol.PutReplacesLower, "moves: a repeated", protocol.NoWakeup},
		{protocol.DeleteBySeq, "moves: a repeated", protocol.NoWakeup},
		{protocol.CarriesSeq, "retry: within moments, hsc where", protocol.NoWakeup},
		{protocol.FreshLife, "key: taken again", protocol.NoWakeup},
		{protocol.AbsentFires, "dispatch", protocol.Loss},
		{protocol.BareAbsentGoes, "embedded", protocol.Leftover},
		{protocol.FirstHoldsTask, "near", protocol.NoWakeup},
		{protocol.EndedStays, "repeated", protocol.StartAfterEnd},
		{protocol.SweepInOne, "embedded", protocol.StartAfterEnd},
		{protocol.OldIsSetAside, "key: a call that was refused", protocol.StartAfterRefusal},
		{protocol.DoubtfulIsSetAside, "gap: all", protocol.StartAfterEnd},
		{protocol.DoubtfulIsSetAside, "gap: the same", protocol.StartAfterEnd},
		{protocol.WakeupFirst, "near", protocol.NoWakeup},
		{protocol.AnswerAfterBoth, "key: three calls", protocol.Loss},
		{protocol.HalfIsUnknown, "near", protocol.StartAfterRefusal},
		{protocol.SendAfterRow, "retry: within moments, hsc where", protocol.Late},
		{protocol.KeyReadsFirst, "key: a call that was refused", protocol.NoWakeup},
		{protocol.KnowsRequest, "key: used again as soon", protocol.StartAfterEnd},
		{protocol.RowThenTask, "cancel", protocol.FalseAnswer},
		{protocol.InPlaceIfFired, "retry: within moments, hsc where", protocol.Late},
		{protocol.LostIsReadAgain, "retry: within moments, hsc with", protocol.Late},
		{protocol.NamesDispatcher, "take-over", protocol.Late},
		{protocol.LeaseFirst, "dispatch", protocol.TwoAttempts},
		{protocol.PutBackBySeq, "gate: a task", protocol.TwoAttempts},
		{protocol.NewLifeIsToCome, "key: used again for", protocol.NoWakeup},
		{protocol.CountOfID, "shards: a deliver", protocol.Twice},
		{protocol.CountOfID, "shards: a call", protocol.FalseAnswer},
		{protocol.FollowupsFirst, "follow-up: a worker", protocol.NotFollowed},
		{protocol.LeftoverCompletes, "follow-up: a worker", protocol.NotFollowed},
		{protocol.EndedStays, "follow-up: a worker", protocol.StartedTwice},
	}
	told := map[protocol.Rule]bool{}
	for _, tt := range tests {
		told[tt.rule] = true
		t.Run(tt.rule.String(), func(t *testing.T) {
			s := scenario(t, tt.scenario)
			s.Only = tt.breaks
			r := protocol.Search(s, protocol.Protocol.Without(tt.rule))
			if r.Broken != tt.breaks {
				t.Errorf("%s: broken is %s, want %s", s.Name, r.Broken, tt.breaks)
			}
			t.Logf("%s: %s\n%s", s.Name, r.Broken, strings.Join(r.Trace, "\n"))
		})
	}
	for r := range protocol.RulesEnd {
		if !told[r] {
			t.Errorf("rule %q is never left out", r)
		}
	}
}

// TestAsFirstWritten keeps the traces that led to the rules which the first draft of the protocol did not
// have.
func TestAsFirstWritten(t *testing.T) {
	draft := protocol.Protocol.Without(
		protocol.NamesPlace, protocol.FreshLife, protocol.BareAbsentGoes, protocol.OldIsSetAside, protocol.KeyReadsFirst)
	broken := map[string]protocol.Property{
		"key: taken again": protocol.NoWakeup,
		"key: moved":       protocol.NoWakeup,
		"embedded":         protocol.Leftover,
	}
	for prefix, want := range broken {
		s := scenario(t, prefix)
		if r := protocol.Search(s, draft); r.Broken != want {
			t.Errorf("%s: broken is %s, want %s", s.Name, r.Broken, want)
		}
	}
}
