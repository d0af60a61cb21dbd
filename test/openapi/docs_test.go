package openapi

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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
	for language, want := range map[string]int{"bash": 8, "python": 2, "json": 2, "sh": 2} {
		if n := len(blocks(t, language, "x")); n != want {
			t.Errorf("%d blocks in %s, want %d: change the tests as well", n, language, want)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if fences := bytes.Count(text, []byte("\n```")); fences != 2*14 {
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

// The two programs in Python: the worker runs the task of the other.
func TestExamplesInPython(t *testing.T) {
	interpreter := needPython(t)
	server := harness.StartServer(t, harness.ServerOptions{})
	post(t, server.URL+"/v1/lambdas", `{"name":"greet"}`)
	programs := blocks(t, "python", server.Addr)
	dir := t.TempDir()
	for i, name := range []string{"schedule", "worker"} {
		if !strings.Contains(programs[i], name+".py") {
			t.Fatalf("block %d is not %s", i, name)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(programs[i]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	worker := startWorker(t, []string{interpreter, "-X", "utf8", filepath.Join(dir, "worker.py")})
	out := run(t, dir, interpreter, "-X", "utf8", filepath.Join(dir, "schedule.py"))
	if !strings.HasPrefix(out, "success ") {
		t.Errorf("schedule says %q", out)
	}
	if said := worker.end(t); !strings.Contains(said, "hello Ada, attempt 1") {
		t.Errorf("the worker says %q", said)
	}
}

// background is a program that runs until it is told to end.
type background struct {
	command *exec.Cmd
	mu      sync.Mutex
	said    bytes.Buffer
	read    chan struct{}
}

func startWorker(t *testing.T, args []string) *background {
	t.Helper()
	b := &background{command: exec.CommandContext(t.Context(), args[0], args[1:]...), read: make(chan struct{})}
	out, err := b.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.command.Stderr = b.command.Stdout
	if err := b.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			b.mu.Lock()
			b.said.WriteString(lines.Text() + "\n")
			b.mu.Unlock()
		}
	}()
	return b
}

// end interrupts the program, which has to end well, and returns what it has said.
func (b *background) end(t *testing.T) string {
	t.Helper()
	_ = b.command.Process.Signal(syscall.SIGINT)
	select {
	case <-b.read:
	case <-time.After(30 * time.Second):
		_ = b.command.Process.Kill()
		<-b.read
		t.Error("the worker does not end")
	}
	err := b.command.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		t.Errorf("the worker ended with %v: %s", err, &b.said)
	}
	return b.said.String()
}
