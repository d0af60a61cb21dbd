package harness

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// commandMax is how long one command may take.
const commandMax = 90 * time.Second

// Result is what a command printed and how it ended.
type Result struct {
	Code   int
	Stdout string
	Stderr string
}

// Run runs `kinesin ARGS` to its end.
func Run(tb testing.TB, args ...string) Result { tb.Helper(); return Command{Args: args}.Run(tb) }

// Run runs the command to its end. A failed test shows nothing of it but what it makes of the result.
func (c Command) Run(tb testing.TB) Result {
	tb.Helper()
	c.quiet = true
	return Start(tb, c).Result(commandMax)
}

// Result waits for the process to end by itself.
func (p *Process) Result(atMost time.Duration) Result {
	p.tb.Helper()
	code := p.Wait(atMost)
	return Result{code, p.Stdout(), p.Stderr()}
}

// Must fails the test unless the command succeeded, and returns what it printed without the last newline.
func (r Result) Must(tb testing.TB) string {
	tb.Helper()
	if r.Code != 0 {
		tb.Fatalf("exit status %d\nstdout: %s\nstderr: %s", r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSuffix(r.Stdout, "\n")
}

// Refused fails the test unless the command ended with the exit status, printed nothing to its standard
// output and every text to its standard error, and no stack trace.
func (r Result) Refused(tb testing.TB, code int, texts ...string) {
	tb.Helper()
	if r.Code != code || strings.TrimSpace(r.Stdout) != "" {
		tb.Errorf("exit status %d, want %d and nothing on stdout\nstdout: %s\nstderr: %s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, text := range texts {
		if !strings.Contains(r.Stderr, text) {
			tb.Errorf("standard error does not say %q:\n%s", text, r.Stderr)
		}
	}
	NoTrace(tb, r.Stderr)
}

// NoTrace fails the test if the text holds a stack trace.
func NoTrace(tb testing.TB, text string) {
	tb.Helper()
	for _, mark := range []string{"goroutine ", "panic:", ".go:"} {
		if strings.Contains(text, mark) {
			tb.Errorf("looks like a stack trace (%q):\n%s", mark, text)
		}
	}
}

// JSON decodes what a successful command printed with -o json.
func (r Result) JSON(tb testing.TB, into any) {
	tb.Helper()
	r.Must(tb)
	if err := json.Unmarshal([]byte(r.Stdout), into); err != nil {
		tb.Fatalf("standard output is not JSON: %v\n%s", err, r.Stdout)
	}
}
