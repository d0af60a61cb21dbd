package server

import (
	"maps"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

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
