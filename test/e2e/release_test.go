package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

var update = flag.Bool("update", false, "write testdata/data-0.1.0 anew, which nobody does after that release")

const (
	releaseData  = "testdata/data-0.1.0.tar.gz"
	releaseShown = "testdata/data-0.1.0.json"
)

// releaseWrites fill the data directory: what a row can have, due in years.
var releaseWrites = [][]string{
	{"lambda", "create", "work", "--retention", "30d"},
	{"schedule", "work", "--at", "2034-05-06T07:08:09Z", "--key", "first", "--payload", "hello", "--tag", "a=b", "--priority", "high", "--max-attempts", "3"},
	{"schedule", "work", "--at", "2034-05-06T07:08:09Z", "--limit-key", "c7", "--collection", "night", "--timeout", "3m"},
	{"schedule", "work", "--at", "2034-05-06T07:08:09Z", "--then", `-`},
	{"cron", "create", "yearly", "--lambda", "work", "--schedule", "0 0 1 1 *", "--zone", "Europe/Paris", "--payload", "happy"},
	{"cron", "pause", "yearly", "--reason", "a pause"},
	{"gate", "pause", "work", "--tag", "a=b", "--reason", "closed"},
	{"quota", "set", "work", "--concurrency", "5", "--rate", "10"},
}

// releaseReads show all of it.
var releaseReads = [][]string{
	{"lambda", "get", "work"}, {"list", "work"}, {"cron", "get", "yearly"}, {"gate", "list"}, {"quota", "list"},
}

// TestDataOfTheFirstRelease opens a data directory that 0.1.0 wrote: everything is shown as it was then, and its tasks
// run. See docs/reference/compatibility.md.
func TestDataOfTheFirstRelease(t *testing.T) {
	dir := t.TempDir()
	if *update {
		writeRelease(t)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", releaseData, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data := filepath.Join(dir, "data")
	harness.Run(t, "data", "verify", "--data", data).Must(t)
	s := harness.StartServer(t, harness.ServerOptions{Dir: data})
	text, err := os.ReadFile(releaseShown)
	if err != nil {
		t.Fatal(err)
	}
	var then map[string]any
	if err := json.Unmarshal(text, &then); err != nil {
		t.Fatal(err)
	}
	now := showRelease(t, s)
	for name, want := range then {
		same(t, name, want, now[name])
	}
	s.CommandWorker("--lambda", "work", "--", "true")
	for _, task := range tasksOf(then["list work"]) {
		if task["waits_for"] != nil { // a gate
			continue
		}
		id := fmt.Sprint(task["id"])
		s.Run("run-now", id).Must(t)
		if said := s.Run("wait", id, "--timeout", "30s").Must(t); !strings.Contains(said, "success") {
			t.Errorf("%s: %s", id, said)
		}
	}
}

// writeRelease makes the files of testdata.
func writeRelease(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	s := harness.StartServer(t, harness.ServerOptions{Dir: filepath.Join(dir, "data")})
	for _, args := range releaseWrites {
		s.Feed(`{"lambda":"work","delay":"1h","payload":"after"}`, args...).Must(t)
	}
	text, err := json.MarshalIndent(showRelease(t, s), "", " ")
	if err == nil {
		err = os.WriteFile(releaseShown, append(text, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	if err := os.Remove(filepath.Join(dir, "data", "ballast")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-czf", releaseData, "-C", dir, "data").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// showRelease runs the commands that show what is stored. It leaves out the next occurrence of the cron, which changes with
// the years.
func showRelease(t *testing.T, s *harness.Server) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, args := range releaseReads {
		var shown map[string]any
		s.Run(append(args, "-o", "json")...).JSON(t, &shown)
		if shown["tasks"] != nil {
			kept := []any{}
			for _, task := range tasksOf(shown) {
				if task["occurrence"] == nil {
					kept = append(kept, task)
				}
			}
			shown["tasks"] = kept
		}
		all[strings.Join(args, " ")] = shown
	}
	return all
}

// tasksOf returns the tasks of a list.
func tasksOf(list any) (all []map[string]any) {
	shown, _ := list.(map[string]any)
	tasks, _ := shown["tasks"].([]any)
	for _, task := range tasks {
		if task, is := task.(map[string]any); is {
			all = append(all, task)
		}
	}
	return all
}

// same wants everything of then to be in now; now may have more fields.
func same(t *testing.T, where string, then, now any) {
	t.Helper()
	switch then := then.(type) {
	case map[string]any:
		found, _ := now.(map[string]any)
		for name, want := range then {
			same(t, where+"."+name, want, found[name])
		}
	case []any:
		found, _ := now.([]any)
		if len(found) != len(then) {
			t.Errorf("%s: %d, then %d", where, len(found), len(then))
			return
		}
		for i := range then {
			same(t, fmt.Sprintf("%s[%d]", where, i), then[i], found[i])
		}
	default:
		if now != then {
			t.Errorf("%s: %v, then %v", where, now, then)
		}
	}
}
