package server

import (
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
		if a.Action == "cron.run" && string(a.After) != `{"name":"nightly"}` {
			t.Errorf("%+v", a)
		}
		if a.Action == "cron.pause" && a.Outcome == "ok" && (!strings.Contains(string(a.After), `"moving"`) || !strings.Contains(string(a.Before), `"@daily"`)) {
			t.Errorf("%+v", a)
		}
	}
	want := map[string]int{
		"root cron.set mail ok": 1, "reader cron.pause mail denied": 1, "root cron.pause mail ok": 1, "root cron.resume mail ok": 1,
		"root cron.run mail ok": 1, "root cron.backfill mail ok": 1, "root cron.delete mail ok": 1,
	}
	if !maps.Equal(acts, want) {
		t.Errorf("recorded %v, want %v", acts, want)
	}
}
