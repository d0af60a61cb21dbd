package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

const (
	setCron      = kinesinv1connect.CronServiceSetCronProcedure
	getCron      = kinesinv1connect.CronServiceGetCronProcedure
	pauseCron    = kinesinv1connect.CronServicePauseCronProcedure
	runCron      = kinesinv1connect.CronServiceRunCronProcedure
	backfillCron = kinesinv1connect.CronServiceBackfillCronProcedure
	deleteCron   = kinesinv1connect.CronServiceDeleteCronProcedure
)

// A cron is shown to who may read its lambda, and changed by who may operate it. To set one and to run it
// takes the right to schedule as well, and its payload that to read payloads.
func TestWhoMaySetACron(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{
		"root": {"*:*"}, "ops": {"operate:mail", "read:mail", "schedule:mail"}, "seven": {"operate:mail", "schedule:mail:seven"},
		"pauser": {"operate:mail"}, "here": {"operate:mail", "read:mail", "schedule:mail:c1", "read-payload:mail:c1"},
		"both": {"operate:mail", "read:mail", "schedule:mail", "read-payload:mail:c1"}, "blind": {"operate:mail", "schedule:mail:c1", "read:mail:c1"}, "reader": {"read:mail"}, "other": {"*:pay"},
	})})
	for _, lambda := range []string{"mail", "pay"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"`+lambda+`"}`)
	}
	whole, part := `{"name":"all","lambda":"mail","schedule":"@daily","payload_text":"secret"}`, `{"name":"part","lambda":"mail","collection":"seven","schedule":"@daily"}`
	for _, c := range []struct {
		who, body string
		may       bool
	}{
		{"reader", whole, false}, {"pauser", whole, false}, {"other", whole, false}, {"seven", whole, false}, {"seven", part, true}, {"ops", whole, true},
	} {
		if answer, code := r.callAs(c.who, setCron, c.body); (code == "") != c.may || !c.may && code != "permission_denied" {
			t.Errorf("set of %s as %s: %s", c.body, c.who, answer)
		}
	}
	for who, sees := range map[string]bool{"root": true, "ops": true, "seven": false, "reader": true, "pauser": false, "other": false} {
		for _, procedure := range []string{getCron, kinesinv1connect.CronServiceCronHistoryProcedure} {
			answer, code := r.callAs(who, procedure, `{"name":"all"}`)
			if (code == "") != sees || !sees && code != "not_found" {
				t.Errorf("%s as %s: %s", procedure, who, answer)
			}
			if procedure == getCron && strings.Contains(answer, `"secret"`) != (who == "root") {
				t.Errorf("the payload as %s: %s", who, answer)
			}
		}
		if answer, _ := r.callAs(who, kinesinv1connect.CronServiceListCronsProcedure, `{}`); strings.Contains(answer, `"name":"all"`) != sees {
			t.Errorf("list as %s: %s", who, answer)
		}
	}
	// who may not read the payload changes other settings, and the payload stays
	if answer, code := r.callAs("ops", setCron, `{"name":"all","version":1,"lambda":"mail","schedule":"@hourly"}`); code != "" || strings.Contains(answer, `"secret"`) {
		t.Error(answer)
	}
	if answer, _ := r.callAs("root", getCron, `{"name":"all"}`); !strings.Contains(answer, `"secret"`) || !strings.Contains(answer, "@hourly") {
		t.Error(answer)
	}
	for _, c := range []struct{ who, procedure, name, code string }{
		{"reader", pauseCron, "all", "permission_denied"},
		{"other", pauseCron, "all", "not_found"},
		{"other", pauseCron, "none", "not_found"},
		{"pauser", pauseCron, "all", ""},
		{"pauser", runCron, "all", "permission_denied"},
		{"seven", runCron, "all", "permission_denied"},
		{"seven", runCron, "part", ""},
		{"ops", runCron, "all", ""},
		{"pauser", backfillCron, "all", "permission_denied"},
		{"reader", backfillCron, "all", "permission_denied"},
		{"other", backfillCron, "all", "not_found"},
		{"seven", backfillCron, "all", "permission_denied"},
		{"seven", backfillCron, "part", ""},
		{"ops", backfillCron, "all", ""},
		{"reader", deleteCron, "part", "permission_denied"},
		{"pauser", deleteCron, "part", ""},
	} {
		body := `{"name":"` + c.name + `"}`
		if c.procedure == pauseCron {
			body = `{"name":"` + c.name + `","reason":"x"}`
		}
		if c.procedure == backfillCron {
			body = `{"name":"` + c.name + `","from":"2023-11-14T22:13:20Z","to":"2023-11-16T02:00:00Z"}`
		}
		if answer, code := r.callAs(c.who, c.procedure, body); code != c.code {
			t.Errorf("%s of %s as %s: %s, want %q", c.procedure, c.name, c.who, answer, c.code)
		}
	}
	// a cron takes its payload along, so who may not read that does not move it to where he may, nor runs it there
	r.callAs("root", setCron, `{"name":"moving","lambda":"mail","collection":"c2","schedule":"@daily","payload_text":"secret"}`)
	to := func(collection, more string) string {
		return `{"name":"moving","version":1,"lambda":"mail","collection":"` + collection + `","schedule":"@daily"` + more
	}
	for _, c := range []struct{ who, body, code, says string }{
		{"here", to("c1", "") + "}", "permission_denied", "schedule on lambda mail in collection c2"},
		{"here", to("c1", "") + `,"dry_run":true}`, "permission_denied", "schedule on lambda mail in collection c2"},
		{"here", to("c1", `,"payload_text":"x"`) + "}", "permission_denied", "schedule on lambda mail in collection c2"},
		{"both", to("c1", "") + "}", "permission_denied", "read-payload on lambda mail in collection c2"},
		{"both", to("c1", "") + `,"dry_run":true}`, "permission_denied", "read-payload on lambda mail in collection c2"},
		{"both", to("c2", "") + `,"dry_run":true}`, "", `"collection":"c2"`},
		{"both", to("c1", `,"payload_text":"x"`) + `,"dry_run":true}`, "", `"payload_text":"x"`},
		{"blind", `{"name":"moving","lambda":"mail","collection":"c1","schedule":"@daily"}`, "already_exists", "cron moving exists, and you may not see it: want another name"},
	} {
		if answer, code := r.callAs(c.who, setCron, c.body); code != c.code || !strings.Contains(answer, c.says) || strings.Contains(answer, `"secret"`) {
			t.Errorf("set of %s as %s: %s %s, want %q", c.body, c.who, code, answer, c.says)
		}
	}
	// who may see neither learns not which of them there is
	hidden, _ := r.callAs("other", getCron, `{"name":"all"}`)
	if none, _ := r.callAs("other", getCron, `{"name":"none"}`); none != hidden {
		t.Errorf("%s and %s tell that there is a cron", hidden, none)
	}
}

func TestCronsAreAudited(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}, "reader": {"read:mail"}})})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`)
	cron := `{"name":"nightly","lambda":"mail","schedule":"@daily","payload_text":"secret"}`
	r.callAs("root", setCron, cron)
	r.callAs("root", setCron, cron) // it exists: nothing is done
	r.callAs("reader", pauseCron, `{"name":"nightly","reason":"x"}`)
	r.callAs("root", pauseCron, `{"name":"nightly","reason":"moving"}`)
	r.callAs("root", kinesinv1connect.CronServiceResumeCronProcedure, `{"name":"nightly"}`)
	r.callAs("root", runCron, `{"name":"nightly"}`)
	r.callAs("root", backfillCron, `{"name":"nightly","from":"2023-11-14T22:13:20Z","to":"2023-11-16T02:00:00Z","dry_run":true}`) // changes nothing
	r.callAs("root", backfillCron, `{"name":"nightly","from":"2023-11-14T22:13:20Z","to":"2023-11-16T02:00:00Z"}`)
	r.callAs("root", deleteCron, `{"name":"nightly"}`)
	acts := map[string]int{}
	for _, a := range r.audited() {
		if !strings.HasPrefix(a.Action, "cron.") {
			continue
		}
		acts[strings.Join([]string{a.Identity, a.Action, a.Target, a.Outcome}, " ")]++
		if strings.Contains(string(a.Before)+string(a.After), "payload") {
			t.Errorf("the log has a payload: %+v", a)
		}
		if a.Action == "cron.pause" && a.Outcome == "ok" && (!strings.Contains(string(a.After), `"moving"`) || !strings.Contains(string(a.Before), `"@daily"`)) {
			t.Errorf("%+v", a)
		}
	}
	want := map[string]int{
		"root cron.set nightly ok": 1, "reader cron.pause mail denied": 1, "root cron.pause nightly ok": 1, "root cron.resume nightly ok": 1,
		"root cron.run nightly ok": 1, "root cron.backfill nightly ok": 1, "root cron.delete nightly ok": 1,
	}
	if !maps.Equal(acts, want) {
		t.Errorf("recorded %v, want %v", acts, want)
	}
}

const (
	setGate    = kinesinv1connect.GateServiceSetGateProcedure
	resumeGate = kinesinv1connect.GateServiceResumeGateProcedure
)

// A gate is shown to who may read its lambda, and set and resumed by who may operate it. The tasks that it
// holds are counted as far as they may be read.
func TestWhoMaySetAGate(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{
		"root": {"*:*"}, "ops": {"operate:mail", "read:mail"}, "seven": {"read:mail:seven"}, "reader": {"read:mail"},
		"blind": {"operate:mail"}, "other": {"*:pay"},
	})})
	for _, lambda := range []string{"mail", "pay"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"`+lambda+`"}`)
	}
	r.later("root", "mail", "")
	r.later("root", "mail", "seven")
	whole, part := `{"action":"pause","lambda":"mail","reason":"x"}`, `{"action":"pause","lambda":"mail","collection":"seven","reason":"x"}`
	for who, may := range map[string]bool{"ops": true, "seven": false, "reader": false, "blind": true, "other": false} {
		for _, body := range []string{whole, part} {
			dry := strings.TrimSuffix(body, "}") + `,"dry_run":true}`
			if answer, code := r.callAs(who, setGate, dry); (code == "") != may || !may && code != "permission_denied" {
				t.Errorf("dry run of %s as %s: %s", body, who, answer)
			}
		}
	}
	for _, body := range []string{whole, part} {
		if answer, code := r.callAs("ops", setGate, body); code != "" {
			t.Fatal(answer)
		}
	}
	for who, sees := range map[string]bool{"root": true, "ops": true, "seven": true, "reader": true, "blind": false, "other": false} {
		answer, code := r.callAs(who, kinesinv1connect.GateServiceGetGateProcedure, `{"id":"1"}`)
		if (code == "") != sees || !sees && code != "not_found" {
			t.Errorf("get as %s: %s", who, answer)
		}
		if answer, _ := r.callAs(who, kinesinv1connect.GateServiceListGatesProcedure, `{}`); strings.Contains(answer, `"id":"2"`) != sees {
			t.Errorf("list as %s: %s", who, answer)
		}
		if who == "seven" && !strings.Contains(answer, `"next_hour":1`) || who == "ops" && !strings.Contains(answer, `"next_hour":2`) {
			t.Errorf("counts as %s: %s", who, answer)
		}
	}
	for _, c := range []struct{ who, id, code string }{
		{"reader", "1", "permission_denied"},
		{"seven", "1", "permission_denied"},
		{"other", "1", "not_found"},
		{"other", "7", "not_found"},
		{"blind", "1", ""},
		{"ops", "2", ""},
	} {
		if answer, code := r.callAs(c.who, resumeGate, `{"id":"`+c.id+`"}`); code != c.code {
			t.Errorf("resume of %s as %s: %s, want %q", c.id, c.who, answer, c.code)
		}
	}
	// who may see neither learns not which of them there is
	hidden, _ := r.callAs("other", resumeGate, `{"id":"1"}`)
	if none, _ := r.callAs("other", resumeGate, `{"id":"7"}`); none != hidden {
		t.Errorf("%s and %s tell that there is a gate", hidden, none)
	}
}

func TestGatesAreAudited(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}, "reader": {"read:mail"}})})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`)
	r.callAs("root", setGate, `{"action":"pause","lambda":"mail","reason":"db","dry_run":true}`)
	r.callAs("root", setGate, `{"action":"pause","lambda":"mail","reason":"db"}`)
	r.callAs("reader", resumeGate, `{"id":"1"}`)
	r.callAs("root", resumeGate, `{"id":"1","pace":7}`)
	acts := map[string]bool{}
	for _, a := range r.audited() {
		if !strings.HasPrefix(a.Action, "gate.") {
			continue
		}
		acts[strings.Join([]string{a.Identity, a.Action, a.Target, a.Outcome}, " ")] = true
		isSet, isResumed := a.Action == "gate.set", a.Action == "gate.resume" && a.Outcome == "ok"
		if (isSet || isResumed) != strings.Contains(string(a.After), `"id":"1"`) || isResumed != strings.Contains(string(a.Before), `"state":"active"`) || isResumed != strings.Contains(string(a.After), `"pace":7`) {
			t.Errorf("%+v", a)
		}
	}
	if want := map[string]bool{"root gate.set mail ok": true, "reader gate.resume mail denied": true, "root gate.resume mail ok": true}; !maps.Equal(acts, want) {
		t.Errorf("recorded %v, want %v", acts, want)
	}
}

const (
	createGroup = kinesinv1connect.GroupServiceCreateGroupProcedure
	addMembers  = kinesinv1connect.GroupServiceAddMembersProcedure
	sealGroup   = kinesinv1connect.GroupServiceSealGroupProcedure
	cancelGroup = kinesinv1connect.GroupServiceCancelGroupProcedure
	getGroup    = kinesinv1connect.GroupServiceGetGroupProcedure
	listMembers = kinesinv1connect.GroupServiceListMembersProcedure
)

// A grant is asked for when a lambda is named: of a follow-up when the group is made, of a member when it is
// added. A group is shown to who may read or schedule its follow-up, and each member to who may read that.
func TestWhoMayChangeAGroup(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{
		"root": {"*:*"}, "both": {"schedule:report", "schedule:mail", "read:mail"}, "follow": {"schedule:report:seven", "read:report"},
		"mailer": {"schedule:mail"}, "wide": {"schedule:report"}, "reader": {"read:report"},
	})})
	for _, lambda := range []string{"mail", "report"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"`+lambda+`"}`)
	}
	chained, deep := `{"then":[{"lambda":"report","then":[{"lambda":"mail"}]}]}`, `{"then":[{"lambda":"mail"}],"else":[{"lambda":"mail","finally":[{"lambda":"mail","else":[{"lambda":"report"}]}]}]}`
	whole, part, other := `{"then":[{"lambda":"report"}]}`, `{"then":[{"lambda":"report","collection":"seven"}]}`, `{"then":[{"lambda":"report","collection":"seven"}],"else":[{"lambda":"mail"}]}`
	for _, c := range []struct {
		who, body string
		may       bool
	}{
		{"mailer", whole, false},
		{"reader", whole, false},
		{"follow", whole, false},
		{"follow", part, true},
		{"follow", other, false},
		{"follow", `{"then":[{"lambda":"report","collection":"seven"}],"finally":[{"lambda":"mail"}]}`, false},
		{"follow", `{"finally":[{"lambda":"report","collection":"seven"}]}`, true},
		{"both", other, true},
		{"mailer", deep, false},
		{"both", deep, true},
		{"both", chained, true},
		{"wide", chained, false},
	} {
		if answer, code := r.callAs(c.who, createGroup, c.body); (code == "") != c.may || !c.may && code != "permission_denied" {
			t.Errorf("%s as %s: %s", c.body, c.who, answer)
		}
	}
	answer, _ := r.callAs("root", createGroup, whole)
	var made struct{ Group struct{ ID string } }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || made.Group.ID == "" {
		t.Fatal(answer, err)
	}
	id := made.Group.ID
	for _, c := range []struct{ who, procedure, body, code string }{
		{"mailer", addMembers, `{"group":"ID","items":[{"lambda":"mail"}]}`, "not_found"},
		{"reader", addMembers, `{"group":"ID","items":[{"lambda":"mail"}]}`, "permission_denied"},
		{"follow", addMembers, `{"group":"ID","items":[{"lambda":"mail"}]}`, "permission_denied"},
		{"both", addMembers, `{"group":"ID","items":[{"lambda":"mail"}]}`, ""},
		{"wide", addMembers, `{"group":"ID","at":1,"items":[{"lambda":"report","then":[{"lambda":"mail"}]}]}`, "permission_denied"},
		{"both", addMembers, `{"group":"ID","at":1,"items":[{"lambda":"report"}]}`, ""},
		{"mailer", getGroup, `{"id":"ID"}`, "not_found"},
		{"mailer", getGroup, `{"id":"none"}`, "not_found"},
		{"reader", getGroup, `{"id":"ID"}`, ""},
		{"both", getGroup, `{"id":"ID"}`, ""},
		{"mailer", listMembers, `{"group":"ID"}`, "not_found"},
		{"mailer", sealGroup, `{"group":"ID"}`, "not_found"},
		{"reader", sealGroup, `{"group":"ID"}`, "permission_denied"},
		{"follow", sealGroup, `{"group":"ID"}`, "permission_denied"},
		{"wide", sealGroup, `{"group":"ID"}`, ""},
		{"mailer", cancelGroup, `{"group":"ID"}`, "not_found"},
		{"follow", cancelGroup, `{"group":"ID"}`, "permission_denied"},
		{"root", cancelGroup, `{"group":"ID"}`, ""},
	} {
		if answer, code := r.callAs(c.who, c.procedure, strings.ReplaceAll(c.body, "ID", id)); code != c.code {
			t.Errorf("%s %s as %s: %s, want %q", c.procedure, c.body, c.who, answer, c.code)
		}
	}
	for who, sees := range map[string]string{"root": "mail report", "both": "mail", "reader": "report"} {
		answer, _ := r.callAs(who, listMembers, `{"group":"`+id+`"}`)
		for _, lambda := range []string{"mail", "report"} {
			if strings.Contains(answer, `"lambda":"`+lambda+`"`) != strings.Contains(sees, lambda) {
				t.Errorf("members as %s: %s, want %s", who, answer, sees)
			}
		}
	}
	log, _ := r.callAs("root", kinesinv1connect.AccessServiceListAuditProcedure, `{}`)
	for _, action := range []string{"group.create", "group.seal", "group.cancel"} {
		if !strings.Contains(log, action) {
			t.Errorf("no %s in the audit log", action)
		}
	}
}

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
