package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const declared = `
name: billing
lambdas:
  - name: report
    max_attempts: 3
    timeout: 30m
    backoff_min: 5s
    backoff_max: 1m
    priorities: [high, low]
    priority_weights: {high: 8, low: 1}
    start_within: null
    key_retention:
    breaker: {failures: 0.5}
quotas:
  - {lambda: report, rate: 100, burst: 20, recovery: 5}
  - {lambda: report, priority: low, concurrency: 3}
objectives:
  - {lambda: report, within: 5s, objective: 99.5}
crons:
  - name: nightly
    lambda: report
    schedule: 30 2 * * *
    zone: Europe/Berlin
    start: 2026-01-01T01:00:00+01:00
    payload: {"at": "{{nominal}}"}
    tags: {kind: night}
    catch_up: all
    catch_up_max: 5
  - name: sync
    lambda: report
    schedule: "@every 90s"
    priority: low
    payload_text: plain
`

func (s *site) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func TestApply(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := s.write("a.yaml", declared)
	const created = "+ lambda report\n+ quota report\n+ quota report priority low\n+ objective report\n+ cron nightly\n+ cron sync"
	if got := s.must("apply", "-f", file, "--dry-run"); got != created {
		t.Error(got)
	}
	if got := s.must("cron", "list") + s.must("audit", "list", "-o", "json"); got != "" {
		t.Errorf("a dry run made %s", got)
	}
	if got := s.must("apply", "-f", file); got != created {
		t.Error(got)
	}
	if got := s.must("apply", "-f", file); got != "no changes" {
		t.Error(got)
	}
	if one := s.object("cron", "get", "nightly"); fmt.Sprint(one["payload"]) != "map[at:{{nominal}}]" || one["managed_by"] != "billing" || one["revision"] != 1.0 || one["start"] != "2026-01-01T00:00:00.000000Z" {
		t.Errorf("%v", one)
	}

	records := strings.Count(s.must("audit", "list", "-o", "json"), "cron.set")
	seconds := s.write("seconds.yaml", strings.Replace(declared, "30 2", "0 30 2", 1))
	s.do("apply", "--dry-run", "-f", seconds).check(t, "six fields", 0, "cron nightly: the expression has six fields, so the first is seconds; it fires next at 20")
	if got := strings.Count(s.must("audit", "list", "-o", "json"), "cron.set"); got != records || records != 2 {
		t.Errorf("%d records of changes of crons, %d before a dry run", got, records)
	}

	changed := strings.NewReplacer("30 2", "0 3", "timeout: 30m", "timeout: 1h", "payload_text: plain", "payload_text: other", "zone: Europe/Berlin", "zone: UTC",
		"burst: 20, recovery: 5", "burst: 20", "objective: 99.5", "objective: 99").Replace(declared)
	lines := s.objects("apply", "-f", s.write("b.yaml", changed), "-o", "json")
	if got := fmt.Sprint(lines); got != "[map[action:update changes:[map[from:30m setting:timeout to:1h]] kind:lambda line:4 name:report]"+
		" map[action:update changes:[map[from:5 setting:recovery to:]] kind:quota line:15 name:report]"+
		" map[action:unchanged kind:quota line:16 name:report priority low]"+
		" map[action:update changes:[map[from:99.5 setting:objective to:99]] kind:objective line:18 name:report]"+
		" map[action:update changes:[map[from:30 2 * * * setting:schedule to:0 3 * * *] map[from:Europe/Berlin setting:zone to:UTC]] kind:cron line:20 name:nightly]"+
		" map[action:update changes:[map[from: setting:payload to:]] kind:cron line:29 name:sync]]" {
		t.Error(got)
	}
	if got := fmt.Sprint(s.objects("quota", "list")); strings.Contains(got, "recovery:5") || !strings.Contains(got, "burst:20") || strings.Count(got, "managed_by:billing") != 2 {
		t.Error(got)
	}
	if one := s.objects("objective", "list")[0]; one["objective"] != 99.0 || one["managed_by"] != "billing" || one["window"] != "720h" {
		t.Errorf("%v", one)
	}
	if one := s.object("lambda", "get", "report"); one["timeout"] != "1h" || one["max_attempts"] != 3.0 {
		t.Errorf("%v", one)
	}
}

// A field of a lambda that is null takes the setting away, and what a message in it leaves out stays.
func TestApplyOfNull(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := func(fields string) string { return s.write("a.yaml", "lambdas:\n  - {name: mail, "+fields+"}\n") }
	s.must("apply", "-f", file("breaker: {failures: 0.5, window: 2m}, start_within: 1h, key_retention: 2d, limit_key_rate: 5, limit_key_concurrency: 2, retry_share: 0.5, priority_weights: {high: 8}"))
	if got := s.must("apply", "-f", file("breaker: {failures: 0.5}, priority_weights: {high: 8, low: 1}")); got != "no changes" {
		t.Error(got)
	}
	none := file("breaker: null, start_within: null, key_retention: null, limit_key_rate: null, limit_key_concurrency: null, retry_share: null, priority_weights: null, timeout: 1h")
	const want = `~ lambda mail: timeout 15m -> 1h, key_retention 48h -> none, start_within 1h -> none, priority_weights {"high":8,"low":1,"normal":1} -> none, ` +
		`limit_key_concurrency 2 -> none, limit_key_rate 5 -> none, retry_share 0.5 -> none, breaker {"failures":0.5,"window":"2m"} -> none`
	if got := s.must("apply", "-f", none); got != want {
		t.Error(got)
	}
	if got := s.must("apply", "-f", none); got != "no changes" {
		t.Error(got)
	}
}

// Only crons that an earlier apply of the same set made are pruned, and only when asked.
func TestApplyPrunesItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "report")
	one := "  - {name: %s, lambda: report, schedule: '@daily'}\n"
	write := func(set string, names ...string) string {
		text := "name: " + set + "\ncrons:\n"
		for _, name := range names {
			text += fmt.Sprintf(one, name)
		}
		return s.write(set+".yaml", text)
	}
	s.must("cron", "create", "hand", "--lambda", "report", "--schedule", "@daily")
	s.must("apply", "-f", write("a", "a1", "a2"))
	s.must("apply", "-f", write("b", "b1"), "--prune")
	o := s.do("apply", "-f", write("a", "a1"))
	o.check(t, "without prune", 0, "1 of set a are not in the file")
	if o.stdout != "keep cron a2\nno changes\n" {
		t.Error(o.stdout)
	}
	if got := s.must("apply", "-f", write("a", "a1"), "--prune", "--dry-run"); got != "- cron a2" {
		t.Error(got)
	}
	s.must("apply", "-f", write("a", "a1"), "--prune")
	var left []string
	for _, c := range s.objects("cron", "list") {
		left = append(left, fmt.Sprint(c["name"], " ", c["managed_by"]))
	}
	if got := strings.Join(left, ", "); got != "a1 a, b1 b, hand <nil>" {
		t.Error(got)
	}
	// one that was made by hand becomes one of the set, and that of another set does not
	if got := s.must("apply", "-f", write("a", "a1", "hand")); got != "~ cron hand: managed_by none -> a" {
		t.Error(got)
	}
	if one := s.object("cron", "get", "hand"); one["revision"] != 1.0 {
		t.Errorf("to be managed changed what fires: %v", one)
	}
	s.do("apply", "-f", write("a", "new", "b1")).check(t, "of another set", 1, "line 4", "managed by set b")
	if s.do("cron", "get", "new").code == 0 {
		t.Error("something was made of a file that was refused")
	}
	s.must("cron", "set", "b1", "--reset", "managed_by")
	s.must("apply", "-f", write("a", "a1", "b1"))
}

// Quotas and objectives are pruned as crons are: only those that apply made, of this set, when asked.
func TestApplyPrunesLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "report")
	s.must("lambda", "create", "other")
	const some = `name: a
quotas:
  - {lambda: report, rate: 10}
  - {lambda: report, admit: 5, identity: crm}
objectives:
  - {lambda: report, within: 5s, objective: 99}
`
	s.must("apply", "-f", s.write("a.yaml", some))
	s.must("quota", "set", "other", "--rate", "1")
	s.must("objective", "set", "other", "--within", "1s", "--objective", "90")
	none := s.write("none.yaml", "name: a\ncrons: []\n")
	const gone = "- quota report\n- quota report identity crm\n- objective report"
	if got := s.must("apply", "-f", none); got != strings.ReplaceAll(gone, "- ", "keep ")+"\nno changes" {
		t.Error(got)
	}
	if got := s.must("apply", "-f", none, "--prune", "--dry-run"); got != gone {
		t.Error(got)
	}
	if got := s.objects("quota", "list"); len(got) != 3 {
		t.Errorf("a dry run changed quotas: %v", got)
	}
	if got := s.must("apply", "-f", none, "--prune"); got != gone {
		t.Error(got)
	}
	if got := s.must("apply", "-f", none, "--prune"); got != "no changes" {
		t.Error(got)
	}
	if quotas, slos := s.objects("quota", "list"), s.objects("objective", "list"); len(quotas) != 1 || quotas[0]["lambda"] != "other" || len(slos) != 1 || slos[0]["lambda"] != "other" {
		t.Errorf("%v %v", quotas, slos)
	}
	s.must("apply", "-f", s.write("a.yaml", some))
	b := s.write("b.yaml", strings.Replace(some, "name: a", "name: b", 1))
	s.do("apply", "-f", b).check(t, "of another set", 1, "b.yaml: line 3", "quota report is managed by set a", "kinesin quota set report --reset managed_by")
	s.must("quota", "set", "report", "--reset", "managed_by")
	s.must("quota", "set", "report", "--identity", "crm", "--admit", "5", "--reset", "managed_by")
	s.do("apply", "-f", b).check(t, "of another set", 1, "b.yaml: line 6", "objective of report is managed by set a", "kinesin objective delete report")
	s.must("objective", "delete", "report")
	if got := s.must("apply", "-f", b); got != "~ quota report: managed_by none -> b\n~ quota report identity crm: managed_by none -> b\n+ objective report" {
		t.Error(got)
	}
}

// The complete example of docs/how-to/settings-in-a-file.md is what it says, and applied again it changes nothing.
func TestTheExampleOfApply(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/how-to/settings-in-a-file.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n# file: billing.yaml\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("docs/how-to/settings-in-a-file.md has no example")
	}
	s := newSite(t)
	file := s.write("billing.yaml", string(example[1]))
	const diff = "+ lambda report\n+ lambda mail\n+ quota report\n+ quota report priority low\n+ quota mail\n+ quota mail identity crm\n" +
		"+ objective report\n+ cron nightly\n+ cron reminders"
	for _, args := range [][]string{{"--dry-run"}, nil} {
		if got := s.must(append([]string{"apply", "-f", file}, args...)...); got != diff {
			t.Errorf("%v: %s", args, got)
		}
	}
	for _, args := range [][]string{nil, {"--prune"}, {"--dry-run"}} {
		if got := s.must(append([]string{"apply", "-f", file}, args...)...); got != "no changes" {
			t.Errorf("again, %v: %s", args, got)
		}
	}
	// the diff that the page shows, of what somebody changed by hand
	s.must("quota", "set", "report", "--priority", "low", "--rate", "2", "--burst", "1")
	s.must("cron", "set", "nightly", "--schedule", "0 3 * * *")
	s.must("cron", "create", "weekly", "--lambda", "mail", "--schedule", "@weekly", "--managed-by", "billing")
	const changes = "~ quota report priority low: rate 2 -> 5, burst 1 -> 10\n~ cron nightly: schedule 0 3 * * * -> 30 2 * * *\n- cron weekly"
	if got := s.must("apply", "-f", file, "--prune"); got != changes {
		t.Error(got)
	}
	for line := range strings.Lines(changes) {
		if !strings.Contains(string(page), strings.TrimSpace(line)) {
			t.Errorf("docs/how-to/settings-in-a-file.md does not show %s", line)
		}
	}
}

func TestDeclarationsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "report")
	s.must("lambda", "create", "other")
	s.must("cron", "create", "there", "--lambda", "other", "--schedule", "@daily")
	s.must("cron", "create", "same", "--lambda", "report", "--schedule", "@hourly")
	const head = "crons:\n  - name: x\n    lambda: report\n    schedule: '@daily'\n"
	for name, c := range map[string]struct {
		text string
		code int
		says []string
	}{
		"a field":       {head + "    zoen: UTC\n", 2, []string{"line 5", `unknown field "zoen"`, "zone"}},
		"a section":     {"jobs: []\n", 2, []string{"f.yaml: line 1", `unknown field "jobs"`, "crons, lambdas, name, objectives, quotas"}},
		"of a lambda":   {"lambdas:\n  - name: x\n    schedule: x\n", 2, []string{"line 3", `unknown field "schedule"`}},
		"a flag":        {head + "    catch-up: all\n", 2, []string{"line 5", "catch_up"}},
		"read only":     {head + "    revision: 3\n", 2, []string{"line 5", `unknown field "revision" in the cron`}},
		"of the set":    {head + "    managed_by: b\n", 2, []string{"line 5", `unknown field "managed_by"`}},
		"deep":          {head + "    tags: {a: b, a: c}\n", 2, []string{"line 5", `"a" is there twice`}},
		"in a message":  {"lambdas:\n  - name: x\n    breaker: {failure: 0.5}\n", 2, []string{"line 3", `unknown field "failure" in breaker; allowed here: failures, window`}},
		"null":          {"lambdas:\n  - name: report\n    shards: null\n", 1, []string{"line 3", "shards: null is no value"}},
		"null of what":  {"lambdas:\n  - name: x\n    shard: null\n", 2, []string{"line 3", `unknown field "shard"`}},
		"bounds of one": {"lambdas:\n  - name: x\n    timeout: 1ms\n", 2, []string{"line 3", "timeout: 1ms is out of range: want 100ms to 720h"}},
		"a number":      {"lambdas:\n  - name: x\n    timeout: 30\n", 2, []string{"line 3", "timeout: 30 is no duration"}},
		"twice":         {head + "  - name: x\n    lambda: report\n    schedule: '@daily'\n", 2, []string{"line 5", "cron x is there twice"}},
		"a key twice":   {head + "    lambda: report\n", 2, []string{"line 5", "twice"}},
		"an expression": {strings.Replace(head, "@daily", "0 0 30 2 *", 1), 2, []string{"line 2", "never fires"}},
		"a zone":        {head + "    zone: Europe/Berln\n", 2, []string{"line 2", "Europe/Berlin"}},
		"a choice":      {head + "    gap: jump\n", 2, []string{"line 5", "shift or skip"}},
		"a word":        {head + "    failures_max: many\n", 2, []string{"line 5", "many"}},
		"a mapping":     {head + "    zone: {a: b}\n", 2, []string{"line 5", "zone"}},
		"an alias":      {"name: &n a\ncrons: *n\n", 2, []string{"alias"}},
		"two documents": {head + "---\nname: b\n", 2, []string{"line 5", "one document"}},
		"no YAML":       {"crons: [", 2, []string{"line 1"}},
		"nothing":       {"", 2, []string{"empty"}},
		"no list":       {"crons: {x: {lambda: report}}\n", 2, []string{"line 1", "list"}},
		"a name":        {"name: a b\n", 2, []string{"name of the set"}},
		"a lambda":      {strings.Replace(head, "report", "reprt", 1), 1, []string{"line 2", "reprt"}},
		"bounds":        {head + "    catch_up_max: 5\n", 2, []string{"line 2", "catch_up: all"}},
		"its lambda":    {strings.Replace(head, "name: x", "name: there", 1), 1, []string{"line 2", "is of lambda other"}},
		"a priority":    {head + "    priority: urgent\n", 1, []string{"line 2", "cron x: invalid priority \"urgent\": lambda report has high, normal, low"}},
		"over":          {head + "    end: 2020-01-01T00:00:00Z\n", 1, []string{"f.yaml: line 2: cron x: check cron:", "fires no more"}},
		"over now":      {strings.Replace(head, "name: x", "name: same", 1) + "    end: 2020-01-01T00:00:00Z\n", 1, []string{"line 2", "fires no more"}},
		"not yet":       {"lambdas:\n  - {name: new}\n" + strings.Replace(head, "report", "new", 1) + "    priority: urgent\n", 1, []string{"line 4", "urgent"}},
		"of its own":    {"lambdas:\n  - {name: new, priorities: [a]}\nquotas:\n  - {lambda: new, priority: low, rate: 1}\n", 1, []string{"line 4", "lambda new has a"}},
		"priorities":    {"lambdas:\n  - name: report\n    priorities: [a]\n", 1, []string{"f.yaml: line 2", "cannot change"}},

		"no limit":       {"quotas:\n  - lambda: report\n    rate: null\n", 2, []string{"line 2", "nothing to set: want rate"}},
		"octal":          {"lambdas:\n  - name: report\n    max_attempts: 010\n", 2, []string{"line 3", "010 is not a number as JSON has it"}},
		"a rate of -0":   {"quotas:\n  - lambda: report\n    rate: -0.0\n    concurrency: 5\n", 2, []string{"line 3", "rate: a 0 or an empty value is not allowed"}},
		"a rate of 0":    {"quotas:\n  - lambda: report\n    rate: 0\n    concurrency: 5\n", 2, []string{"line 3", "rate: a 0 or an empty value is not allowed"}},
		"attempts of 0":  {"lambdas:\n  - name: report\n    max_attempts: 0\n", 2, []string{"line 3", "max_attempts: 0 is not a whole number from 1"}},
		"a breaker":      {"lambdas:\n  - name: report\n    breaker: {}\n", 2, []string{"line 3", "breaker"}},
		"a rate":         {"quotas:\n  - lambda: report\n    rate: fast\n", 2, []string{"line 3", `rate: "fast" is not a number`}},
		"a burst":        {"quotas:\n  - {lambda: report, concurrency: 1, burst: 5}\n", 2, []string{"line 2", "burst goes with a rate"}},
		"of an identity": {"quotas:\n  - {lambda: report, rate: 1, admit: 1, identity: crm}\n", 2, []string{"line 2", "identity does not go with rate"}},
		"a quota twice":  {"quotas:\n  - {lambda: report, rate: 1}\n  - {lambda: report, rate: 2}\n", 2, []string{"line 3", "quota report is there twice"}},
		"of nobody":      {"quotas:\n  - {lambda: nobody, rate: 1}\n", 1, []string{"line 2", "nobody"}},
		"a quota field":  {"quotas:\n  - {lambda: report, limit: 1}\n", 2, []string{"line 2", `unknown field "limit"`, "admit, burst, concurrency, identity, lambda"}},
		"100 %":          {"objectives:\n  - {lambda: report, within: 5s, objective: 100}\n", 2, []string{"line 2", "below 100"}},
		"no within":      {"objectives:\n  - {lambda: report, objective: 99}\n", 2, []string{"line 2", "within is missing"}},
		"of a priority":  {"quotas:\n  - {lambda: report, priority: urgent, rate: 1}\n", 1, []string{"line 2", "lambda report has high, normal, low"}},
		"a window":       {"objectives:\n  - {lambda: report, within: 5s, objective: 99, window: 90m}\n", 2, []string{"line 2", "whole hours"}},
	} {
		for _, dryRun := range []string{"--dry-run", "--dry-run=false"} {
			s.do("apply", "-f", s.write("f.yaml", c.text), dryRun).check(t, name+" "+dryRun, c.code, c.says...)
		}
	}
	if got := s.objects("cron", "list"); len(got) != 2 || s.do("lambda", "get", "new").code == 0 {
		t.Errorf("something was made of a file that was refused: %v", got)
	}
	s.do("apply").check(t, "no file", 2, "-f is missing")
	s.do("apply", "-f", "/does/not/exist").check(t, "no such file", 2, "exist")
	s.do("apply", "-f", "x", "y").check(t, "too many", 2, "y")
	// what only a server knows that has the lambda: the others are applied
	late := "lambdas:\n  - {name: new}\n" + strings.Replace(head, "report", "new", 1) + "    end: 2020-01-01T00:00:00Z\n  - {name: y, lambda: report, schedule: '@daily'}\n"
	o := s.do("apply", "-f", s.write("g.yaml", late))
	o.check(t, "a lambda to come", 1, "1 of 3 were refused")
	if !strings.Contains(o.stdout, "+ cron x: refused (") || !strings.Contains(o.stdout, "g.yaml: line 4): ") || !strings.Contains(o.stdout, "\n+ cron y\n") {
		t.Error(o.stdout)
	}
}

func TestABackfillOfTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "report")
	s.must("cron", "create", "hourly", "--lambda", "report", "--schedule", "@hourly")
	past := []string{"cron", "backfill", "hourly", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z"}
	dry := s.object(append(past, "--dry-run")...)
	b, _ := dry["backfill"].(map[string]any)
	if sample, _ := b["sample"].([]any); dry["matched"] != 24.0 || dry["state"] != "counted" || b["cron"] != "hourly" || len(sample) != 10 {
		t.Errorf("%v", dry)
	}
	if done := s.object(append(past, "--pace", "1000")...); done["state"] != "done" || fmt.Sprint(done["outcomes"]) != "map[scheduled:24]" {
		t.Errorf("%v", done)
	}
	if text := plain(s.must(past...)); !strings.Contains(text, "outcomes 24 backfilled") || !strings.Contains(text, "occurrences hourly from 2026-01-01") {
		t.Error(text)
	}
	if got := s.must("count", "--where", "lambda=report and state!=success"); got != "25" { // one is to come
		t.Error(got)
	}
	s.must("cron", "create", "often", "--lambda", "report", "--schedule", "@every 1s")
	s.do("cron", "backfill", "often", "--from", "2026-01-01T00:00:00Z", "--to", "2026-04-26T17:46:40Z").check(t, "so many", 1, "10000000 nominal times", "--all")
	for line, want := range map[string]string{
		"backfill": "NAME is missing", "backfill hourly": "--from and --to are missing", "backfill a b": "one argument too many",
		"backfill hourly --from 2026-01-02T00:00:00Z --to 2026-01-01T00:00:00Z":                    "--from is not before --to",
		"backfill hourly --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z --dry-run --detach": "--detach",
		"backfill hourly --from monday --to 2026-01-02T00:00:00Z":                                  "monday",
	} {
		s.do(append([]string{"cron"}, strings.Fields(line)...)...).check(t, line, 2, want)
	}
}
