package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

// A result is as secret as a payload; that there is one is not.
func TestResultsAreForThoseWhoReadPayloads(t *testing.T) {
	grants := map[string][]string{"root": {"*:*"}, "reader": {"read:mail"}, "partner": {"read:mail", "read-payload:mail:c7"}}
	r := serve(t, Config{PolicyFile: policyFile(t, grants)})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`)
	answer, _ := r.callAs("root", kinesinv1connect.TaskServiceScheduleProcedure, `{"items":[{"lambda":"mail","collection":"c7"},{"lambda":"mail"}]}`)
	var scheduled struct{ Results []struct{ ID string } }
	if err := json.Unmarshal([]byte(answer), &scheduled); err != nil || len(scheduled.Results) != 2 {
		t.Fatal(answer)
	}
	answer, _ = r.callAs("root", kinesinv1connect.WorkerServiceRegisterProcedure, `{"groups":[{"lambdas":["mail"],"slots":2}]}`)
	var lease struct{ Worker string }
	_ = json.Unmarshal([]byte(answer), &lease)
	for done := 0; done < 2; {
		answer, _ = r.callAs("root", kinesinv1connect.WorkerServiceClaimProcedure, fmt.Sprintf(`{"worker":%q,"lambdas":["mail"],"limit":2,"wait":"5s"}`, lease.Worker))
		var claimed struct{ Tasks []struct{ Claim string } }
		if err := json.Unmarshal([]byte(answer), &claimed); err != nil || len(claimed.Tasks) == 0 {
			t.Fatal(answer)
		}
		for _, c := range claimed.Tasks {
			r.callAs("root", kinesinv1connect.WorkerServiceSetResultsProcedure,
				fmt.Sprintf(`{"worker":%q,"results":[{"claim":%q,"outcome":"success","result_text":"secret"}]}`, lease.Worker, c.Claim))
			done++
		}
	}
	ids := fmt.Sprintf(`{"ids":[%q,%q]}`, scheduled.Results[0].ID, scheduled.Results[1].ID)
	for _, procedure := range []string{kinesinv1connect.TaskServiceGetProcedure, kinesinv1connect.TaskServiceWaitProcedure, kinesinv1connect.TaskServiceListProcedure} {
		for name, want := range map[string]int{"root": 2, "reader": 0, "partner": 1} {
			body := ids
			if procedure == kinesinv1connect.TaskServiceListProcedure {
				body, want = `{"lambda":"mail"}`, 0
			}
			answer, code := r.callAs(name, procedure, body)
			if got := strings.Count(answer, `"result_text":"secret"`); code != "" || got != want || strings.Count(answer, `"result_bytes":6`) != 2 {
				t.Errorf("%s as %s: %d results, want %d, and their sizes: %s", procedure, name, got, want, answer)
			}
		}
	}
}
