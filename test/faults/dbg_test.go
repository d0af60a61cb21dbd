package faults_test

import (
	"testing"

	"github.com/kinesin-io/kinesin/sdk"
)

func dbg(t *testing.T, infos []sdk.TaskInfo) {
	for _, i := range infos {
		t.Logf("%s %s attempt %d failures %d lost %d", i.ID[len(i.ID)-4:], i.State, i.Attempt, i.Failures, i.WorkerLost)
		for _, a := range i.Attempts {
			t.Logf("   %d %s %s %s..%s %s", a.Number, a.Worker, a.Outcome, a.Start.Format("05.000"), a.End.Format("05.000"), a.Error)
		}
	}
}
