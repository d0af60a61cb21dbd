package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		{"quota set mail --admit 3 --identity crm", "", 0, "mail, identity crm: 3/s scheduled"},
		{"quota list", "", 0, "crm"},
		{"quota set mail --reset rate", "", 0, "mail: no limit"},
		{"schedule mail --in 1h --payload-file " + file, "", 0, "k1"},
		{"get $ --payload", "", 0, "\nfrom a file\n"},
		{"schedule mail --payload-file /no/such/file", "", 1, "read the payload: open /no/such/file"},
		{"schedule mail --in 1h --key k", "", 0, "k3"},
		{"schedule mail --in 2h --key k --on-conflict reject", "", 1, "is held by a task"},
		{"wait k1", "", 1, "k1: task not found"},
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
