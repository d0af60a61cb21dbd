package sdk_test

import (
	"testing"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// TestStatesAreThoseOfTheServer compares the states with package task, which the server uses.
func TestStatesAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	public := map[sdk.State]bool{sdk.StateAccepted: false}
	for _, s := range []sdk.State{
		sdk.StateScheduled, sdk.StateEnqueued, sdk.StateClaimed, sdk.StateProcessing, sdk.StateRetriableFailure, sdk.StateSuccess,
		sdk.StateFatalFailure, sdk.StateDead, sdk.StateCancelled, sdk.StateDropped, sdk.StateAcquired, sdk.StateDelivered, sdk.StateExpired,
	} {
		public[s] = true
	}
	for _, s := range task.States() {
		if p := sdk.State(s.String()); !public[p] || p.IsEnd() != s.IsEnd() {
			t.Errorf("%s: declared %v, an end %v, want %v", p, public[p], p.IsEnd(), s.IsEnd())
		}
		delete(public, sdk.State(s.String()))
	}
	if len(public) != 1 || sdk.StateAccepted != sdk.State(task.Accepted.String()) {
		t.Errorf("the server does not have %v", public)
	}
}

// TestOutcomesAreThoseOfTheServer does the same for outcomes.
func TestOutcomesAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	for server, public := range map[task.Outcome]sdk.Outcome{
		task.OutcomeSuccess: sdk.OutcomeSuccess, task.OutcomeRetriable: sdk.OutcomeRetriableFailure, task.OutcomeFatal: sdk.OutcomeFatalFailure,
		task.OutcomeSnoozed: sdk.OutcomeSnoozed, task.OutcomeReleased: sdk.OutcomeReleased, task.OutcomeCancelled: sdk.OutcomeCancelled,
		task.OutcomeWorkerLost: sdk.OutcomeWorkerLost, task.OutcomeUnstarted: sdk.OutcomeUnstarted,
		task.OutcomeDropped: sdk.OutcomeDropped,
	} {
		if server.String() != public.String() {
			t.Errorf("the server says %s, the SDK %s", server, public)
		}
	}
}
