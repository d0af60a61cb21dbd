package cli

import (
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func TestWhatHasEndedDoesNotRunAlone(t *testing.T) {
	for want, task := range map[string]*kinesinv1.Task{
		"enqueued, suspected of killing its worker: runs alone": {State: "enqueued", Suspect: true},
		"dead, suspected of killing its worker":                 {State: "dead", Suspect: true, Ended: 1},
	} {
		if got := taskStateText(task); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
