package golden

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// sameAsHTTP are commands, each with the request to the HTTP API that answers the same, and the answer of the service if
// that is not one with all fields set.
var sameAsHTTP = []struct{ command, request, answer string }{
	{"schedule mail", "POST /v1/lambdas/mail/tasks {}", ""},
	{"get k1", "GET /v1/tasks/k1", ""},
	{"get k1 --payload", "GET /v1/tasks/k1?payload=true", `{"results":[{"task":{"id":"k1","payload":"/w=="}}]}`},
	{"get --lambda mail --key k", "GET /v1/lambdas/mail/keys/k", ""},
	{"wait k1", "GET /v1/tasks/k1/wait", ""},
	{"list --limit 2", "GET /v1/tasks?limit=2", `{"tasks":[{"id":"k1"},{"id":"k2"}],"next":"bW9yZQ=="}`},
	{"list mail --limit 1", "GET /v1/tasks?lambda=mail&limit=1", ""},
	{"count --where state=dead", "GET /v1/tasks/count?where=state%3Ddead", ""},
	{"stats", "GET /v1/stats", `{"lambdas":[{"lambda":"mail","tasks":{"scheduled":3},"workers":0}]}`},
	{"cancel k1", "DELETE /v1/tasks/k1", ""},
	{"run-now k1", "POST /v1/tasks/k1/run", changed},
	{"reschedule k1 --in 1h", `PATCH /v1/tasks/k1 {"delay":"1h"}`, changed},
	{"reschedule k1 --at 2001-02-03T00:00:00Z", `PATCH /v1/tasks/k1 {"due":"2001-02-03T00:00:00Z"}`, changed},
	{"update k1 --priority low", `PATCH /v1/tasks/k1 {"priority":"low"}`, changed},
	{"redrive k1", "POST /v1/tasks/k1/redrive", changed},

	{"lambda list", "GET /v1/lambdas", ""},
	{"lambda get mail", "GET /v1/lambdas/mail?live=true", ""},
	{"lambda get mail --live=false", "GET /v1/lambdas/mail", `{"lambda":{"name":"mail"}}`},
	{"lambda create mail", `POST /v1/lambdas {"name":"mail"}`, ""},
	{"lambda set mail --max-attempts 3", `PATCH /v1/lambdas/mail {"max_attempts":3}`, ""},
	{"lambda set mail --retention 1d", `PATCH /v1/lambdas/mail {"retention":"24h"}`, `{"lambda":{"name":"mail","mode":"deliver"}}`},
	{"lambda delete mail", "DELETE /v1/lambdas/mail", ""},
	{"quota list", "GET /v1/quotas", ""},
	{"quota get mail", "GET /v1/lambdas/mail/quotas", `{}`},
	{"quota set mail --rate 5", `PATCH /v1/lambdas/mail/quotas {"rate":5}`, ""},
	{"objective list", "GET /v1/objectives", ""},
	{"objective get mail", "GET /v1/lambdas/mail/objective", ""},
	{"objective set mail --within 5s --objective 99", `PUT /v1/lambdas/mail/objective {"within":"5s","objective":99}`, ""},
	{"objective delete mail", "DELETE /v1/lambdas/mail/objective", ""},
	{"dead-letter list mail --payload", "GET /v1/lambdas/mail/dead-letters?payload=true", ""},
	{"dead-letter count mail", "GET /v1/lambdas/mail/dead-letters/count", ""},

	{"gate list", "GET /v1/gates", ""},
	{"gate get 7", "GET /v1/gates/7", ""},
	{"gate pause mail --reason x", `POST /v1/gates {"action":"pause","lambda":"mail","reason":"x"}`, `{"gate":{"id":"7","state":"active"}}`},
	{"gate drop mail --reason x --dry-run", `POST /v1/gates {"action":"drop","lambda":"mail","reason":"x","dry_run":true}`, ""},
	{"gate resume 7", "POST /v1/gates/7/resume", ""},
	{"job list", "GET /v1/jobs", ""},
	{"job get j", "GET /v1/jobs/j", ""},
	{"job pause j", "POST /v1/jobs/j/pause", ""},
	{"cancel --all --detach", `POST /v1/jobs {"action":"cancel","all":true}`, ""},
	{"redrive --all --dry-run", `POST /v1/jobs {"action":"redrive","all":true,"dry_run":true}`, ""},

	{"cron list", "GET /v1/crons", ""},
	{"cron get nightly", "GET /v1/crons/nightly", ""},
	{"cron create nightly --lambda mail --schedule @daily", `POST /v1/crons {"name":"nightly","lambda":"mail","schedule":"@daily"}`, ""},
	{"cron pause nightly --reason x", `POST /v1/crons/nightly/pause {"reason":"x"}`, ""},
	{"cron resume nightly", "POST /v1/crons/nightly/resume", ""},
	{"cron run nightly", "POST /v1/crons/nightly/run", ""},
	{"cron history nightly", "GET /v1/crons/nightly/history", ""},
	{"cron delete nightly", "DELETE /v1/crons/nightly", ""},
	{
		"cron backfill nightly --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --detach",
		`POST /v1/crons/nightly/backfill {"from":"2026-01-01T00:00:00Z","to":"2026-02-01T00:00:00Z"}`, "",
	},
	{"chain get k1", "GET /v1/chains/k1", ""},
	{"chain pause k1", "POST /v1/chains/k1/pause", ""},
	{"chain extend k1 --start-before 2096-01-01T00:00:00Z", `POST /v1/chains/k1/extend {"start_before":"2096-01-01T00:00:00Z"}`, ""},
	{"group get g", "GET /v1/groups/g", ""},
	{"group add g --lambda mail --offset 3", `POST /v1/groups/g/members {"at":3,"items":[{"lambda":"mail"}]}`, `{"ids":["k1"],"members":4}`},
	{"group create --then -", `POST /v1/groups {"then":[{"lambda":"mail"}]}`, ""},
}

// changed is the answer to a change of a task, of which HTTP alone says that its due time was in the past.
const changed = `{"results":[{"id":"k1","state":"scheduled","due":"3978838800250000","seq":7}]}`

// TestCommandsPrintWhatHTTPAnswers compares -o json of each command with the answer of HTTP to the same request.
func TestCommandsPrintWhatHTTPAnswers(t *testing.T) {
	s := newScript(t)
	for _, c := range sameAsHTTP {
		var answers []answer
		if c.answer != "" {
			answers = []answer{{text: c.answer}}
		}
		s.fake.begin(answers, false)
		command := &step{stdin: `{"lambda":"mail"}`}
		var printed strings.Builder
		for _, line := range s.command(command, c.command+" -o json") {
			if text, is := strings.CutPrefix(line, "=| "); is {
				printed.WriteString(text)
			}
		}
		s.fake.begin(answers, false)
		request := &step{request: c.request}
		s.call(request)
		var got, want bytes.Buffer
		if json.Compact(&got, []byte(printed.String())) != nil || json.Compact(&want, []byte(request.body)) != nil || request.status >= 300 || got.String() != want.String() {
			t.Errorf("kinesin %s -o json:\n%s\n%s, %d:\n%s", c.command, printed.String(), c.request, request.status, request.body)
		}
	}
}
