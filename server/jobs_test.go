package server

import (
	"encoding/json"
	"fmt"
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
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"`+lambda+`"}`)
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
		Job struct {
			ID        string
			CreatedBy string `json:"created_by"`
		}
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

// Tasks that a caller may not read are not in a set, and a set of nothing else is refused.
func TestWhoCountsWhat(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}, "ann": {"read:mail:seven"}})})
	for _, lambda := range []string{"mail", "pay"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"`+lambda+`"}`)
		r.later("root", lambda, "")
		r.later("root", lambda, "seven")
	}
	count := kinesinv1connect.TaskServiceCountProcedure
	for body, want := range map[string]string{`{}`: `"count":1`, `{"where":"not collection=seven"}`: `"exact":true`, `{"where":"lambda=pay"}`: "permission_denied"} {
		if answer, _ := r.callAs("ann", count, body); !strings.Contains(answer, want) {
			t.Errorf("%s: %s", body, answer)
		}
	}
	if answer, _ := r.callAs("root", count, `{}`); !strings.Contains(answer, `"count":4`) {
		t.Error(answer)
	}
	if answer, _ := r.callAs("ann", kinesinv1connect.TaskServiceStatsProcedure, `{}`); strings.Contains(answer, "mail") {
		t.Errorf("statistics of a lambda of which only a collection may be read: %s", answer)
	}
}

// A job does nothing any more when its maker may do nothing.
func TestAJobEndsWithItsMaker(t *testing.T) {
	t.Parallel()
	grants := map[string][]string{"root": {"*:*"}, "gone": {"read:mail", "cancel:mail"}}
	path := policyFile(t, grants)
	r := serve(t, Config{PolicyFile: path})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`)
	const tasks = 60
	for range tasks {
		r.later("root", "mail", "")
	}
	answer, code := r.callAs("root", kinesinv1connect.AccessServiceCreateTokenProcedure, `{"name":"made","grants":["read:mail","cancel:mail"]}`)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || code != "" {
		t.Fatal(answer)
	}
	jobs := map[string]string{}
	for name, secret := range map[string]string{"made": made.Secret, "gone": secretOf("gone")} {
		answer, code := r.callWith(secret, kinesinv1connect.JobServiceCreateJobProcedure, `{"action":"cancel","all":true,"pace":1}`)
		var got struct{ Job struct{ ID string } }
		if err := json.Unmarshal([]byte(answer), &got); err != nil || code != "" {
			t.Fatal(answer)
		}
		jobs[name] = got.Job.ID
	}
	if answer, code := r.callAs("root", kinesinv1connect.AccessServiceRevokeTokenProcedure, `{"name":"made"}`); code != "" {
		t.Fatal(answer)
	}
	delete(grants, "gone")
	writeFile(t, path, policyText(grants))
	for name, want := range map[string]string{"made": "permission denied: revoked token", "gone": "permission denied: there is no identity gone any more"} {
		answer := ""
		r.until("the job of "+name+" ends", func() bool {
			answer, _ = r.callAs("root", kinesinv1connect.JobServiceGetJobProcedure, `{"id":"`+jobs[name]+`"}`)
			return strings.Contains(answer, `"state":"failed"`)
		})
		if !strings.Contains(answer, want) {
			t.Errorf("%s: %s", name, answer)
		}
		r.until("the end is recorded", func() bool {
			records, _ := r.callAs("root", kinesinv1connect.AccessServiceListAuditProcedure, `{"limit":1000}`)
			return strings.Contains(records, `"target":"`+jobs[name]+`"`) && strings.Contains(records, "failed: "+want)
		})
	}
	if answer, _ := r.callAs("root", kinesinv1connect.TaskServiceCountProcedure, `{"where":"state=cancelled"}`); strings.Contains(answer, fmt.Sprintf("%q", fmt.Sprint(tasks))) {
		t.Errorf("all tasks were cancelled: %s", answer)
	}
}
