package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/cmd/kinesin/cli"
	"github.com/kinesin-io/kinesin/internal/runtest"
)

// What commands ask a server for, and say of its answers, that the exchanges of test/golden don't hold. A $ in a
// line is the first word that was printed before it.
func TestCommandsOnARealServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	printed := ""
	for _, c := range []struct {
		line, stdin string
		code        int
		says        string
	}{
		{"top", "", 0, "there are no lambdas yet"},
		{"lambda create mail", "", 0, "mail"},
		{"lambda create mail", "", 1, "lambda mail exists already, with these settings"},
		{"lambda set mail --breaker-window 30s", "", 1, "the lambda has no breaker"},
		{"lambda set mail --breaker-failures 0.5", "", 0, ""},
		{"lambda set mail --breaker-window 30s", "", 0, "at 0.5 failures in 30s"},
		{"lambda set mail --shards 8", "", 0, "8, for new tasks from 20"},
		{"lambda set mail --shards 7", "", 1, "shards only grow: lambda mail has 8"},
		{"gate pause mail --collection c --reason x", "", 0, "1"},
		{"gate pause mail --tag a=b --reason x", "", 0, "2"},
		{"gate list", "", 0, "mail, collection c"},
		{"gate list", "", 0, "mail, tag a=b"},
		{"gate drop mail --dry-run", "", 0, "would drop 0 tasks now"},
		{"stats", "", 0, "DEAD 1H  DEAD 1D  P50  P99  HELD"},
		{"stats", "", 0, "0        0        -    -    gate 1, gate 2"}, // nothing started
		{"quota set mail --admit 3 --identity crm", "", 0, "mail, identity crm: 3/s scheduled"},
		{"quota list", "", 0, "crm"},
		{"quota set mail --reset rate", "", 0, "mail: no limit"},
		{"schedule mail --in 1h --key f --payload-file " + file, "", 0, "k3"},
		{"get $ --payload", "", 0, "\nfrom a file\n"},
		{"get $", "", 0, "payload       from a file\n"},
		{"update $ --payload-file -", "two\nlines", 0, ""},
		{"get --lambda mail --key f", "", 0, "payload       \"two\\nlines\"\n"},
		{"schedule mail --payload-file /no/such/file", "", 1, "read the payload: open /no/such/file"},
		{"schedule mail --in 1h --key k", "", 0, "k3"},
		{"schedule mail --in 2h --key k --on-conflict reject", "", 1, "key \"k\" is held by a task that is scheduled, due 20"},
		{"schedule mail --in 2h --key k --payload x", "", 1, "is taken by a task with another payload, which is scheduled, due 20"},
		{"schedule mail --in 2h --key k --payload x", "", 1, "Z; on_conflict \"replace\" (--on-conflict replace) gives it this payload and time"},
		{"schedule mail --in 2h --key k --payload x --collection d", "", 1, "another payload and another collection, which is scheduled, due 20"},
		{"schedule mail --in 2h --key k", "", 0, "and is scheduled, due 20"},
		{"schedule mail --in 2h --key k", "", 0, "Z; --on-conflict replace gives it this payload and time: this is its id"},
		{"lambda delete mial", "", 1, "unknown lambda \"mial\": `kinesin lambda list` shows those there are"},
		{"wait nobodys", "", 1, "nobodys: task not found"},
		{"get k1AZLwwSo", "", 1, `"k1AZLwwSo": want the whole id of a task, or at least its first 10 characters`},
		{"schedule mail --at 2020-01-01T00:00:00Z", "", 0, "kinesin: the due time is in the past, which means now\n"},
		{"schedule mail --in -1h", "", 0, "kinesin: the due time is in the past, which means now\n"},
		{"cron create nightly --lambda mail --schedule @daily", "", 0, "nightly"},
		{"cron set nightly --catch-up last --failures-max 3 --priority high --collection c --payload x", "", 0, "high"},
		{"cron set nightly --payload-file " + file, "", 0, "11 bytes"},
		{"cron pause nightly --reason x", "", 0, "paused"},
		{"cron pause nightly --reason x --for 2h", "", 0, "paused until 20"},
		{"group create --then -", "{}", 2, `then[0]: the task has no field "lambda"`},
		{"group create --then - --expires-in 2d", `{"lambda":"mail"}`, 0, ""},
		{"group add $ --lambda mail --in 1h --batch -", "", 2, "--in does not go with --batch"},
		{"group add $ --lambda mail --batch -", "{\"delay\":\"1h\"}\n{\"key\":\"k\"}\n", 1, `line 2: "key" is not for members`},
		{"group get $", "", 0, "expires"},
	} {
		o := s.doWith(c.stdin, strings.Fields(strings.ReplaceAll(c.line, "$", printed))...)
		o.check(t, c.line, c.code)
		if !strings.Contains(o.stdout+o.stderr, c.says) {
			t.Errorf("%s: %q is not in %s%s", c.line, c.says, o.stdout, o.stderr)
		}
		if words := strings.Fields(o.stdout); len(words) == 1 {
			printed = words[0]
		}
	}
}

// The beginning of an id stands for a job and for a group, as it does for a task.
func TestTheBeginningOfAnIDStandsForAJobAndAGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	job := s.must("cancel", "--where", "state=dead", "--detach")
	group := strings.TrimSpace(s.doWith(`{"lambda":"mail"}`, "group", "create", "--then", "-").stdout)
	for line, whole := range map[string]string{"job get " + job[:10]: job, "group get " + group[:10]: group, "group seal " + group[:14]: "sealed with 0 members"} {
		if o := s.do(strings.Fields(line)...); !strings.Contains(o.stdout+o.stderr, whole) {
			t.Errorf("%s: %s%s, want %s", line, o.stdout, o.stderr, whole)
		}
	}
}

func TestCostOfManyTasksIsWrittenOut(t *testing.T) {
	t.Parallel()
	for rate, want := range map[string]string{
		"1e6":    "1000000 tasks/s are 2628000 million tasks a month",
		"50":     "50 tasks/s are 131.4 million tasks a month",
		"0.001":  "0.001 tasks/s are 0.002628 million tasks a month",
		"100000": "100000 tasks/s are 262800 million tasks a month",
	} {
		o := run(t.Context(), nil, "", "cost", "--rate", rate)
		o.check(t, rate, 0)
		if !strings.Contains(o.stdout, want) || strings.Contains(o.stdout, "e+") || strings.Contains(o.stdout, "e-0") {
			t.Errorf("%s: %s", rate, o.stdout)
		}
	}
}

func TestAGateSaysUntilWhenItCounts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	s.must("schedule", "mail")
	s.must("schedule", "mail", "--in", "30m")
	for expiry, want := range map[string]string{
		"10m": "would drop 1 tasks now and 0 more before it ends",
		"2h":  "would drop 1 tasks now and 1 more within an hour",
	} {
		if got := s.must("gate", "drop", "mail", "--reason", "x", "--for", expiry, "--dry-run"); got != want {
			t.Errorf("for %s: %s", expiry, got)
		}
	}
	s.must("gate", "pause", "mail", "--reason", "x")
	s.must("gate", "pause", "mail", "--reason", "x", "--priority", "low")
	o := s.do("gate", "drop", "mail", "--reason", "x", "--tag", "a=b", "--dry-run")
	o.check(t, "overlap", 0, "it overlaps with gates 1, 2: all", "the gate drops those that come")
	s.must("gate", "resume", "1", "--pace", "1")
	text := s.must("gate", "get", "1")
	if !strings.Contains(text, "resumed by  anonymous") || strings.Contains(text, "ended by") || strings.Contains(text, "more") {
		t.Error(text)
	}
	s.must("gate", "resume", "1")
	if text := s.must("gate", "get", "1"); !strings.Contains(text, "ended by") {
		t.Error(text)
	}
}

func TestWatchPrintsWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "greet")
	var stdout, stderr runtest.Text
	stop := runtest.Start(t, func(ctx context.Context) error {
		if code := cli.Run(ctx, cli.Process{
			Args: []string{"lambda", "list", "--watch", "-o", "name"}, Env: []string{"KINESIN_SERVER=" + s.url, "PATH=" + os.Getenv("PATH")},
			Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		}); code != 0 {
			return errors.New(stderr.String())
		}
		return nil
	})
	runtest.Eventually(t, time.Minute, "the first look", func() bool { return stdout.String() == "greet\n" })
	s.must("lambda", "create", "mail")
	runtest.Eventually(t, time.Minute, "a change is printed, once", func() bool { return stdout.String() == "greet\ngreet\nmail\n" })
	stop()
	if stderr.String() != "" {
		t.Errorf("it says %q", stderr.String())
	}
	s.do("gate", "get", "7", "--watch").check(t, "a first look that fails", 1, "no gate 7")
}

func TestHelpHasGroupsAndTheConnectionApart(t *testing.T) {
	t.Parallel()
	s := &site{t: t}
	help := s.must("--help")
	if !strings.Contains(help, "\nTasks:\n  cancel ") || !strings.Contains(help, "\nLambdas and limits:\n") || strings.Contains(help, "worker-guard") || !strings.Contains(help, "--server URL ") {
		t.Errorf("%s", help)
	}
	own, connection, found := strings.Cut(s.must("gate", "list", "--help"), "\nConnection (see kinesin --help):\n")
	if !found || !strings.Contains(own, "--ended") || strings.Contains(own, "--server") || !strings.Contains(connection, "--server") || strings.Contains(connection, "--ended") {
		t.Errorf("%s\nConnection:\n%s", own, connection)
	}
}

func TestDueTimesInAZone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "a")
	o := s.do("schedule", "a", "--at", "2030-01-31 09:00", "--zone", "Europe/Paris")
	o.check(t, "schedule", 0, "kinesin: due 2030-01-31T09:00:00+01:00\n")
	id := strings.TrimSpace(o.stdout)
	due := func(want string) {
		t.Helper()
		if got := s.object("get", id); got["due"] != want {
			t.Errorf("due %v, want %s", got["due"], want)
		}
	}
	due("2030-01-31T08:00:00.000000Z")
	s.do("reschedule", id, "--at", "2030-03-31 02:30", "--zone", "Europe/Paris").check(t, "reschedule", 0, "leaves 02:30:00 out")
	due("2030-03-31T01:00:00.000000Z")
	s.do("reschedule", "--where", "lambda=a", "--at", "2030-10-27 02:30", "--zone", "Europe/Paris").check(t, "a set", 0, "clocks show this time twice")
	due("2030-10-27T00:30:00.000000Z")
	s.do("reschedule", id, "--at", "today 0:00", "--zone", "Europe/Paris").check(t, "the past", 0, "which means now")
	s.do("reschedule", id, "--in", "1h", "--zone", "UTC").check(t, "both", 2, "exclude each other")
	s.do("reschedule", "--where", "lambda=a", "--by", "1h", "--zone", "UTC").check(t, "a set", 2, "--zone is for an --at")
	s.do("schedule", "a", "--zone", "UTC").check(t, "a zone alone", 2, "--zone is for an --at")
}
