package terraform_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/test/harness"
)

// callDeclared is a lambda with crons and an objective.
const callDeclared = `
module "report" {
  source = "../../modules/lambda"

  core       = module.core.lambdas
  name       = "report"
  priorities = ["one"]
  alarms     = false
  %s
}
`

// TestDeclared is the life of a lambda's crons and objective: made, changed, refused to calls, and destroyed.
func TestDeclared(t *testing.T) {
	w := newWorkspace(t, "examples/minimal")
	w.apply()
	server := w.serve()
	declare := func(what string) {
		t.Helper()
		w.write("report.tf", fmt.Sprintf(callDeclared, what))
		w.must("init")
		w.apply()
		w.unchanged()
	}
	declare(`
  crons = {
    nightly = { schedule = "30 2 * * *", zone = "Europe/Berlin", payload = jsonencode({ at = "{{nominal}}" }), catch_up = "all", catch_up_max = 5 }
    weekly  = { schedule = "0 6 * * MON", start = "2027-01-31T09:00:00+01:00" }
  }
  objective = { within_seconds = 5, objective = 99 }`)
	shown := awaitCron(t, server, "nightly", `"revision":1`)
	for _, want := range []string{`"registered":true`, `"created_by":"(registration)"`, `"zone":"Europe/Berlin"`, `"catch_up_max":5`, `nominal`} {
		if !strings.Contains(shown, want) {
			t.Errorf("cron get has no %s: %s", want, shown)
		}
	}
	if text := server.Run("cron", "get", "nightly").Must(t); !strings.Contains(text, "by Terraform") {
		t.Errorf("cron get does not say where the cron is from: %s", text)
	}
	if shown := awaitCron(t, server, "weekly", "2027-01-31T08:00:00"); !strings.Contains(shown, `"registered":true`) {
		t.Error(shown)
	}
	if slo := server.Run("objective", "get", "report", "-o", "json").Must(t); !strings.Contains(slo, `"within":"5s"`) || !strings.Contains(slo, `"registered":true`) {
		t.Errorf("objective: %s", slo)
	}
	for _, args := range [][]string{
		{"cron", "set", "nightly", "--schedule", "@daily"},
		{"cron", "delete", "nightly"},
		{"objective", "set", "report", "--within", "1s", "--objective", "9"},
		{"objective", "delete", "report"},
	} {
		if got := server.Run(args...); got.Code == 0 || !strings.Contains(got.Stderr, "Terraform") {
			t.Errorf("%v: %d %s", args, got.Code, got.Stderr)
		}
	}

	declare(`crons = { nightly = { schedule = "0 3 * * *", zone = "Europe/Berlin" } }`)
	awaitCron(t, server, "nightly", `"revision":2`)
	awaitCron(t, server, "weekly", "there is no cron")
	if slo := server.Run("objective", "list", "-o", "json").Must(t); strings.TrimSpace(slo) != `{"objectives":[]}` {
		t.Errorf("the objective is still there: %s", slo)
	}

	w.write("report.tf", "")
	w.apply()
	runtest.Eventually(t, 2*registeredMax+registeredMax, "the lambda to be gone with its cron", func() bool {
		return server.Run("lambda", "get", "report", "--live=false").Code != 0
	})
	awaitCron(t, server, "nightly", "there is no cron")
	if code := server.Shutdown(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	w.must("destroy", "-auto-approve")
	w.gone()
}

// awaitCron waits until what is shown of a cron, or why nothing is, has a text, and returns it without
// spaces.
func awaitCron(t *testing.T, server *harness.Server, name, want string) (shown string) {
	t.Helper()
	runtest.Eventually(t, registeredMax, "cron "+name+" with "+want, func() bool {
		got := server.Run("cron", "get", name, "-o", "json")
		shown = got.Stdout + got.Stderr
		var fields map[string]any
		if json.Unmarshal([]byte(got.Stdout), &fields) == nil {
			compact, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			shown = string(compact)
		}
		return strings.Contains(shown, want)
	})
	return shown
}
