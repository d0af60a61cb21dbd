package cli

import (
	"testing"

	"github.com/kinesin-io/kinesin/sdk"
)

func TestWhatHasEndedDoesNotRunAlone(t *testing.T) {
	for want, o := range map[string]taskObject{
		"enqueued, suspected of killing its worker: runs alone": {State: sdk.StateEnqueued, Suspect: true},
		"dead, suspected of killing its worker":                 {State: sdk.StateDead, Suspect: true, Ended: "2027-01-31T09:00:00Z"},
	} {
		if got := o.stateText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
