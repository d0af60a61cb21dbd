package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/cmd/kinesin/cli"
	"github.com/kinesin-io/kinesin/internal/runtest"
)

// TestExchanges runs every file of testdata: what a request makes of a service's answer. Together they have a success
// of each operation, and of each command that takes -o, in which the services set all fields, and no status that the
// OpenAPI document does not name.
func TestExchanges(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d files: %v", len(paths), err)
	}
	var done []*step
	for _, path := range paths {
		s := newScript(t)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Base(path), s.run(string(text)))
		s.refuse()
		done = append(done, s.steps...)
	}
	checkOperations(t, done)
	checkCommands(t, done)
}

// refuse has services refuse what they have granted before: whatever the call, the caller gets to know why.
func (s *script) refuse() {
	for _, e := range s.steps {
		if e.code != 0 || e.status >= 300 || len(e.answers) > 0 || e.calls == 0 {
			continue
		}
		for reason, status := range map[kinesinv1.Reason]int{kinesinv1.Reason_REASON_NOT_FOUND: 404, kinesinv1.Reason_REASON_PERMISSION_DENIED: 403} {
			if status == 404 && strings.HasPrefix(e.request, commandMark) {
				continue // a command does the same with any reason
			}
			again := &step{request: e.request, header: e.header, stdin: e.stdin}
			s.fake.refusal = &kinesinv1.Problem{Reason: reason, Text: "because"}
			lines := strings.Join(s.do(again), "\n")
			s.fake.refusal = nil
			isBatch := e.header[0] == "Content-Type"
			if again.code != 1 && again.status != status && !isBatch || !strings.Contains(lines, "because") {
				s.t.Errorf("refused with %v:\n%s\n%s", reason, e.request, lines)
			}
		}
	}
}

// document is what a test reads of the OpenAPI document.
type document struct {
	Paths map[string]map[string]struct {
		OperationID string
		Responses   map[string]any
		RequestBody any
	}
}

func readDocument(t *testing.T) (d document, text string) {
	t.Helper()
	e := &step{request: "GET /v1/openapi.json"}
	newScript(t).do(e)
	if err := json.Unmarshal([]byte(e.body), &d); err != nil {
		t.Fatal(err)
	}
	delete(d.Paths, "/v1/attempts/{token}") // needs a token that a server with targets has made
	return d, e.body
}

func checkOperations(t *testing.T, done []*step) {
	t.Helper()
	document, _ := readDocument(t)
	missing := map[string]string{}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			missing[operation.OperationID] = strings.ToUpper(method) + " " + path
		}
	}
	for _, e := range done {
		method, rest, _ := strings.Cut(e.request, " ")
		rest, _, _ = strings.Cut(rest, " ")
		path, _, _ := strings.Cut(rest, "?")
		operation, found := document.Paths[document.find(path)][strings.ToLower(method)]
		if !found || method == "$" {
			continue
		}
		if _, known := operation.Responses[statusText(e.status)]; !known {
			t.Errorf("%.120s: %d is not in the document", e.request, e.status)
		}
		if e.status < 300 && len(e.answers) == 0 {
			delete(missing, operation.OperationID)
		}
	}
	for id, route := range missing {
		t.Errorf("no success of %s, %s, with all fields", id, route)
	}
}

// find returns the path of the document that a path is of: of several that with the fewest variables.
func (d *document) find(path string) (best string) {
	segments, fewest := strings.Split(path, "/"), len(path)
	for template := range d.Paths {
		parts := strings.Split(template, "/")
		fits := len(parts) == len(segments)
		for i := 0; fits && i < len(parts); i++ {
			name, verb, isVar := strings.Cut(parts[i], "}")
			fits = parts[i] == segments[i] || isVar && strings.HasPrefix(name, "{") && strings.HasSuffix(segments[i], verb) && len(segments[i]) > len(verb)
		}
		if vars := strings.Count(template, "{")*2 - strings.Count(template, "}:"); fits && vars < fewest {
			best, fewest = template, vars
		}
	}
	return best
}

func statusText(status int) string {
	text, _ := json.Marshal(status)
	return string(text)
}

// withoutGolden are the commands with -o of which the files have no success: why.
var withoutGolden = map[string]string{
	"aws setup": needsStore, "backup": needsStore, "data salvage": needsStore, "data verify": needsStore, "restore": needsStore, "standby": needsStore,
	"debug bundle": needsServer, "debug log-level": needsServer, "serve": needsServer,
	"doctor": "looks at this machine", "config view": "says what the program does by default, as its help does",
	"version": "prints what built it",
}

const needsStore, needsServer = "needs a store", "needs a server of more than procedures"

func checkCommands(t *testing.T, done []*step) {
	t.Helper()
	commands := commandsWithOutput(t, nil)
	if len(commands) < 70 {
		t.Errorf("only %d commands with -o: %v", len(commands), commands)
	}
	for _, command := range commands {
		if withoutGolden[command] != "" {
			continue
		}
		if !slices.ContainsFunc(done, func(e *step) bool {
			return strings.HasPrefix(e.request, commandMark+command+" ") && strings.HasSuffix(e.request, " -o json") && e.code == 0
		}) {
			t.Errorf("no success of kinesin %s -o json", command)
		}
	}
	for command := range withoutGolden {
		if !slices.Contains(commands, command) {
			t.Errorf("%s is no command with -o", command)
		}
	}
}

// commandsWithOutput returns the command lines below some words that take -o.
func commandsWithOutput(t *testing.T, words []string) (all []string) {
	t.Helper()
	ask := func(args ...string) string {
		var out runtest.Text
		_ = cli.Run(t.Context(), cli.Process{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &runtest.Text{}})
		return out.String()
	}
	help, name := ask(append(slices.Clone(words), "--help")...), strings.Join(words, " ")
	if strings.Contains(help, "-o, --output") {
		all = append(all, name)
	}
	if !strings.Contains(help, "[command] --help") {
		return all
	}
	for line := range strings.Lines(ask(append(append([]string{"__completeNoDesc"}, words...), "")...)) {
		word := strings.TrimSpace(line)
		if word != "help" && word != "completion" && !strings.HasPrefix(word, ":") {
			all = append(all, commandsWithOutput(t, append(slices.Clone(words), word))...)
		}
	}
	return all
}
