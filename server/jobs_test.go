package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

// A job is known to whoever made it, and to admins of everything.
func TestWhoSeesAJob(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{
		"root": {"*:*"}, "ann": {"read:mail", "cancel:mail"}, "bob": {"read:*", "cancel:*"}, "reader": {"read:*"},
	})})
	for _, lambda := range []string{"mail", "pay"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"lambda":{"name":"`+lambda+`"}}`)
		r.later("root", lambda, "")
	}
	create := kinesinv1connect.JobServiceCreateJobProcedure
	for body, who := range map[string]string{
		`{"action":"cancel","where":"lambda=pay"}`:   "ann",    // she may not read it
		`{"action":"cancel","where":"lambda=mail"}`:  "reader", // may not cancel
		`{"action":"redrive","where":"lambda=mail"}`: "bob",    // may not operate
	} {
		if answer, code := r.callAs(who, create, body); code != "permission_denied" {
			t.Errorf("%s as %s: %s", body, who, answer)
		}
	}
	answer, code := r.callAs("ann", create, `{"action":"cancel","all":true,"pace":1}`)
	var made struct {
		Job struct{ ID, CreatedBy string }
	}
	if err := json.Unmarshal([]byte(answer), &made); err != nil || code != "" || made.Job.CreatedBy != "ann" {
		t.Fatal(answer)
	}
	id := `{"id":"` + made.Job.ID + `"`
	for who, sees := range map[string]bool{"ann": true, "root": true, "bob": false, "reader": false} {
		if answer, code := r.callAs(who, kinesinv1connect.JobServiceGetJobProcedure, id+`}`); (code == "") != sees || !sees && code != "not_found" {
			t.Errorf("get as %s: %s", who, answer)
		}
		if answer, _ := r.callAs(who, kinesinv1connect.JobServiceListJobsProcedure, `{}`); strings.Contains(answer, made.Job.ID) != sees {
			t.Errorf("list as %s: %s", who, answer)
		}
		if answer, code := r.callAs(who, kinesinv1connect.JobServiceControlJobProcedure, id+`,"action":"burn"}`); sees && code != "invalid_argument" || !sees && code != "not_found" {
			t.Errorf("control as %s: %s", who, answer)
		}
	}
}

// What a caller may not read is not in a set, and a set of nothing else is refused.
func TestWhoCountsWhat(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}, "ann": {"read:mail:seven"}})})
	for _, lambda := range []string{"mail", "pay"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"lambda":{"name":"`+lambda+`"}}`)
		r.later("root", lambda, "")
		r.later("root", lambda, "seven")
	}
	count := kinesinv1connect.TaskServiceCountProcedure
	for body, want := range map[string]string{`{}`: `"count":"1"`, `{"where":"not collection=seven"}`: `"exact":true`, `{"where":"lambda=pay"}`: "permission_denied"} {
		if answer, _ := r.callAs("ann", count, body); !strings.Contains(answer, want) {
			t.Errorf("%s: %s", body, answer)
		}
	}
	if answer, _ := r.callAs("root", count, `{}`); !strings.Contains(answer, `"count":"4"`) {
		t.Error(answer)
	}
	if answer, _ := r.callAs("ann", kinesinv1connect.TaskServiceStatsProcedure, `{}`); strings.Contains(answer, "mail") {
		t.Errorf("statistics of a lambda of which only a collection may be read: %s", answer)
	}
}
