package cli_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/cmd/kinesin/cli"
	"github.com/kinesin-io/kinesin/internal/logging"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/server"
)

// TestMain lets the test binary be its own guard process: that is how a worker starts one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "worker-guard" {
		os.Exit(cli.Run(context.Background(), cli.Process{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	os.Exit(m.Run())
}

// site is a running server.
type site struct {
	t   *testing.T
	url string
}

func newSite(t *testing.T) *site {
	t.Helper()
	control, log := logging.New(io.Discard, false, slog.LevelInfo)
	s, err := server.New(t.Context(), server.Config{
		DataDir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0", Log: slog.New(log), LogControl: control,
	})
	if err != nil {
		t.Fatal(err)
	}
	runtest.Start(t, s.Run)
	return &site{t, "http://" + s.Addr().String()}
}

// outcome is what a command line came to.
type outcome struct {
	code           int
	stdout, stderr string
}

func (s *site) do(args ...string) outcome { return s.doWith("", args...) }

func (s *site) doWith(stdin string, args ...string) outcome {
	s.t.Helper()
	return run(s.t.Context(), []string{"KINESIN_SERVER=" + s.url, "PATH=" + os.Getenv("PATH")}, stdin, args...)
}

// must wants exit code 0 and returns what was printed.
func (s *site) must(args ...string) string {
	s.t.Helper()
	o := s.do(args...)
	if o.code != 0 {
		s.t.Fatalf("%v: exit %d: %s", args, o.code, o.stderr)
	}
	return strings.TrimSuffix(o.stdout, "\n")
}

// object is the JSON object that a command prints.
func (s *site) object(args ...string) map[string]any {
	s.t.Helper()
	var o map[string]any
	if text := s.must(append(args, "-o", "json")...); json.Unmarshal([]byte(text), &o) != nil {
		s.t.Fatalf("%v: no JSON object: %s", args, text)
	}
	return o
}

// objects returns the objects of a result with several: an array, or an object with one.
func (s *site) objects(args ...string) (all []map[string]any) {
	s.t.Helper()
	text := s.must(append(args, "-o", "json")...)
	if json.Unmarshal([]byte(text), &all) == nil {
		return all
	}
	var answer map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &answer) == nil {
		for _, member := range answer {
			if json.Unmarshal(member, &all) == nil {
				return all
			}
		}
	}
	s.t.Fatalf("%v: no JSON array: %s", args, text)
	return nil
}

// serve runs tasks of a lambda in this process.
func (s *site) serve(lambda string, h sdk.Handler) {
	s.t.Helper()
	k, err := sdk.NewClient(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	w := sdk.NewWorker(k, sdk.Slots(100), sdk.Grace(0))
	w.Register(lambda, h)
	s.t.Cleanup(k.Close)
	runtest.Start(s.t, w.Run)
}

func run(ctx context.Context, env []string, stdin string, args ...string) outcome {
	var stdout, stderr runtest.Text
	code := cli.Run(ctx, cli.Process{Args: args, Env: env, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr})
	return outcome{code, stdout.String(), stderr.String()}
}

func (o outcome) check(t *testing.T, what any, code int, says ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("%v: exit %d, want %d: %s", what, o.code, code, o.stderr)
	}
	for _, text := range says {
		if !strings.Contains(o.stderr, text) {
			t.Errorf("%v: stderr %q does not say %q", what, o.stderr, text)
		}
	}
	if strings.Contains(o.stderr, "goroutine ") {
		t.Errorf("%v: a stack trace: %s", what, o.stderr)
	}
}

func TestBadUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		says string
	}{
		{"", "a command is missing"},
		{"debug", "a command is missing"},
		{"top extra", "extra"},
		{"serve --backup-every 10s", "--backup-to"},
		{"serve --backup-to d --backup-every 1ms", "want at least 1s"},
		{"restore --from d --data e extra", "extra"},
		{"restore --from d", "--data is missing"},
		{"standby --from d", "--from and --data are needed"},
		{"standby --data d", "--from and --data are needed"},
		{"standby --from d --data e extra", "extra"},
		{"restore --data e", "--from is missing"},
		{"top --every 1ms", "--every"},
		{"slo", "a command is missing"},
		{"objective set --within 5s --objective 99", "LAMBDA is missing"},
		{"objective set mail --objective 99", "--within is missing"},
		{"objective set mail --within 5s --objective 100", "below 100"},
		{"objective set mail --within 5s --objective NaN", `"NaN" is not a number`},
		{"objective set mail --within 5s --objective abc", `"abc" is not a number`},
		{"objective set mail --within 5s --objective 99 --window 90m", "whole hours"},
		{"objective set mail --within 5s --objective 99 --window 91d", "--window"},
		{"objective list extra", "extra"},
		{"objective delete", "LAMBDA is missing"},
		{"objective get a b", "b"},
		{"debug bundle extra", "extra"},
		{"debug log-level info extra", "at most 1"},
		{"serve --trace-sample 2", "want 0 to 1"},
		{"serve --trace-sample 0.5", "--otlp-endpoint"},
		{"serve --metric-lambdas 0", "--metric-lambdas"},
		{"frobnicate", `unknown command "frobnicate"`},
		{"shedule x", "did you mean schedule?"},
		{"lambda", "a command is missing"},
		{"lambda frob", "unknown command"},
		{"get", "ID is missing"},
		{"cancel", "ID is missing"},
		{"wait", "ID is missing"},
		{"list --order ended", "want due, -created or -ended"},
		{"count a extra", "extra"},
		{"count a/b", "invalid lambda name"},
		{"stats a extra", "extra"},
		{"lambda get mail --count --live=false", "--count is about live figures"},
		{"cancel --dry-run", "--where is missing"},
		{"cancel id --where state=dead", "want no IDs"},
		{"redrive --where state=dead --payload x", "--payload is for one task"},
		{"redrive --where state=dead --payload-file x", "--payload-file is for one task"},
		{"redrive a b --payload x", "for one task, and not for 2"},
		{"redrive a --payload x --payload-file y", "exclude each other"},
		{"reschedule --all --by 1h --if-seq 3", "--if-seq is for one task"},
		{"cancel --where state=dead --pace -1", "--pace"},
		{"cancel k1abc --if-seq 0", "is no seq of a task: want a whole number from 1"},
		{"reschedule --where state=dead --spread 0s", "0s is too short"},
		{"redrive", "ID is missing"},
		{"get --key k", "--lambda and --key together"},
		{"cancel --lambda greet --key k k1abc", "leave the IDs out"},
		{"reschedule k1abc", "want --in D or --at TIME"},
		{"update k1abc", "nothing to change"},
		{"update k1abc --priority=", "want one of the lambda's priorities"},
		{"update k1abc --backoff 1m..1s", "is not a range"},
		{"list --where state=", "--where: bad filter at character 7"},
		{"count mail --where x=1", "unknown field"},
		{"cancel --lambda mail --where state=ded", "at character 7"},
		{"update k1abc k1def --payload x", "one task"},
		{"schedule greet --on-conflict replace", "--key"},
		{"schedule greet --key k --on-conflict merge", "keep"},
		{"expire extra", "--where is missing"},
		{"expire k1AaIt9e3CfMWyzr3jpvXS0AGiLfXtw4ov8OMBAAChcfIxMsnZdx6xwmOi", "want no IDs; --where 'any~^k1AaIt9e3CfMWyzr3jpvXS0' selects this one"},
		{"dead-letter", "a command is missing"},
		{"dead-letter list", "LAMBDA is missing"},
		{"dead-letter list a/b", "invalid lambda name"},
		{"dead-letter list out --limit 1001", "want 0 to 1000"},
		{"dead-letter list out --state dead", "unknown flag: --state"},
		{"dead-letter list out extra", "one argument too many"},
		{"dead-letter redrive out --pace 501", "want 0 to 500"},
		{"dead-letter delete out --detach", "unknown flag: --detach: want any of --dry-run, --pace, --priority, --purge"},
		{"dead-letter delete out --purge --pace 5", "--purge has no --pace"},
		{"delete --where x=1 extra", "want no IDs"},
		{"reschedule --where state=dead", "want one of --by D, --spread D, --in D and --at TIME"},
		{"reschedule --where state=dead --by 1h --at 2027-01-31T09:00:00Z", "want one of --by D"},
		{"reschedule --where state=dead --at noon", "--at"},
		{"job", "a command is missing"},
		{"job list extra", "extra"},
		{"job get", "ID is missing"},
		{"job stop a b", "too many"},
		{"gate", "a command is missing"},
		{"gate pause", "LAMBDA is missing"},
		{"gate pause mail --lambda mail --reason x", "one argument too many"},
		{"gate pause mail other --reason x", "one argument too many"},
		{"gate pause mail", "--reason is missing"},
		{"gate pause a/b --reason x", "invalid lambda name"},
		{"gate pause mail --reason x --for -1h", "-1h: the gate would have expired already: want 1s to"},
		{"gate pause mail --reason x --priority high --collection c", "at most one of --priority, --collection and --tag"},
		{"gate drop mail --reason x --tag a=b --tag c=d", "at most one of --priority, --collection and --tag"},
		{"gate drop mail --reason x --tag a", "want NAME=VALUE"},
		{"gate resume", "ID is missing"},
		{"gate resume 7 --pace -1", "want 0 to 1000000"},
		{"gate get", "ID is missing"},
		{"gate list a extra", "extra"},
		{"chain get", "ID is missing"},
		{"chain get a b", `"b" is one argument too many`},
		{"chain get a -o xml", "want text, wide, name, json, dot or mermaid"},
		{"chain cancel", "ID is missing"},
		{"chain extend a --start-before soon", "--start-before"},
		{"group create", "--then is missing"},
		{"group create extra", "extra"},
		{"group create --then - --else -", "can be read from stdin"},
		{"group add", "ID is missing"},
		{"group add a b", "one argument too many"},
		{"group add a --offset 0", "--lambda is missing"},
		{"group add a --offset 0 --lambda l --key k", "unknown flag: --key"},
		{"group add a --offset 0 --batch - --then -", "--then does not go with --batch"},
		{"group add a --offset 0 --lambda l --then - --payload-file -", "cannot both read stdin"},
		{"group add a --offset 0 --batch - --in 1s", "--in does not go with --batch"},
		{"group seal a b", "one argument too many"},
		{"group seal a --members -1", "want 0 to 100000"},
		{"group get", "ID is missing"},
		{"group members a b", "one argument too many"},
		{"cron create", "NAME is missing"},
		{"cron create a --schedule @daily", "--lambda is missing"},
		{"cron create a --lambda mail", "--schedule is missing"},
		{"cron create a --lambda a/b --schedule @daily", "--lambda: invalid lambda name"},
		{"cron create a --lambda mail --schedule @daily --overlap twice", "want allow, skip, queue, cancel or replace"},
		{"cron create a --lambda mail --schedule @daily --catch-up some", "want none, last or all"},
		{"cron create a --lambda mail --schedule @daily --gap x", "want shift or skip"},
		{"cron create a --lambda mail --schedule @daily --jitter 25h", "want 0s to 24h"},
		{"cron create a --lambda mail --schedule @daily --start yesterday", "is no time"},
		{"cron create a --lambda mail --schedule @daily --payload x --payload-file y", "exclude each other"},
		{"cron set a", "nothing to change"},
		{"cron set a --lambda b", "fixed at creation"},
		{"cron pause a", "--reason is missing"},
		{"cron pause a --reason x --for -1h", "-1h is out of range: want 1s"},
		{"cron history a --limit 1001", "want 1 to 1000"},
		{"cron list extra", "extra"},
		{"list x --state lost", "want scheduled, enqueued"},
		{"list --lambda x --limit -1", "--limit"},
		{"list x --limit -1", "--limit"},
		{"list x extra", "extra"},
		{"get x --frob", "unknown flag: --frob: want any of --key, --lambda, --payload, --watch"},
		{"get", "For example: kinesin get k1…"},
		{"get x -o yaml", "want text, wide, name or json"},
		{"get x --server ftp://x", "want a URL"},
		{"get x --server nonsense", "want a URL"},
		{"get x --server a:1,", "want a URL"},
		{"get x --server a:1,http://a:1", "named twice"},
		{"schedule", "lambda is missing"},
		{"schedule x y", ""},
		{"schedule x --in 1s --at 2027-01-01T00:00:00Z", "--in and --at exclude each other"},
		{"schedule x --in 1x", "want a duration"},
		{"schedule x --in", "needs an argument"},
		{"schedule x --at tomorrow", "RFC 3339"},
		{"schedule x --traceparent 00-1", "want the W3C form"},
		{"schedule x --at 1970-01-01T00:00:00Z", "is before 2001"},
		{"schedule x --start-before soon", "--start-before: \"soon\" is no time: want a time by RFC 3339"},
		{"schedule x --max-attempts 0", "want 1 to 1000"},
		{"schedule x --timeout 1ms", "want 100ms to 720h"},
		{"schedule x --backoff 5s", "want MIN..MAX"},
		{"schedule x --tag tenant", "want NAME=VALUE"},
		{"schedule x --tag a=1 --tag a=2", "tag \"a\" is given twice"},
		{"schedule --batch - --limit-key a", "--limit-key does not go with --batch"},
		{"schedule --batch - --tag a=1", "--tag does not go with --batch"},
		{"lambda create x --poison-bound 1", "want 2 to 1000"},
		{"lambda create x --start-within 0", "want 1ms to 8760h"},
		{"lambda create x --retry-share 0", "0 is out of range: want 0.01 to 10"},
		{"lambda create x --retry-share lots", "is not a share"},
		{"lambda create x --breaker-failures 2", "want 0.01 to 1"},
		{"lambda create x --breaker-failures 0.5 --breaker-window 1s", "want 10s to 1h"},
		{"lambda set x --reset key-retention", `"key-retention" is no setting that can be reset: want any of backoff_max, backoff_min, breaker, key_retention`},
		{"lambda set x --shards 0", "0 is out of range: want 1 to 1024"},
		{"quota set x --rate none", "want a number per second such as 100 or 0.5"},
		{"update k1abc --max-attempts 0", "0 is out of range: want 1 to 1000"},
		{"update k1abc --timeout 0s", "0s is out of range: want 100ms to"},
		{"cron set x --reset lambda", `"lambda" is no setting that can be reset: want any of catch_up, catch_up_max`},
		{"lambda create x --priority-weights high", "want PRIORITY=WEIGHT separated by commas, such as high=8,normal=3,low=1"},
		{"lambda create x --limit-key-concurrency 0", "kinesin gate pause stops starts, and --reset limit_key_concurrency takes the limit away"},
		{"lambda create x --limit-key-concurrency -1", "want 1 to 100000 tasks"},
		{"lambda create x --limit-key-rate 0", "kinesin gate pause stops starts, and --reset limit_key_rate takes the limit away"},
		{"lambda create x --priority-weights high=0", "weight of high: 0 is out of range: want 1 to 1000"},
		{"lambda create x --priority-weights high=1001", "want 1 to 1000"},
		{"lambda set x --priority-weights high=2,high=3", "priority \"high\" is named twice"},
		{"lambda set x --priority-weights =3", "want PRIORITY=WEIGHT"},
		{"lambda set x --key-retention 1s", "want 1m to 43800h"},
		{"schedule x --payload @letter.json", "want --payload-file FILE for what is in a file, and --payload-file - for stdin"},
		{"schedule x --payload -", "want --payload-file FILE"},
		{"group add a --offset 0 --lambda l --payload @f", "want --payload-file FILE"},
		{"update a --payload @f", "want --payload-file FILE"},
		{"redrive a --payload -", "want --payload-file FILE"},
		{"cron create a --lambda mail --schedule @daily --payload @f", "want --payload-file FILE"},
		{"cron set a --payload -", "want --payload-file FILE"},
		{"schedule x --payload a --payload-file b", "--payload and --payload-file exclude each other"},
		{"schedule --batch - --in 5s", "--in does not go with --batch"},
		{"wait x --timeout soon", "want a duration"},
		{"lambda create", "NAME is missing"},
		{"lambda create a b", `"b" is one argument too many`},
		{"lambda create a --mode x", "want managed or deliver"},
		{"lambda create a --shards 0", "--shards"},
		{"lambda create a --shards 5000", "want 1 to 1024"},
		{"lambda create a --max-attempts -1", "want 1 to 1000"},
		{"lambda create a --priorities ,", "--priorities"},
		{"lambda create a --priorities a,a", "named twice"},
		{"lambda create a --timeout 1ms", "want 100ms"},
		{"lambda create a --backoff 5s", "want MIN..MAX"},
		{"lambda create a --retention 1s", "retention"},
		{"lambda set a", "nothing to change"},
		{"lambda set a --priorities x", "fixed at creation"},
		{"lambda set a --shards 0", "want 1 to 1024"},
		{"lambda set a --shards -1", "want 1 to 1024"},
		{"lambda set a --shards 1025", "want 1 to 1024"},
		{"lambda set a --shards many", "many"},
		{"serve extra", "extra"},
		{"serve --listen 0.0.0.0:7070", "--auth-token-file"},
		{"serve --listen 0.0.0.0:7070 --auth-token-file nowhere", "nowhere: no such file"},
		{"serve --tls-cert-file c", "--tls-key-file"},
		{"serve --tls-cert-file nowhere.crt --tls-key-file nowhere.key", "nowhere.crt: no such file"},
		{"serve --membership gossip", "want store, kubernetes or static"},
		{"serve --membership kubernetes", "--store dynamodb"},
		{"serve --store dynamodb --queue sqs --aws-prefix p --members a,b", "--membership static"},
		{"serve --store dynamodb --queue sqs --aws-prefix p --membership static --members a,b --member-name c", "want one of a, b"},
		{"get x --token-file nowhere", "nowhere: no such file"},
		{"get x --server https://127.0.0.1:1 --tls-ca-file nowhere", "nowhere: no such file"},
		{"get x --token-file /dev/null", "no regular file"},
		{"serve --listen nowhere", "host:port"},
		{"serve --roles cook", "unknown role"},
		{"serve --log-level loud", "want debug, info, warn or error"},
		{"serve --console=maybe", `for "--console" flag: "maybe": want true or false`},
		{"worker -- true", "--lambda is missing"},
		{"worker --lambda a", "the command is missing"},
		{"worker --lambda a --", "the command is missing"},
		{"worker --lambda a true -- true", "stands before --"},
		{"worker --lambda a --concurrency 0 -- true", "--concurrency"},
		{"worker --lambda a --lease 1s -- true", "want 3s to 1h"},
		{"worker --lambda a,a -- true", "named twice"},
		{"worker --lambda a --env A=1 -- true", `"A=1" is no name of a variable`},
		{"worker --lambda a --env A,,B -- true", `"" is no name of a variable`},
		{"worker --lambda a -- no-such-command-here", "no-such-command-here"},
		{"worker --lambda a --http http://a -- true", "want one of them"},
		{"worker --lambda a --http http://a --env A", "does not go with --http"},
		{"worker --lambda a --http a.example/x", "want http or https"},
		{"worker --lambda a --http-secret-file x -- true", "without --http"},
		{"worker --lambda a --http http://a --http-secret-file /no/such/file", "--http-secret-file"},
	} {
		o := run(t.Context(), nil, "", strings.Fields(c.line)...)
		o.check(t, c.line, 2, c.says)
		if o.stdout != "" {
			t.Errorf("%s: stdout has %q", c.line, o.stdout)
		}
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"--help", "help", "schedule --help", "lambda create --help", "worker --help"} {
		o := run(t.Context(), nil, "", strings.Fields(line)...)
		if o.code != 0 || !strings.Contains(o.stdout, "Usage:") || o.stderr != "" {
			t.Errorf("%s: exit %d, %q, %q", line, o.code, o.stdout, o.stderr)
		}
	}
}

// The calls that the shell makes when somebody presses Tab.
func TestCompletion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "greet")
	s.must("lambda", "create", "mail-out")
	s.must("gate", "pause", "greet", "--reason", "maintenance")
	s.must("gate", "pause", "greet", "--reason", "over")
	s.must("gate", "resume", "2")
	s.must("cron", "create", "nightly", "--lambda", "greet", "--schedule", "@daily")
	for line, want := range map[string]string{
		"schedule |":                    "greet mail-out",
		"schedule |m":                   "mail-out",
		"schedule greet |":              "",
		"lambda get |g":                 "greet",
		"lambda set |":                  "greet mail-out",
		"lambda delete |x":              "",
		"list |":                        "greet mail-out",
		"list greet |":                  "",
		"list --order |":                "due -created -ended",
		"gate pause greet --priority |": "high normal low",
		"cron create x --lambda greet --priority |h": "high",
		"worker --lambda |gr":                        "greet",
		"worker --lambda |greet,":                    "greet,mail-out",
		"schedule --server http://127.0.0.1:1 |":     "",
		"schedule --server nonsense |":               "",
		"get x -o |":                                 "text wide name json",
		"lambda create x --mode |":                   "managed deliver",
		"gate pause |m":                              "mail-out",
		"gate resume |":                              "1\tmaintenance",
		"gate show |2":                               "",
		"gate show 1 |":                              "",
		"cron get |n":                                "nightly\t@daily",
		"cron run nightly |":                         "",
	} {
		before, begun, _ := strings.Cut(line, "|")
		o := s.do(append(append([]string{"__complete"}, strings.Fields(before)...), begun)...)
		got, isLast := strings.CutSuffix(strings.ReplaceAll(o.stdout, "\n", " "), ":4 ") // 4: no names of files
		if o.code != 0 || !isLast || strings.TrimSpace(got) != want {
			t.Errorf("%s: exit %d, %q, want %q", line, o.code, o.stdout, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if script := s.must("completion", shell); !strings.Contains(script, "__complete") {
			t.Errorf("%s: %q", shell, script)
		}
	}
	if help := s.must("--help"); !strings.Contains(help, "completion") {
		t.Error(help)
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	o := run(t.Context(), []string{"KINESIN_SERVER=http://127.0.0.1:1"}, "", "get", "x")
	o.check(t, "get", 1, "cannot reach a server at http://127.0.0.1:1", "kinesin serve")
	if strings.Contains(o.stderr, "none of") {
		t.Errorf("several servers? %s", o.stderr)
	}
	o = run(t.Context(), nil, "", "get", "x", "--server", "127.0.0.1:1,127.0.0.1:2")
	o.check(t, "get", 1, "cannot reach a server at http://127.0.0.1:1,http://127.0.0.1:2", "none of 2 servers can be reached")
}

// cut is a server that cannot reach what it needs.
type cut struct {
	kinesinv1connect.UnimplementedLambdaServiceHandler
}

func (cut) ListLambdas(context.Context, *kinesinv1.ListLambdasRequest) (*kinesinv1.ListLambdasResponse, error) {
	return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "read lambdas: dial tcp 127.0.0.1:18000: i/o timeout")
}

func TestServerThatReachesNothing(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle(kinesinv1connect.NewLambdaServiceHandler(cut{}, api.HandlerOptions(api.Hooks{})...))
	s := httptest.NewServer(mux)
	defer s.Close()
	o := run(t.Context(), []string{"KINESIN_SERVER=" + s.URL}, "", "lambda", "list")
	o.check(t, "lambda list", 1, "tried 4 times", "i/o timeout")
	if strings.Contains(o.stderr, "cannot reach a server") {
		t.Errorf("%q, though a server answered", o.stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	s := &site{t: t}
	if o := s.object("version"); o["version"] == "" || o["go"] == "" {
		t.Errorf("%v", o)
	}
	if text := s.must("version"); !strings.HasPrefix(text, "kinesin ") {
		t.Error(text)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "a")
	lines := []string{
		`{"lambda":"a","delay":"3d","payload":{"user": 42}}`,
		``,
		`{"lambda":"nope"}`,
		`{"lamda":"a"}`,
		`{"lambda":"a","delay":5}`,
		`{"lambda":"a","delay":"soon"}`,
		`{"lambda":"a","due":"2027-01-01"}`,
		`{"lambda":"a","delay":"1s","due":"2027-01-01T00:00:00Z"}`,
		`not JSON`,
		`[1]`,
		`{"lambda":"a"} x`,
		`{"lambda":"a","priority":"urgent"}`,
		`{"delay":"1h","payload_text":"text","key":"k","collection":"c","priority":"low"}`,
		"{\"lambda\":\"a\",\"key\":\"k\xff\"}",
		`{"lambda":"a","tags":{"t":"\ud800"}}`,
	}
	wantErrors := map[int]string{
		3: "unknown lambda", 4: `unknown field "lamda" in the line; allowed here: backoff_max, backoff_min, collection, delay`, 5: `delay: 5 is no duration`, 6: "want a duration", 7: "RFC 3339",
		8: "want due or delay, not both", 9: "the line is not JSON, at byte 2", 10: "the line: [1] is no JSON object", 11: "the line is not JSON, at byte 16", 12: "urgent",
		14: `key: byte \xff is no UTF-8`, 15: `tags.t: \ud800 is half`,
	}
	o := s.doWith(strings.Join(lines, "\n"), "schedule", "a", "--batch", "-")
	o.check(t, "batch", 1, "12 of 14 tasks failed")
	got := strings.Split(strings.TrimSuffix(o.stdout, "\n"), "\n")
	if len(got) != 14 {
		t.Fatalf("%d results: %s", len(got), o.stdout)
	}
	for n, want := range wantErrors {
		if line := got[n-2]; !strings.HasPrefix(line, fmt.Sprintf("error: line %d: ", n)) || !strings.Contains(line, want) {
			t.Errorf("line %d: %q, want %q", n, line, want)
		}
	}
	for id, want := range map[string]string{got[0]: `"payload":{"user":42}`, got[11]: `"payload_text":"text"`} {
		if text := s.must("get", id, "--payload", "-o", "json"); !strings.Contains(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
	}
}

func TestLargeBatchStaysInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "a")
	const n = 5000
	var in strings.Builder
	for i := 1; i <= n; i++ {
		if i%1000 == 0 {
			in.WriteString("broken\n")
			continue
		}
		fmt.Fprintf(&in, `{"delay":"1h","payload":%d}`+"\n", i)
	}
	o := s.doWith(in.String(), "schedule", "a", "--batch", "-", "-o", "json")
	o.check(t, "batch", 1, "5 of 5000 tasks failed")
	d := json.NewDecoder(strings.NewReader(o.stdout))
	var last string
	for i := 1; i <= n; i++ {
		var r struct {
			Line    int
			ID      string
			Problem struct{ Reason string }
		}
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if r.Line != i || (r.ID == "") != (i%1000 == 0) || (r.Problem.Reason == "invalid") != (i%1000 == 0) {
			t.Fatalf("result %d is %+v", i, r)
		}
		if r.ID != "" {
			last = r.ID
		}
	}
	if o := s.object("get", last, "--payload"); o["payload"] != 4999. {
		t.Errorf("the last task has payload %v", o["payload"])
	}
	if all := s.objects("list", "a", "--limit", "0"); len(all) != n-5 {
		t.Errorf("%d tasks listed", len(all))
	}
	if all := s.objects("list", "a", "--limit", "7"); len(all) != 7 {
		t.Errorf("%d tasks listed with a limit of 7", len(all))
	}
}

func TestResultsAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "a")
	s.serve("a", func(_ context.Context, t *sdk.Task[[]byte]) error {
		switch t.Tags["as"] {
		case "json":
			t.SetResult(map[string]any{"sum": 42, "of": []int{40, 2}})
		case "bytes":
			t.SetResult([]byte("a\xff"))
		}
		return nil
	})
	inJSON, inBytes, none := s.must("schedule", "a", "--tag", "as=json"), s.must("schedule", "a", "--tag", "as=bytes"), s.must("schedule", "a")
	want := inJSON + ` success {"of":[40,2],"sum":42}` + "\n" + inBytes + " success (base64) Yf8=\n" + none + " success"
	if got := s.must("wait", inJSON, inBytes, none); got != want {
		t.Errorf("wait: %s\nwant: %s", got, want)
	}
	all := s.objects("wait", inJSON, inBytes, none)
	if got := fmt.Sprint(all[0]["result"], all[0]["result_bytes"], all[1]["result_base64"], all[1]["result"], all[2]["result"]); got != "map[of:[40 2] sum:42] 22Yf8=<nil> <nil>" {
		t.Errorf("wait in JSON: %s", got)
	}
	if text := s.must("get", inJSON); !strings.Contains(text, `{"of":[40,2],"sum":42}`) {
		t.Error(text)
	}
	if all := s.objects("list", "a", "--state", "success"); len(all) != 3 || all[0]["result"] != nil {
		t.Errorf("listed %v", all)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "a", "--backoff", "1ms..2ms")
	late := s.must("schedule", "a", "--in", "1h")
	s.do("wait", late, "--timeout", "50ms").check(t, "timeout", 1, "timed out after 50ms: 1 of 1")
	s.serve("a", func(_ context.Context, t *sdk.Task[[]byte]) error {
		if string(t.Payload) == "bad" {
			return sdk.Fatal(fmt.Errorf("because %q", t.Payload))
		}
		return nil
	})
	good, bad := s.must("schedule", "a"), s.must("schedule", "a", "--payload", "bad")
	if o := s.do("wait", good, "--timeout", "10s"); o.code != 0 || o.stdout != good+" success\n" {
		t.Errorf("%+v", o)
	}
	o := s.do("wait", good, bad, "--timeout", "10s")
	o.check(t, "a failure", 1, "1 of 2 tasks did not end in success")
	if o.stdout != good+" success\n"+bad+" fatal_failure\n" {
		t.Error(o.stdout)
	}
	got := s.object("get", bad)
	attempts, isList := got["attempts"].([]any)
	if !isList || len(attempts) != 1 {
		t.Fatalf("attempts %v", got["attempts"])
	}
	a, _ := attempts[0].(map[string]any)
	if a["number"] != 1. || a["outcome"] != "fatal_failure" || a["error"] != `because "bad"` || a["start"] == nil || a["end"] == nil || a["worker"] == nil {
		t.Errorf("attempt %v", a)
	}
	if text := s.must("get", bad); !strings.Contains(text, "lateness ") {
		t.Error(text)
	}
	if text := s.must("list", "a", "--state", "fatal_failure"); !strings.Contains(text, bad) || strings.Contains(text, good) {
		t.Error(text)
	}
}

func TestWorkerCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "a", "--backoff", "1ms..2ms", "--timeout", "2s")
	script := `x=$(cat); echo "$x $KINESIN_LAMBDA" >&2; case $x in bad) exit 65;; flaky) test "$KINESIN_FAILURES" = 2;; slow) sleep 100;; esac`
	ctx, stop := context.WithCancel(t.Context())
	var o outcome
	var working sync.WaitGroup
	working.Go(func() {
		o = run(ctx, []string{"PATH=" + os.Getenv("PATH")}, "", "worker", "--server", s.url, "--lambda", "a", "--concurrency", "4", "--grace", "0s", "--", "sh", "-c", script)
	})
	states := map[string]string{"ok": "success", "bad": "fatal_failure", "flaky": "success"}
	ids := map[string]string{}
	for payload := range states {
		ids[payload] = s.must("schedule", "a", "--payload", payload)
	}
	for payload, want := range states {
		s.do("wait", ids[payload], "--timeout", "20s")
		if o := s.object("get", ids[payload]); o["state"] != want {
			t.Errorf("%s: %v", payload, o)
		}
	}
	if text := s.must("get", ids["bad"]); !strings.Contains(text, `fatal_failure: "exit status 65: bad a"`) {
		t.Error(text)
	}
	slow := s.must("schedule", "a", "--payload", "slow")
	runtest.Eventually(t, 10*time.Second, "a timed out attempt", func() bool { return strings.Contains(s.must("get", slow), "timed out after 2s") })
	s.must("cancel", slow)
	runtest.Eventually(t, 10*time.Second, "the cancel", func() bool { return s.object("get", slow)["state"] == "cancelled" })
	stop()
	working.Wait()
	if o.code != 0 || strings.Count(o.stderr, "flaky a\n") != 3 || strings.Count(o.stderr, "kinesin: registered for a at "+s.url+"\n") != 1 ||
		!regexp.MustCompile(`kinesin: stopped: (\d+ cancelled, )?1 fatal_failure, \d+ retriable_failure, 2 success; what waits starts when a worker for a runs again\n$`).MatchString(o.stderr) {
		t.Errorf("worker: exit %d: %s", o.code, o.stderr)
	}
}

func TestWorkerCommandWritesItsOutcome(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "a", "--backoff", "1ms..2ms", "--max-attempts", "2")
	// The payload is what the first attempt writes, and its exit status.
	script := `read code text; test "$KINESIN_ATTEMPT" = 1 || exit 0; printf %s "$text" > "$KINESIN_OUTCOME_FILE"; exit $code`
	ctx, stop := context.WithCancel(t.Context())
	var o outcome
	var working sync.WaitGroup
	working.Go(func() {
		o = run(ctx, []string{"PATH=" + os.Getenv("PATH")}, "", "worker", "--server", s.url, "--lambda", "a", "--concurrency", "4", "--grace", "0s", "--", "sh", "-c", script)
	})
	for payload, want := range map[string][]string{
		`0 {"outcome":"success","result":{"n":42}}`: {"success", "success"},
		`1 {"outcome":"snooze","delay":"1ms"}`:      {"success", "snoozed", "success"},
		`0 {"outcome":"release"}`:                   {"success", "released", "success"},
		`1 {"outcome":"fatal","error":"no user"}`:   {"fatal_failure", "fatal_failure"},
		`0 {"outcome":"later"}`:                     {"success", "retriable_failure", "success"},
	} {
		id := s.must("schedule", "a", "--payload", payload)
		s.do("wait", id, "--timeout", "20s")
		got := s.object("get", id)
		attempts, _ := got["attempts"].([]any)
		outcomes := []string{fmt.Sprint(got["state"])}
		for _, a := range attempts {
			facts, _ := a.(map[string]any)
			outcomes = append(outcomes, fmt.Sprint(facts["outcome"]))
		}
		if !slices.Equal(outcomes, want) {
			t.Errorf("%s: %v", payload, got)
		}
		if text := fmt.Sprint(attempts[0]); strings.Contains(payload, "later") && !strings.Contains(text, `outcome file: outcome "later": want snooze, release, fatal or success`) {
			t.Error(text)
		}
	}
	stop()
	working.Wait()
	if o.code != 0 {
		t.Errorf("worker: exit %d: %s", o.code, o.stderr)
	}
}

func TestWorkerWaitsForItsLambda(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, comes := range []bool{true, false} { // else the worker is told to end while it waits
		ctx, stop := context.WithCancel(t.Context())
		var log runtest.Text
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Run(ctx, cli.Process{
				Args: []string{"worker", "--server", s.url, "--lambda", "later", "--", "true"}, Env: []string{"PATH=" + os.Getenv("PATH")},
				Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &log,
			})
		}()
		runtest.Eventually(t, 10*time.Second, "the worker to say that it waits", func() bool {
			return strings.Contains(log.String(), "waiting until it is created") && strings.Contains(log.String(), `unknown lambda \"later\"`)
		})
		if comes {
			s.must("lambda", "create", "later")
			s.must("wait", s.must("schedule", "later"), "--timeout", "20s")
		}
		stop()
		if code := <-ended; code != 0 || strings.Count(log.String(), "waiting") != 1 {
			t.Errorf("exit %d: %s", code, log.String())
		}
		if comes {
			s.must("lambda", "delete", "later", "--drop")
		}
	}
}

func TestTestServerEndsWithItsStdin(t *testing.T) {
	t.Parallel()
	stdin, open := io.Pipe()
	r, w := io.Pipe()
	var stderr runtest.Text
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(t.Context(), cli.Process{Args: []string{"test-server", "--start", "2027-01-31T09:00:00Z"}, Stdin: stdin, Stdout: w, Stderr: &stderr})
	}()
	var where struct{ URL string }
	if err := json.NewDecoder(r).Decode(&where); err != nil {
		t.Fatal(err)
	}
	s := &site{t, where.URL}
	s.must("lambda", "create", "greet")
	response, err := http.Post(where.URL+"/test/advance", "application/json", strings.NewReader(`{"by":"30d"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err := io.ReadAll(response.Body); err != nil || string(answer) != `{"now":"2027-03-02T09:00:00Z"}`+"\n" {
		t.Errorf("%s %s, %v", response.Status, answer, err)
	}
	_ = open.Close()
	if code := <-ended; code != 0 || stderr.String() != "" {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

func TestServeSaysWhereEverythingIs(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	data := filepath.Join(t.TempDir(), "data")
	r, w := io.Pipe()
	var stderr runtest.Text
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, cli.Process{
			Args: []string{"serve", "--listen", "127.0.0.1:0", "-o", "json"}, Env: []string{"KINESIN_DATA=" + data},
			Stdin: strings.NewReader(""), Stdout: w, Stderr: &stderr,
		})
		_ = w.Close()
	}()
	var where struct {
		URL, Data string
		Roles     []string
	}
	if err := json.NewDecoder(r).Decode(&where); err != nil || where.Data != data || len(where.Roles) != 5 {
		t.Errorf("%v: %+v", err, where)
	}
	s := &site{t, where.URL}
	s.must("lambda", "create", "greet", "--max-attempts", "3") // which has an audit record
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d", code)
	}
	text := stderr.String()
	if !strings.HasSuffix(text, "kinesin: stopped: all tasks are kept in "+data+", and the same command goes on with them\n") ||
		!strings.Contains(text, "msg=serving") || strings.Contains(text, "audit") {
		t.Error(text)
	}
	for line := range strings.Lines(text) {
		if len(line) > 200 && !strings.Contains(line, data) {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	o := run(t.Context(), nil, "", "serve", "--data", t.TempDir(), "--listen", strings.TrimPrefix(s.url, "http://"))
	o.check(t, "serve", 1, "port is in use", "--listen")
}

func TestDataInUse(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	held, err := server.New(t.Context(), server.Config{DataDir: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	o := run(t.Context(), nil, "", "serve", "--data", data, "--listen", "127.0.0.1:0")
	o.check(t, "serve", 1, data)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := held.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes as long as it does for people")
	}
	o := run(t.Context(), nil, "", "demo", "--once", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	if o.code != 0 || strings.Count(o.stdout, "\nsuccess ") != 3 || !strings.Contains(o.stdout, "\ncancelled ") {
		t.Errorf("%+v", o)
	}
}

func TestATokenFileThatAllMayReadIsNoted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(strings.Repeat("a", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, times := range map[os.FileMode]int{0o600: 0, 0o440: 0, 0o644: 1} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{{"lambda", "list", "--token-file", path}, {"worker", "--lambda", "nope", "--token-file", path, "--", "true"}} {
			o := s.do(command...)
			if strings.Count(o.stderr, "every user of this machine may use") != times || strings.Contains(o.stderr, "aaaa") {
				t.Errorf("%04o %v: %s", mode, command, o.stderr)
			}
		}
	}
}

// With a file of keys the command line encodes and decodes payloads; without it there is no way to read them.
func TestPayloadKeyFile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "a", "--backoff", "1ms..2ms")
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("1", 32))), base64.StdEncoding.EncodeToString([]byte(strings.Repeat("2", 32)))
	old, both := file("2026-05 "+first+"\n"), file("# newest\n2026-11 "+second+"\n2026-05 "+first+"\n")
	id := s.must("schedule", "a", "--payload", "the secret", "--in", "1h", "--payload-key-file", old)
	if text := s.must("get", id, "--payload", "-o", "json"); strings.Contains(text, "the secret") || !strings.Contains(text, "payload_base64") {
		t.Errorf("without the key: %s", text)
	}
	if o := s.object("get", id, "--payload", "--payload-key-file", both); o["payload_text"] != "the secret" {
		t.Errorf("with the key: %v", o)
	}
	s.do("get", id, "--payload", "--payload-key-file", file("other "+second)).check(t, "another key", 1, `encrypted with key "2026-05"`)

	ctx, stop := context.WithCancel(t.Context())
	var o outcome
	var working sync.WaitGroup
	working.Go(func() {
		o = run(ctx, []string{"PATH=" + os.Getenv("PATH"), "KINESIN_PAYLOAD_KEY_FILE=" + both}, "", "worker", "--server", s.url, "--lambda", "a", "--grace", "0s", "--",
			"sh", "-c", `test "$(cat)" = "the secret" && test -z "$KINESIN_PAYLOAD_KEY_FILE"`)
	})
	ran := s.must("schedule", "a", "--payload", "the secret", "--payload-key-file", old)
	s.must("wait", ran, "--timeout", "20s")
	if o := s.object("get", ran); o["state"] != "success" {
		t.Errorf("%v", o)
	}
	plain := s.must("schedule", "a", "--payload", "the secret")
	s.do("wait", plain, "--timeout", "20s")
	if o := s.object("get", plain); o["state"] != "fatal_failure" {
		t.Errorf("a payload in plain: %v", o)
	}
	stop()
	working.Wait()
	if o.code != 0 {
		t.Errorf("worker: exit %d: %s", o.code, o.stderr)
	}
	for text, says := range map[string]string{
		"":                                    "one key or more",
		first:                                 "line 1: want an id, a space and a key",
		first + " a":                          "line 1: the key is not 32 bytes in base64",
		first + " " + second:                  "44 characters of payload key 1",
		"a " + first[:40]:                     "of 30 bytes: want 32",
		"a " + first + "\nb " + first + "\n":  "has the same secret",
		strings.Repeat("a "+first+"\n", 1000): "more than 64 keys",
		strings.Repeat("#", 100_000):          "longer than 65536 bytes",
	} {
		o := s.do("get", id, "--payload-key-file", file(text))
		o.check(t, text, 2, says)
		if strings.Contains(o.stderr, first) || strings.Contains(o.stderr, first[:20]) {
			t.Errorf("%q: stderr has the key: %s", text, o.stderr)
		}
	}
}
