package openapi

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

const page = root + "/docs/reference/http.md"

// blocks returns the code blocks of the page in a language, for a server at an address.
func blocks(t *testing.T, language, addr string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		found = append(found, strings.ReplaceAll(block[1], "127.0.0.1:7070", addr))
	}
	return found
}

// TestEveryExampleIsKnown fails when the page has a block that no test runs.
func TestEveryExampleIsKnown(t *testing.T) {
	for language, want := range map[string]int{"bash": 8, "json": 2, "sh": 2} {
		if n := len(blocks(t, language, "x")); n != want {
			t.Errorf("%d blocks in %s, want %d: change the tests as well", n, language, want)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if fences := bytes.Count(text, []byte("\n```")); fences != 2*12 {
		t.Errorf("%d fences: a block is in a language that no test knows", fences)
	}
}

// The examples with curl run as one script. None of their answers is a problem.
func TestExamplesWithCurl(t *testing.T) {
	needPython(t) // so that it is skipped with the others
	server := harness.StartServer(t, harness.ServerOptions{})
	out := run(t, "", "bash", "-euo", "pipefail", "-c", strings.Join(blocks(t, "bash", server.Addr), "\n"))
	for _, want := range []string{`"name":"greet"`, `"payload_text":"hello"`, `"outcome":"cancelled"`, `"tasks":[`, `"key":"ada-1"`, `"next_hour":`, `"state":"resuming"`, `"state":"ended"`, `"rate":20`, `"concurrency":20`, `"workers":0`, `"schedule":"30 2 * * *"`, `"revision":2`, `"moving the database"`, `"crons":[`, `"edge":"then"`, `"state":"sealed"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	for _, problem := range regexp.MustCompile(`.*"status":(\d+).*`).FindAllStringSubmatch(out, -1) {
		t.Error(problem[0])
	}
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) < 9 {
		t.Errorf("%d answers: %s", len(lines), out)
	}
}
