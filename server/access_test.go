package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/tlstest"
	"github.com/kinesin-io/kinesin/internal/token"
	"github.com/kinesin-io/kinesin/sdk"
)

// secretOf returns the token of an identity of a test's policy.
func secretOf(name string) string {
	return "token-of-" + name + strings.Repeat("-", token.CharsMin)
}

// policyText returns a policy of identities with tokens.
func policyText(grants map[string][]string) string {
	var ids, all strings.Builder
	for name, allow := range grants {
		hash := sha256.Sum256([]byte(secretOf(name)))
		fmt.Fprintf(&ids, "  - {name: %q, token_sha256: %s}\n", name, hex.EncodeToString(hash[:]))
		if len(allow) > 0 {
			text, _ := json.Marshal(allow)
			fmt.Fprintf(&all, "  - {identity: %q, allow: %s}\n", name, text)
		}
	}
	return "identities:\n" + ids.String() + "grants:\n" + all.String()
}

func policyFile(t *testing.T, grants map[string][]string) string {
	t.Helper()
	return writeFile(t, filepath.Join(t.TempDir(), "policy.yaml"), policyText(grants))
}

// callAs calls a procedure in JSON as an identity and returns the answer, and its code: empty if it
// succeeded.
func (r *running) callAs(name, procedure, body string) (answer, code string) {
	r.t.Helper()
	secret := ""
	if name != "" {
		secret = secretOf(name)
	}
	return r.callWith(secret, procedure, body)
}

// callWith is callAs with a token.
func (r *running) callWith(secret, procedure, body string) (answer, code string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+procedure, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if secret != "" {
		token.Put(request.Header, secret)
	}
	response, err := r.http.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var failed struct{ Code string }
	if response.StatusCode != http.StatusOK {
		_ = json.Unmarshal(text, &failed)
	}
	if (failed.Code == "permission_denied") != (response.StatusCode == http.StatusForbidden) {
		r.t.Errorf("%s: status %d with code %q", procedure, response.StatusCode, failed.Code)
	}
	return string(text), failed.Code
}

// later schedules a task for later and returns its id.
func (r *running) later(name, lambda, collection string) string {
	r.t.Helper()
	answer, code := r.callAs(name, kinesinv1connect.TaskServiceScheduleProcedure,
		fmt.Sprintf(`{"items":[{"lambda":%q,"collection":%q,"delay":"1h","payload_text":"secret"}]}`, lambda, collection))
	var got struct{ Results []struct{ ID string } }
	if err := json.Unmarshal([]byte(answer), &got); err != nil || code != "" || len(got.Results) != 1 || got.Results[0].ID == "" {
		r.t.Fatalf("%s: %v %s", answer, err, code)
	}
	return got.Results[0].ID
}

// need is what a procedure needs: verbs on the lambda that the request names, or, all, on all of them.
type need struct {
	verbs []access.Verb
	all   bool
	body  string // L stands for the lambda, and I for the id of a task of it
}

// needs has a line for each procedure. A procedure that is missing here fails the test.
var needs = map[string]need{
	"TaskService/Schedule":                {[]access.Verb{access.Schedule}, false, `{"items":[{"lambda":"L"}]}`},
	"TaskService/Get":                     {[]access.Verb{access.Read}, false, `{"ids":["I"]}`},
	"TaskService/List":                    {[]access.Verb{access.Read}, false, `{"lambda":"L"}`},
	"TaskService/Cancel":                  {[]access.Verb{access.Cancel}, false, `{"ids":["I"]}`},
	"TaskService/Reschedule":              {[]access.Verb{access.Schedule}, false, `{"ids":["I"],"delay":"1h"}`},
	"TaskService/Update":                  {[]access.Verb{access.Schedule}, false, `{"updates":[{"id":"I","max_attempts":7}]}`},
	"TaskService/Redrive":                 {[]access.Verb{access.Operate}, false, `{"ids":["I"]}`},
	"TaskService/Wait":                    {[]access.Verb{access.Read}, false, `{"ids":["I"]}`},
	"TaskService/Count":                   {[]access.Verb{access.Read}, false, `{"where":"lambda=L"}`},
	"TaskService/Stats":                   {[]access.Verb{access.Read}, false, `{"lambda":"L"}`},
	"JobService/CreateJob":                {[]access.Verb{access.Read, access.Cancel}, false, `{"action":"cancel","where":"lambda=L","dry_run":true}`},
	"JobService/GetJob":                   {nil, false, `{"id":"x"}`}, // these are for whoever made the job, and for admin on all lambdas
	"JobService/ListJobs":                 {nil, false, `{}`},
	"JobService/ControlJob":               {nil, false, `{"id":"x","action":"stop"}`},
	"DeadLetterService/ListDeadLetters":   {[]access.Verb{access.Read, access.ReadPayload}, false, `{"lambda":"L","payload":true}`},
	"DeadLetterService/CountDeadLetters":  {[]access.Verb{access.Read}, false, `{"lambda":"L"}`},
	"DeadLetterService/ChangeDeadLetters": {[]access.Verb{access.Operate}, false, `{"action":"delete","lambda":"L"}`},
	"LambdaService/CreateLambda":          {[]access.Verb{access.Admin}, false, `{"name":"L"}`},
	"LambdaService/GetLambda":             {[]access.Verb{access.Read}, false, `{"name":"L"}`},
	"LambdaService/ListLambdas":           {nil, false, `{}`}, // it leaves out what may not be read
	"LambdaService/UpdateLambda":          {[]access.Verb{access.Admin}, false, `{"name":"L","max_attempts":7}`},
	"LambdaService/DeleteLambda":          {[]access.Verb{access.Admin}, false, `{"name":"L"}`}, // it has a task, so it stays
	"WorkerService/Register":              {[]access.Verb{access.Execute}, false, `{"groups":[{"lambdas":["L"],"slots":1}]}`},
	"WorkerService/Claim":                 {[]access.Verb{access.Execute}, false, `{"worker":"nobody","lambdas":["L"]}`},
	"WorkerService/SetResults":            {nil, false, `{"worker":"nobody","results":[]}`}, // these three are for the owner of the lease
	"WorkerService/Heartbeat":             {nil, false, `{"worker":"nobody"}`},
	"WorkerService/Leave":                 {nil, false, `{"worker":"nobody"}`},
	"InboundService/ListRejected":         {[]access.Verb{access.Operate}, true, `{}`},
	"InboundService/GetRejected":          {[]access.Verb{access.Operate, access.ReadPayload}, true, `{"name":"x"}`},
	"InboundService/RetryRejected":        {[]access.Verb{access.Operate}, true, `{"names":["x"]}`},
	"InboundService/DeleteRejected":       {[]access.Verb{access.Operate}, true, `{"names":["x"]}`},
	"InboundService/Key":                  {[]access.Verb{access.Keyring}, true, `{}`},
	"KeyringService/RotateKeys":           {[]access.Verb{access.Keyring}, true, `{}`},
	"KeyringService/ListKeys":             {[]access.Verb{access.Keyring}, true, `{}`},
	"KeyringService/AddSender":            {[]access.Verb{access.Keyring}, true, `{"name":"x","lambdas":["*"]}`},
	"KeyringService/ListSenders":          {[]access.Verb{access.Keyring}, true, `{}`},
	"KeyringService/RevokeSender":         {[]access.Verb{access.Keyring}, true, `{"name":"x"}`},
	"AccessService/CreateToken":           {[]access.Verb{access.Admin}, true, `{"name":"x","grants":["keyring","admin:nothing"]}`}, // of which no identity has both
	"AccessService/ListTokens":            {[]access.Verb{access.Admin}, true, `{}`},
	"AccessService/RevokeToken":           {[]access.Verb{access.Admin}, true, `{"name":"x"}`},
	"AccessService/ListAudit":             {[]access.Verb{access.Admin}, true, `{}`},
	"AccessService/VerifyAudit":           {[]access.Verb{access.Admin}, true, `{}`},
	"GateService/SetGate":                 {[]access.Verb{access.Operate}, false, `{"action":"pause","lambda":"L","reason":"x","dry_run":true}`},
	"GateService/ResumeGate":              {nil, false, `{"id":"7"}`}, // there is none; TestWhoMaySetAGate has one
	"GateService/GetGate":                 {nil, false, `{"id":"7"}`},
	"GateService/ListGates":               {[]access.Verb{access.Read}, false, `{"lambda":"L"}`},
	"CronService/SetCron":                 {[]access.Verb{access.Operate, access.Schedule}, false, `{"name":"nightly","lambda":"L","schedule":"@daily"}`},
	"CronService/GetCron":                 {nil, false, `{"name":"none"}`}, // there is none; TestWhoMaySetACron has one
	"CronService/ListCrons":               {[]access.Verb{access.Read}, false, `{"lambda":"L"}`},
	"CronService/PauseCron":               {nil, false, `{"name":"none","reason":"x"}`},
	"CronService/ResumeCron":              {nil, false, `{"name":"none"}`},
	"CronService/RunCron":                 {nil, false, `{"name":"none"}`},
	"CronService/BackfillCron":            {nil, false, `{"name":"none","from":"2023-11-14T22:13:20Z","to":"2023-11-16T02:00:00Z"}`},
	"CronService/DeleteCron":              {nil, false, `{"name":"none"}`},
	"CronService/CronHistory":             {nil, false, `{"name":"none"}`},
	"GroupService/CreateGroup":            {[]access.Verb{access.Schedule}, false, `{"then":[{"lambda":"L"}]}`},
	"GroupService/AddMembers":             {nil, false, `{"group":"none","items":[{"lambda":"L"}]}`}, // there is none; TestWhoMayChangeAGroup has one
	"GroupService/SealGroup":              {nil, false, `{"group":"none"}`},
	"GroupService/CancelGroup":            {nil, false, `{"group":"none"}`},
	"GroupService/GetGroup":               {nil, false, `{"id":"none"}`},
	"GroupService/ListMembers":            {nil, false, `{"group":"none"}`},
	"ChainService/GetChain":               {[]access.Verb{access.Read}, false, `{"id":"I"}`},
	"ChainService/ControlChain":           {[]access.Verb{access.Operate}, false, `{"id":"I","action":"resume"}`},
	"ObjectiveService/SetObjective":       {[]access.Verb{access.Operate}, false, `{"lambda":"L","within":"5s","objective":99}`},
	"ObjectiveService/DeleteObjective":    {[]access.Verb{access.Operate}, false, `{"lambda":"L"}`},
	"ObjectiveService/GetObjectives":      {[]access.Verb{access.Read}, false, `{"lambda":"L"}`},
	"QuotaService/SetQuota":               {[]access.Verb{access.Operate}, false, `{"lambda":"L","rate":100}`},
	"QuotaService/GetQuotas":              {[]access.Verb{access.Read}, false, `{"lambda":"L"}`},
}

// variants are calls of procedures that need more.
var variants = map[string]need{
	"TaskService/Get":     {[]access.Verb{access.Read, access.ReadPayload}, false, `{"ids":["I"],"with_payload":true}`},
	"TaskService/Redrive": {[]access.Verb{access.Operate, access.Schedule}, false, `{"ids":["I"],"payload_text":"x"}`},
}

// streams are the procedures that the matrix calls as streams.
var streams = map[string]need{
	"WorkerService/Work":   {verbs: []access.Verb{access.Execute}},
	"BackupService/Backup": {verbs: []access.Verb{access.Admin, access.ReadPayload, access.Keyring}, all: true},
}

// isMet reports whether an identity with grants on a pattern may call a procedure for a lambda.
func (n need) isMet(has []access.Verb, pattern access.Pattern, lambda string) bool {
	for _, v := range n.verbs {
		if !slices.Contains(has, v) || n.all && pattern != access.Any && v != access.Keyring || !n.all && !pattern.Matches(lambda) {
			return false
		}
	}
	return true
}

// subject is an identity with verbs on a pattern.
type subject struct {
	has     []access.Verb
	pattern access.Pattern
}

// Every identity with one verb, and one with all of them, on one lambda and on all, calls every procedure for
// two lambdas.
func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	subjects, grants := map[string]subject{}, map[string][]string{"root": {"*:*"}, "nobody": nil}
	subjects["nobody"] = subject{}
	for _, pattern := range []access.Pattern{"mine", access.Any} {
		of := map[access.Pattern]string{"mine": "mine", access.Any: "all"}[pattern]
		for _, v := range access.Verbs() {
			name := of + "-" + string(v)
			subjects[name] = subject{[]access.Verb{v}, pattern}
			grants[name] = []string{string(v) + ":" + string(pattern)}
			if v == access.Keyring || v == access.Metrics || v == access.Debug {
				grants[name] = []string{string(v)}
			}
		}
		subjects[of+"-every"] = subject{access.Verbs(), pattern}
		for _, v := range access.Verbs() {
			if v == access.Keyring || v == access.Metrics || v == access.Debug {
				grants[of+"-every"] = append(grants[of+"-every"], string(v))
				continue
			}
			grants[of+"-every"] = append(grants[of+"-every"], string(v)+":"+string(pattern))
		}
	}
	r := serve(t, Config{PolicyFile: policyFile(t, grants)})
	for _, lambda := range []string{"mine", "other"} {
		if answer, code := r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, fmt.Sprintf(`{"name":%q}`, lambda)); code != "" {
			t.Fatal(answer)
		}
		r.later("root", lambda, "") // so that neither can be deleted
	}
	calls := 0
	for _, service := range api.Services() {
		for m := range service.Methods().Len() {
			method := service.Methods().Get(m)
			short := string(service.Name()) + "/" + string(method.Name())
			n, known := needs[short]
			if method.IsStreamingServer() || method.IsStreamingClient() {
				n, known = streams[short]
			}
			if !known {
				t.Errorf("%s: this test does not say who may call it", short)
				continue
			}
			calls += r.wantMatrix(subjects, method, n)
			if more, has := variants[short]; has {
				calls += r.wantMatrix(subjects, method, more)
			}
		}
	}
	t.Logf("%d calls", calls)
}

// named has calls that name one object: X stands for its name, and TASK for what names a task, by id or by key.
var named = map[string][]string{
	"task": {
		`TaskService/Get {TASK}`, `TaskService/Get {TASK,"with_payload":true}`, `TaskService/Cancel {TASK}`, `TaskService/Reschedule {TASK,"delay":"2h"}`,
		`TaskService/Wait {TASK,"wait":"1us"}`, `TaskService/Redrive {TASK}`, `TaskService/Redrive {TASK,"payload_text":"x"}`,
	},
	"key": {
		`TaskService/Update {"updates":[{"key":{"lambda":"mine","key":"X"},"max_attempts":7}]}`, `TaskService/Count {"where":"lambda=mine and key=X"}`,
		`TaskService/Count {"where":"lambda=mine and key=X","exact":true}`, `TaskService/List {"where":"lambda=mine and key=X"}`,
	},
	"id":    {`TaskService/Update {"updates":[{"id":"X","max_attempts":7}]}`, `ChainService/GetChain {"id":"X"}`, `ChainService/ControlChain {"id":"X","action":"cancel"}`},
	"cron":  {`CronService/GetCron {"name":"X"}`, `CronService/CronHistory {"name":"X"}`, `CronService/PauseCron {"name":"X","reason":"x"}`, `CronService/ResumeCron {"name":"X"}`, `CronService/RunCron {"name":"X"}`, `CronService/BackfillCron {"name":"X","from":"2023-11-14T22:13:20Z","to":"2023-11-16T02:00:00Z"}`, `CronService/DeleteCron {"name":"X"}`},
	"group": {`GroupService/GetGroup {"id":"X"}`, `GroupService/ListMembers {"group":"X"}`, `GroupService/AddMembers {"group":"X","items":[{"lambda":"mine","collection":"OWN"}]}`, `GroupService/SealGroup {"group":"X"}`, `GroupService/CancelGroup {"group":"X"}`},
	"gate":  {`GateService/GetGate {"id":"X"}`, `GateService/ResumeGate {"id":"X"}`},
}

// What is in a collection of which a caller may see nothing answers like what is not there, whichever call
// names it: the same code, text and headers. Who may see the collection is answered.
func TestWhoMayDoWhatInACollection(t *testing.T) {
	t.Parallel()
	grants := map[string][]string{"root": {"*:*"}, "operator": {"operate:mine", "read:mine", "schedule:mine:ours"}}
	for _, c := range []string{"ours", "theirs"} {
		for _, v := range []string{"schedule", "read", "read-payload", "cancel"} {
			grants[c] = append(grants[c], v+":mine:"+c)
		}
	}
	r := serve(t, Config{PolicyFile: policyFile(t, grants)})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mine"}`)
	call := func(who, what string) string {
		t.Helper()
		procedure, body, _ := strings.Cut(what, " ")
		return r.answerTo(who, "/kinesin.v1."+procedure, strings.ReplaceAll(body, "OWN", who))
	}
	made := func(what, field string) string {
		t.Helper()
		text := call("root", what)
		_, rest, found := strings.Cut(text, `"`+field+`":"`)
		name, _, _ := strings.Cut(rest, `"`)
		if !found {
			t.Fatal(what, text)
		}
		return name
	}
	objects := 0
	object := func(kind string) (there, absent string) {
		objects++
		name := fmt.Sprintf("there-%d", objects)
		switch kind {
		case "task", "key":
			made(`TaskService/Schedule {"items":[{"lambda":"mine","collection":"theirs","key":"`+name+`","delay":"1h"}]}`, "id")
			return name, "absent"
		case "id":
			return made(`TaskService/Schedule {"items":[{"lambda":"mine","collection":"theirs","delay":"1h"}]}`, "id"), "k1AaImReNkfhCeOV3d-F7VfQGiJnzR5TXdkNwBAACalWIRMHi5qn6bk-ZC"
		case "cron":
			made(`CronService/SetCron {"name":"`+name+`","lambda":"mine","collection":"theirs","schedule":"@daily"}`, "name")
			return name, "absent"
		case "group":
			return made(`GroupService/CreateGroup {"then":[{"lambda":"mine","collection":"theirs"}]}`, "id"), "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5"
		}
		return made(`GateService/SetGate {"action":"pause","lambda":"mine","collection":"theirs","reason":"x"}`, "id"), "77"
	}
	for kind, calls := range named {
		for _, what := range calls {
			for _, form := range []string{`"keys":[{"lambda":"mine","key":"X"}]`, `"ids":["X"]`} {
				if form[1] == 'i' && (kind != "task" || strings.Contains(what, "Redrive")) { // an id names its lambda, whose operators are others
					continue
				}
				of := kind
				if kind == "task" && form[1] == 'i' {
					of = "id"
				}
				what := strings.Replace(what, "TASK", form, 1)
				there, absent := object(of)
				asItWas := func() string {
					return call("root", `TaskService/Get {`+strings.ReplaceAll(form, "X", there)+`}`)
				}
				before := asItWas()
				hidden, none := call("ours", strings.ReplaceAll(what, "X", there)), call("ours", strings.ReplaceAll(what, "X", absent))
				if strings.ReplaceAll(hidden, `"`+there+`"`, "X") != strings.ReplaceAll(none, `"`+absent+`"`, "X") {
					t.Errorf("%s: a caller who may see nothing of it is answered\n%s\nand without it\n%s", what, hidden, none)
				}
				if after := asItWas(); after != before {
					t.Errorf("%s: a caller who may see nothing of it changed\n%s\nto\n%s", what, before, after)
				}
				seen := call("theirs", strings.ReplaceAll(what, "X", there))
				if needsOperate := strings.Contains(what, "Cron/") || strings.Contains(seen, "for operate"); !needsOperate && seen == strings.ReplaceAll(none, absent, there) {
					t.Errorf("%s: a caller who may see it is answered %s", what, seen)
				}
			}
		}
	}
	for what, denied := range map[string]bool{`TaskService/Redrive {"keys":[{"lambda":"mine","key":"X"}],"force":true,"payload_text":"x"}`: true, `TaskService/Redrive {"keys":[{"lambda":"mine","key":"X"}]}`: false} {
		there, _ := object("key")
		call("root", `TaskService/Cancel {"keys":[{"lambda":"mine","key":"`+there+`"}]}`)
		if answer := call("operator", strings.ReplaceAll(what, "X", there)); strings.Contains(answer, "no grant for schedule on lambda mine in collection theirs") != denied {
			t.Errorf("%s as one who operates, but schedules elsewhere: %s", what, answer)
		}
	}
	// A key of others is refused in the same words, whatever has it, and whatever is asked for.
	answers := map[string]bool{}
	for _, state := range []string{"live", "ended"} {
		name, _ := object("key")
		if state == "ended" {
			call("root", `TaskService/Cancel {"keys":[{"lambda":"mine","key":"`+name+`"}]}`)
		}
		for _, more := range []string{``, `,"on_conflict":"reject"`, `,"on_conflict":"replace"`, `,"payload_text":"x"`, `,"delay":"1h"`, `,"limit_key":"k"`} {
			answer := call("ours", `TaskService/Schedule {"items":[{"lambda":"mine","collection":"ours","key":"`+name+`"`+more+`}]}`)
			answers[strings.ReplaceAll(answer, name, "X")] = true
		}
	}
	if len(answers) != 1 {
		t.Errorf("keys of others are told apart: %q", slices.Collect(maps.Keys(answers)))
	}
	for _, list := range []string{`GateService/ListGates {}`, `CronService/ListCrons {}`, `TaskService/List {"where":""}`, `TaskService/Count {"where":"","exact":true}`} {
		if answer := call("ours", list); strings.Contains(answer, "theirs") || strings.Contains(answer, `"examined":`) && !strings.Contains(answer, `"examined":0`) {
			t.Errorf("%s: %s", list, answer)
		}
	}
}

// answerTo returns all of an answer that tells something: status, headers and body.
func (r *running) answerTo(name, procedure, body string) string {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+procedure, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	token.Put(request.Header, secretOf(name))
	response, err := r.http.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, varies := range []string{"Date", "X-Request-Id", "Content-Length"} {
		response.Header.Del(varies)
	}
	return fmt.Sprintf("%d %v %s", response.StatusCode, response.Header, text)
}

// wantMatrix calls a procedure as each identity for two lambdas, and returns how often.
func (r *running) wantMatrix(subjects map[string]subject, method protoreflect.MethodDescriptor, n need) (calls int) {
	r.t.Helper()
	t, short, ids := r.t, string(method.Parent().Name())+"/"+string(method.Name()), map[string]string{}
	for name, s := range subjects {
		for _, lambda := range []string{"mine", "other"} {
			ids[lambda] = r.later("root", lambda, "")
			body := strings.NewReplacer(`"L"`, `"`+lambda+`"`, `=L`, `=`+lambda, `"I"`, `"`+ids[lambda]+`"`).Replace(n.body)
			answer, code := r.call(name, method, lambda, body)
			calls++
			want := n.isMet(s.has, s.pattern, lambda)
			if want == (code == "permission_denied") && (short != "AccessService/CreateToken" || !want) {
				t.Errorf("%s as %s on %s: %s %s, allowed: %v", short, name, lambda, code, answer, want)
			}
			if !want && !slices.ContainsFunc(n.verbs, func(v access.Verb) bool { return strings.Contains(answer, "for "+string(v)) }) {
				t.Errorf("%s as %s on %s: %s does not name the missing verb", short, name, lambda, answer)
			}
			if !want && !n.all && !strings.Contains(answer, "on lambda "+lambda) {
				t.Errorf("%s as %s on %s: %s does not name the lambda", short, name, lambda, answer)
			}
		}
	}
	return calls
}

// call calls any procedure.
func (r *running) call(name string, m protoreflect.MethodDescriptor, lambda, body string) (answer, code string) {
	r.t.Helper()
	procedure := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	if !m.IsStreamingServer() {
		return r.callAs(name, procedure, body)
	}
	transport := api.NewStreamTransport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: bearer{secretOf(name), transport}}
	var err error
	if m.IsStreamingClient() {
		stream, openErr := kinesinv1connect.NewWorkerServiceClient(client, r.url, api.ClientOptions()...).Work(r.t.Context())
		if openErr != nil {
			r.t.Fatal(openErr)
		}
		_ = stream.Send(&kinesinv1.WorkRequest{Hello: &kinesinv1.Hello{Worker: "nobody", Groups: []*kinesinv1.SlotGroup{{Lambdas: []string{lambda}, Slots: 1}}}})
		_, err = stream.Receive()
		_ = errors.Join(stream.CloseRequest(), stream.CloseResponse())
	} else {
		stream, openErr := kinesinv1connect.NewBackupServiceClient(client, r.url, api.ClientOptions()...).Backup(r.t.Context(), &kinesinv1.BackupRequest{})
		if openErr != nil {
			r.t.Fatal(openErr)
		}
		for stream.Receive() {
		}
		err = stream.Err()
		_ = stream.Close()
	}
	if err == nil {
		return "", ""
	}
	return err.Error(), connect.CodeOf(err).String()
}

func TestListsShowOnlyWhatMayBeRead(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{
		"root": {"*:*"}, "team": {"read:mail-*"}, "customer": {"read:mail-a:c7", "read-payload:mail-a:c7", "cancel:mail-a:c7", "schedule:mail-a:c7"},
	})})
	for _, lambda := range []string{"mail-a", "mail-b", "bill"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, fmt.Sprintf(`{"name":%q}`, lambda))
	}
	for name, want := range map[string]string{"root": "bill mail-a mail-b", "team": "mail-a mail-b", "customer": "mail-a"} {
		answer, _ := r.callAs(name, kinesinv1connect.LambdaServiceListLambdasProcedure, `{}`)
		var got struct{ Lambdas []struct{ Name string } }
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range got.Lambdas {
			names = append(names, l.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%s sees %v, want %s", name, names, want)
		}
	}
	for _, lambda := range []string{"mail-a", "bill"} {
		r.callAs("root", kinesinv1connect.QuotaServiceSetQuotaProcedure, fmt.Sprintf(`{"lambda":%q,"rate":7}`, lambda))
		r.callAs("root", kinesinv1connect.GateServiceSetGateProcedure, fmt.Sprintf(`{"action":"pause","lambda":%q,"collection":"c7","reason":"x"}`, lambda))
		r.callAs("root", kinesinv1connect.CronServiceSetCronProcedure, fmt.Sprintf(`{"name":%q,"lambda":%q,"collection":"c7","schedule":"@daily"}`, "of-"+lambda, lambda))
	}
	for _, procedure := range []string{
		kinesinv1connect.QuotaServiceGetQuotasProcedure, kinesinv1connect.GateServiceListGatesProcedure, kinesinv1connect.CronServiceListCronsProcedure,
	} {
		for name, seesBill := range map[string]bool{"root": true, "team": false, "customer": false} {
			if answer, _ := r.callAs(name, procedure, `{}`); !strings.Contains(answer, `"mail-a"`) || strings.Contains(answer, `"bill"`) != seesBill {
				t.Errorf("%s as %s: %s", procedure, name, answer)
			}
		}
	}
	mine, theirs, none := r.later("customer", "mail-a", "c7"), r.later("root", "mail-a", "c8"), r.later("root", "mail-a", "")
	if _, code := r.callAs("customer", kinesinv1connect.TaskServiceScheduleProcedure, `{"items":[{"lambda":"mail-a","collection":"c7"},{"lambda":"mail-a","collection":"c8"}]}`); code != "permission_denied" {
		t.Errorf("a task of another collection: %q", code)
	}
	answer, code := r.callAs("customer", kinesinv1connect.TaskServiceListProcedure, `{"lambda":"mail-a"}`)
	if code != "" || !strings.Contains(answer, mine) || strings.Contains(answer, theirs) || strings.Contains(answer, none) {
		t.Errorf("list: %s", answer)
	}
	ids := fmt.Sprintf(`"ids":[%q,%q,%q]`, mine, theirs, none)
	for _, withPayload := range []string{"false", "true"} {
		answer, code = r.callAs("customer", kinesinv1connect.TaskServiceGetProcedure, `{`+ids+`,"with_payload":`+withPayload+`}`)
		if code != "" || strings.Count(answer, `"not_found"`) != 2 || strings.Count(answer, `"collection":"c7"`) != 1 ||
			strings.Count(answer, `"secret"`) > 1 || strings.Contains(answer, `"collection":"c8"`) {
			t.Errorf("get: %s", answer)
		}
	}
	answer, code = r.callAs("customer", kinesinv1connect.TaskServiceCancelProcedure, `{`+ids+`}`)
	if code != "" || strings.Count(answer, `"not_found"`) != 2 || strings.Count(answer, `"cancelled"`) != 1 {
		t.Errorf("cancel: %s", answer)
	}
	answer, _ = r.callAs("root", kinesinv1connect.TaskServiceGetProcedure, `{`+ids+`}`)
	if strings.Count(answer, `"state":"cancelled"`) != 1 || strings.Count(answer, `"state":"scheduled"`) != 2 {
		t.Errorf("after the cancel: %s", answer)
	}
}

// An identity that may schedule for one lambda names a task of another in its request id, so that it gets an
// id of its own lambda for it.
func TestAnIDOfOnesOwnLambdaForAnothersTask(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}, "evil": {"schedule:*", "read:own", "read-payload:own", "cancel:own"}})})
	for _, lambda := range []string{"own", "victim"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, fmt.Sprintf(`{"name":%q}`, lambda))
	}
	const requestID = "019af142a00070018000000000000001" // a UUIDv7
	item := `{"items":[{"lambda":%q,"request_id":"` + requestID + `","due":"2030-03-17T17:46:40Z","payload_text":"secret"}]}`
	answer, _ := r.callAs("root", kinesinv1connect.TaskServiceScheduleProcedure, fmt.Sprintf(item, "victim"))
	if !strings.Contains(answer, `"id":`) {
		t.Fatal(answer)
	}
	victim := answer
	answer, _ = r.callAs("evil", kinesinv1connect.TaskServiceScheduleProcedure, fmt.Sprintf(item, "own"))
	var got struct{ Results []struct{ ID string } }
	_ = json.Unmarshal([]byte(answer), &got)
	if len(got.Results) == 1 && got.Results[0].ID != "" {
		for _, procedure := range []string{kinesinv1connect.TaskServiceGetProcedure, kinesinv1connect.TaskServiceWaitProcedure, kinesinv1connect.TaskServiceCancelProcedure} {
			if answer, _ := r.callAs("evil", procedure, fmt.Sprintf(`{"ids":[%q]}`, got.Results[0].ID)); strings.Contains(answer, "victim") && !strings.Contains(answer, "denied") {
				t.Errorf("%s: %s", procedure, answer)
			}
		}
	}
	var of struct{ Results []struct{ ID string } }
	_ = json.Unmarshal([]byte(victim), &of)
	if again, _ := r.callAs("evil", kinesinv1connect.TaskServiceScheduleProcedure, fmt.Sprintf(item, "own")); len(got.Results) != 1 || !strings.Contains(again, got.Results[0].ID) {
		t.Errorf("a repeated call made another task: %s, %s", answer, again)
	}
	if answer, _ := r.callAs("root", kinesinv1connect.TaskServiceGetProcedure, fmt.Sprintf(`{"ids":[%q]}`, of.Results[0].ID)); !strings.Contains(answer, `"state":"scheduled"`) {
		t.Errorf("the task of the victim: %s", answer)
	}
}

// A payload is encrypted for the id of its task, which the client chooses, and which the server keeps.
func TestPayloadsOfCallersThatMayNotDoEverything(t *testing.T) {
	path := policyFile(t, map[string][]string{"root": {"*:*"}, "shop": {"schedule:mail:c7", "read:mail:c7", "read-payload:mail:c7"}})
	r := serve(t, Config{PolicyFile: path})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`)
	codec, err := sdk.NewAESGCMCodec(sdk.PayloadKey{ID: "k", Secret: bytes.Repeat([]byte("k"), 32)})
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClient(r.url, sdk.WithTokenFile(tokenFile(t, secretOf("shop"))), sdk.WithPayloadCodec(codec))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	result, err := client.Schedule(t.Context(), sdk.Item{Lambda: "mail", Collection: "c7", Payload: []byte("secret"), In: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Get(t.Context(), result.ID, sdk.WithPayload())
	if err != nil || string(got.Payload) != "secret" {
		t.Errorf("%q, %v", got.Payload, err)
	}
}

func TestALeaseEndsWithItsGrant(t *testing.T) {
	t.Parallel()
	grants := map[string][]string{"root": {"*:*"}, "worker": {"execute:mail"}, "prometheus": {"metrics"}}
	path := policyFile(t, grants)
	r := serve(t, Config{PolicyFile: path})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`)
	if answer, code := r.callAs("prometheus", kinesinv1connect.WorkerServiceRegisterProcedure, `{"name":"w"}`); code != "permission_denied" {
		t.Errorf("a lease for no lambda: %s %s", code, answer)
	}
	answer, code := r.callAs("worker", kinesinv1connect.WorkerServiceRegisterProcedure, `{"groups":[{"lambdas":["mail"],"slots":1}]}`)
	var lease struct{ Worker string }
	if err := json.Unmarshal([]byte(answer), &lease); err != nil || code != "" {
		t.Fatal(answer)
	}
	beat := func() string {
		_, code := r.callAs("worker", kinesinv1connect.WorkerServiceHeartbeatProcedure, fmt.Sprintf(`{"worker":%q}`, lease.Worker))
		return code
	}
	if code := beat(); code != "" {
		t.Fatal(code)
	}
	grants["worker"] = []string{"read:mail"}
	writeFile(t, path, policyText(grants))
	r.until("the grant is gone", func() bool { return beat() == "permission_denied" })
}

func TestOneCallerLeavesRoomForTheWaitsOfOthers(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}, "greedy": {"read:*"}})})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`)
	var ids []string
	for range 1000 {
		ids = append(ids, r.later("root", "mail", ""))
	}
	list, _ := json.Marshal(ids)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 25 {
		waiting.Go(func() {
			client := kinesinv1connect.NewTaskServiceClient(&http.Client{Transport: bearer{secretOf("greedy"), http.DefaultTransport}}, r.url, api.ClientOptions()...)
			for ctx.Err() == nil { // one may be refused because of the call below
				_, _ = client.Wait(ctx, &kinesinv1.WaitRequest{Ids: ids, Wait: 30_000_000})
			}
		})
	}
	wait := func(name string) string {
		_, code := r.callAs(name, kinesinv1connect.TaskServiceWaitProcedure, `{"ids":`+string(list)+`,"wait":"1us"}`)
		return code
	}
	r.until("no more room", func() bool { return wait("greedy") == "resource_exhausted" })
	if code := wait("root"); code != "" {
		t.Errorf("another caller: %s", code)
	}
	cancel()
	waiting.Wait()
	r.until("room", func() bool { return wait("greedy") == "" })
}

func TestPagesOfAuditRecordsAreBounded(t *testing.T) {
	r := serve(t, Config{})
	for body, want := range map[string]string{
		`{"until":"9999-12-31T23:59:59Z"}`: "", `{"since":"9999-12-31T23:59:59Z"}`: "",
		`{"after":"audit-00010101/x/0"}`: "invalid_argument", `{"after":"audit-99990101/x/0"}`: "invalid_argument", `{"after":"x"}`: "invalid_argument", `{"limit":1001}`: "invalid_argument", `{"limit":-1}`: "invalid_argument",
	} {
		if answer, code := r.callAs("", kinesinv1connect.AccessServiceListAuditProcedure, body); code != want {
			t.Errorf("%s: %s %s", body, code, answer)
		}
	}
}

// A worker takes the id of another identity's worker from a task that it may read.
func TestAWorkersIDIsNoCredential(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{
		"root": {"*:*"}, "owner": {"execute:victim"}, "evil": {"execute:other", "read:*"}, "colleague": {"execute:*"},
	})})
	for _, lambda := range []string{"victim", "other"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, fmt.Sprintf(`{"name":%q}`, lambda))
	}
	register := func(name, lambda string) string {
		t.Helper()
		answer, code := r.callAs(name, kinesinv1connect.WorkerServiceRegisterProcedure, fmt.Sprintf(`{"name":"w","groups":[{"lambdas":[%q],"slots":1}]}`, lambda))
		var got struct{ Worker string }
		if err := json.Unmarshal([]byte(answer), &got); err != nil || code != "" {
			t.Fatal(answer)
		}
		return got.Worker
	}
	owner, evil := register("owner", "victim"), register("evil", "other")
	answer, code := r.callAs("root", kinesinv1connect.TaskServiceScheduleProcedure, `{"items":[{"lambda":"victim"}]}`)
	if code != "" {
		t.Fatal(answer)
	}
	claim := func(name, worker, lambda string) (string, string) {
		return r.callAs(name, kinesinv1connect.WorkerServiceClaimProcedure, fmt.Sprintf(`{"worker":%q,"lambdas":[%q],"wait":"2s"}`, worker, lambda))
	}
	for _, c := range []struct{ name, worker, lambda string }{
		{"evil", evil, "victim"},
		{"evil", owner, "victim"},
		{"evil", owner, "other"},
		{"colleague", owner, "victim"},
		{"root", owner, "victim"},
		{"owner", evil, "victim"},
		{"root", register("root", "other"), "victim"}, // its own worker, but for another lambda
	} {
		if answer, code := claim(c.name, c.worker, c.lambda); code != "permission_denied" {
			t.Errorf("%s claimed for %s as %s: %s %s", c.name, c.lambda, c.worker, code, answer)
		}
	}
	answer, code = claim("owner", owner, "victim")
	var got struct {
		Tasks []struct {
			Claim string
		}
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || code != "" || len(got.Tasks) != 1 {
		t.Fatalf("the owner got %s %s", code, answer)
	}
	results := fmt.Sprintf(`{"worker":%q,"results":[{"claim":%q,"outcome":"success"}]}`, owner, got.Tasks[0].Claim)
	for _, name := range []string{"evil", "colleague", "root"} {
		for procedure, body := range map[string]string{
			kinesinv1connect.WorkerServiceSetResultsProcedure: results,
			kinesinv1connect.WorkerServiceHeartbeatProcedure:  fmt.Sprintf(`{"worker":%q}`, owner),
			kinesinv1connect.WorkerServiceLeaveProcedure:      fmt.Sprintf(`{"worker":%q}`, owner),
		} {
			if answer, code := r.callAs(name, procedure, body); code != "permission_denied" || !strings.Contains(answer, "another identity registered") {
				t.Errorf("%s called %s: %s %s", name, procedure, code, answer)
			}
		}
	}
	if answer, code := r.callAs("owner", kinesinv1connect.WorkerServiceSetResultsProcedure, results); code != "" || strings.Contains(answer, "problem") {
		t.Errorf("the owner's result: %s %s", code, answer)
	}
}

func TestARevokedTokenEndsItsStream(t *testing.T) {
	t.Parallel()
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}})})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`)
	answer, code := r.callAs("root", kinesinv1connect.AccessServiceCreateTokenProcedure, `{"name":"worker","grants":["execute:mail"]}`)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || code != "" {
		t.Fatal(answer)
	}
	transport := api.NewStreamTransport()
	defer transport.CloseIdleConnections()
	client := kinesinv1connect.NewWorkerServiceClient(&http.Client{Transport: bearer{made.Secret, transport}}, r.url, api.ClientOptions()...)
	lease, err := client.Register(t.Context(), &kinesinv1.RegisterRequest{Groups: []*kinesinv1.SlotGroup{{Lambdas: []string{"mail"}, Slots: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := client.Work(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&kinesinv1.WorkRequest{Hello: &kinesinv1.Hello{Worker: lease.Worker, Groups: []*kinesinv1.SlotGroup{{Lambdas: []string{"mail"}, Slots: 1}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Receive(); err != nil {
		t.Fatal(err)
	}
	if answer, code := r.callAs("root", kinesinv1connect.AccessServiceRevokeTokenProcedure, `{"name":"worker"}`); code != "" {
		t.Fatal(answer)
	}
	began := time.Now()
	for err == nil {
		_, err = stream.Receive()
	}
	if !errors.Is(api.FromWire(err), api.ErrUnauthenticated) || !strings.Contains(err.Error(), "was revoked at") {
		t.Errorf("the stream ended with %v", err)
	}
	t.Logf("after %v", time.Since(began))
	_ = errors.Join(stream.CloseRequest(), stream.CloseResponse())
	if _, err := client.Heartbeat(t.Context(), &kinesinv1.HeartbeatRequest{Worker: lease.Worker}); !errors.Is(api.FromWire(err), api.ErrUnauthenticated) {
		t.Errorf("a heartbeat: %v", err)
	}
}

func TestNobodyGrantsWhatHeHasNot(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}, "admin": {"admin:*", "read:*"}})})
	for grants, allowed := range map[string]bool{`"read:mail-*"`: true, `"admin:*"`: true, `"read:*","schedule:mail"`: false, `"*:*"`: false, `"keyring"`: false, `"read-payload:mail"`: false} {
		answer, code := r.callAs("admin", kinesinv1connect.AccessServiceCreateTokenProcedure, `{"name":"n`+hex.EncodeToString([]byte(grants))+`","grants":[`+grants+`]}`)
		if allowed != (code == "") || !allowed && (code != "permission_denied" || !strings.Contains(answer, "cannot grant")) {
			t.Errorf("%s: %s %s", grants, code, answer)
		}
	}
	for body, says := range map[string]string{
		`{"name":"admin","grants":["read:*"]}`:              "a name exists once",
		`{"name":"anonymous","grants":["read:*"]}`:          "taken by Kinesin",
		`{"name":"x","grants":["read:*"],"lifetime":"5us"}`: "want 1m0s to",
		`{"name":"x","grants":["read:*"],"lifetime":"-9s"}`: "is below zero",
		`{"name":"x","grants":["reed:*"]}`:                  "unknown verb",
		`{"name":"x"}`:                                      "want 1 to 64",
		`{"name":"x y","grants":["read:*"]}`:                "want 1 to 100 characters",
	} {
		if answer, code := r.callAs("root", kinesinv1connect.AccessServiceCreateTokenProcedure, body); code == "" || !strings.Contains(answer, says) {
			t.Errorf("%s: %s, want %q", body, answer, says)
		}
	}
}

func TestTokensOnAServerThatAsksForNone(t *testing.T) {
	r := serve(t, Config{})
	if _, code := r.callAs("", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`); code != "" {
		t.Fatal(code)
	}
	if _, code := r.callAs("somebody", kinesinv1connect.LambdaServiceListLambdasProcedure, `{}`); code != "unauthenticated" {
		t.Errorf("an unknown token: %q", code)
	}
	answer, _ := r.callAs("", kinesinv1connect.AccessServiceCreateTokenProcedure, `{"name":"team","grants":["read:mail"]}`)
	var made struct{ Secret string }
	_ = json.Unmarshal([]byte(answer), &made)
	r.as(made.Secret)
	if _, code := r.callAs("", kinesinv1connect.LambdaServiceListLambdasProcedure, `{}`); code != "" {
		t.Errorf("a made token: %q", code)
	}
	if _, code := r.callAs("", kinesinv1connect.TaskServiceScheduleProcedure, `{"items":[{"lambda":"mail"}]}`); code != "permission_denied" {
		t.Errorf("beyond its grants: %q", code)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		if status, body := r.get(path); status != http.StatusForbidden || !strings.Contains(body, "team has no grant for") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// audited returns all audit records.
func (r *running) audited() (records []auditRecord) {
	r.t.Helper()
	answer, code := r.callAs("root", kinesinv1connect.AccessServiceListAuditProcedure, `{"limit":1000}`)
	var got struct{ Records []auditRecord }
	if err := json.Unmarshal([]byte(answer), &got); err != nil || code != "" {
		r.t.Fatal(answer)
	}
	return got.Records
}

type auditRecord struct {
	Identity, From, Action, Target, Outcome string
	Before, After                           json.RawMessage
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ours, others := tlstest.New(t), tlstest.New(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "policy.yaml"), "client_ca_file: "+ours.File+`
identities:
  - name: biller
    certificate: {uri: "spiffe://example.org/biller"}
grants:
  - identity: biller
    allow: ["admin:bill"]
`)
	r := serveTLS(t, Config{PolicyFile: file, TLSCertFile: ours.CertFile, TLSKeyFile: ours.KeyFile}, ours)
	call := func(with ...tls.Certificate) (string, error) {
		for _, transport := range []*http.Transport{api.NewCallTransport(), api.NewStreamTransport()} {
			transport.TLSClientConfig = ours.Trust()
			transport.TLSClientConfig.Certificates = with
			defer transport.CloseIdleConnections()
			client := kinesinv1connect.NewLambdaServiceClient(&http.Client{Transport: transport}, r.url, api.ClientOptions()...)
			if _, err := client.CreateLambda(t.Context(), &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "bill"}}); err != nil {
				return connect.CodeOf(err).String(), err
			}
		}
		return "", nil
	}
	if code, err := call(ours.Client("spiffe://example.org/biller")); code != "" {
		t.Errorf("its own: %v", err)
	}
	if code, err := call(ours.Client("spiffe://example.org/other")); code != "unauthenticated" || !strings.Contains(err.Error(), "no identity") {
		t.Errorf("another name: %v", err)
	}
	if code, err := call(); code != "unauthenticated" {
		t.Errorf("none: %v", err)
	}
	if code, err := call(others.Client("spiffe://example.org/biller")); code == "" || code == "permission_denied" {
		t.Errorf("signed by others: %v", err)
	}
	if _, err := New(t.Context(), Config{PolicyFile: file, DataDir: t.TempDir()}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "need TLS") {
		t.Errorf("without TLS: %v", err)
	}
}

func TestWhatIsAudited(t *testing.T) {
	t.Parallel()
	grants := map[string][]string{"root": {"*:*"}, "team": {"read:mail"}}
	path := policyFile(t, grants)
	var printed bytes.Buffer
	var exported atomic.Int64 // requests to a collector
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { exported.Add(1) }))
	defer collector.Close()
	r := serve(t, Config{PolicyFile: path, AuditTo: &printed, OTLPEndpoint: collector.URL})
	r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"mail"}`)
	r.callAs("root", kinesinv1connect.LambdaServiceUpdateLambdaProcedure, `{"name":"mail","max_attempts":3}`)
	r.callAs("team", kinesinv1connect.LambdaServiceDeleteLambdaProcedure, `{"name":"mail"}`)
	r.callAs("stranger", kinesinv1connect.LambdaServiceDeleteLambdaProcedure, `{"name":"mail"}`)
	r.callAs("team", kinesinv1connect.AccessServiceCreateTokenProcedure, `{"name":"mine","grants":["*:*"]}`)
	r.callAs("team", kinesinv1connect.AccessServiceListTokensProcedure, `{}`)
	r.callAs("root", kinesinv1connect.QuotaServiceSetQuotaProcedure, `{"lambda":"mail","rate":100}`)
	r.callAs("root", kinesinv1connect.QuotaServiceSetQuotaProcedure, `{"lambda":"mail","rate":200}`)
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		token.Put(request.Header, secretOf("team"))
		response, err := r.http.Do(request)
		if err != nil || response.StatusCode != http.StatusForbidden {
			t.Fatal(response, err)
		}
		_ = response.Body.Close()
	}
	answer, _ := r.callAs("root", kinesinv1connect.WorkerServiceRegisterProcedure, `{"groups":[{"lambdas":["mail"],"slots":1}]}`)
	var lease struct{ Worker string }
	_ = json.Unmarshal([]byte(answer), &lease)
	r.callAs("team", kinesinv1connect.WorkerServiceLeaveProcedure, fmt.Sprintf(`{"worker":%q}`, lease.Worker))
	id := r.later("root", "mail", "")
	r.callAs("root", kinesinv1connect.TaskServiceGetProcedure, fmt.Sprintf(`{"ids":[%q],"with_payload":true}`, id))
	r.callAs("root", kinesinv1connect.TaskServiceRescheduleProcedure, fmt.Sprintf(`{"ids":[%q],"delay":"1h"}`, id))
	r.callAs("root", kinesinv1connect.TaskServiceUpdateProcedure, fmt.Sprintf(`{"updates":[{"id":%q,"max_attempts":7}]}`, id))
	r.callAs("root", kinesinv1connect.TaskServiceCancelProcedure, fmt.Sprintf(`{"ids":[%q]}`, id))
	r.callAs("root", kinesinv1connect.TaskServiceRedriveProcedure, fmt.Sprintf(`{"ids":[%q]}`, id))
	writeFile(t, path, policyText(grants)+"extra: 1")
	r.until("the policy is read again", func() bool {
		_, code := r.callAs("root", kinesinv1connect.TaskServiceListProcedure, `{"lambda":"mail"}`)
		return code != "" || strings.Contains(r.logs.String(), "reload failed")
	})
	records := r.audited()
	for _, want := range []string{
		"root lambda.create mail ok", "root lambda.update mail ok", "team lambda.delete mail denied",
		"- call /kinesin.v1.LambdaService/DeleteLambda unauthenticated: unknown", "root task.read_payload mail ok", "root task.cancel mail ok",
		"root task.reschedule mail ok", "root task.update mail ok", "root task.redrive mail ok",
		"server policy.reload " + path + " failed: ", "team token.create mine denied", "team token.list * denied", "root quota.set mail ok",
		"team read /metrics denied", "team read /debug/pprof/ denied", "team worker.lease " + lease.Worker + " denied",
	} {
		found := false
		for _, g := range records {
			found = found || strings.HasPrefix(strings.Join([]string{g.Identity, g.Action, g.Target, g.Outcome}, " "), want) && g.From != ""
			if g.Action == "lambda.update" && (!strings.Contains(string(g.Before), `"max_attempts":10`) || !strings.Contains(string(g.After), `"max_attempts":3`)) {
				t.Errorf("before %s, after %s", g.Before, g.After)
			}
			if g.Action == "quota.set" && strings.Contains(string(g.After), `"rate":200`) && !strings.Contains(string(g.Before), `"rate":100`) {
				t.Errorf("before %s, after %s", g.Before, g.After)
			}
		}
		if !found {
			t.Errorf("no record of %q in %s", want, answer)
		}
	}
	if answer, _ := r.callAs("root", kinesinv1connect.AccessServiceVerifyAuditProcedure, `{}`); strings.Contains(answer, "problem") {
		t.Error(answer)
	}
	r.http.Transport = bearer{secretOf("root"), r.http.Transport}
	r.wantMetric("kinesin_policy_refused", "1")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if exported.Load() == 0 {
		t.Error("the collector got nothing")
	}
	lines := bytes.Split(bytes.TrimSpace(printed.Bytes()), []byte("\n"))
	if len(lines) < len(records) {
		t.Errorf("%d lines of %d records", len(lines), len(records))
	}
	for _, line := range lines {
		fields := map[string]any{}
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"at", "identity", "from", "action", "target", "outcome"} {
			if _, there := fields[name]; !there {
				t.Errorf("%s has no %s", line, name)
			}
		}
	}
}

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
