package golden

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/cmd/kinesin/cli"
	"github.com/kinesin-io/kinesin/internal/rest"
	"github.com/kinesin-io/kinesin/internal/runtest"
)

var update = flag.Bool("update", false, "write what is in testdata anew")

// step is a request of a script. In the file it is
//
//	GET /v1/tasks/k1 BODY        a request to the HTTP API, or
//	$ get k1 -o json             a command line, with single quotes around what has spaces
//	If-Match: "7"                a header
//	< stdin                      a line of the command's stdin
//	<- {"results":[…]}           the answer of a service to the first call, the second, …; all fields set if there is none
//	<! {"reason":"REASON_FULL"}  a problem instead of an answer
//
// and then what came of it, in lines that begin with "=": "=> " a call of a service, "= " status and body or the
// exit code, "=| " a line of stdout, "=! " one of stderr.
type step struct {
	request string
	header  [2]string
	stdin   string
	answers []answer
	status  int // of an HTTP request
	code    int // exit code of a command
	body    string
	calls   int // of services
}

const (
	commandMark = "$ "
	lineEnd     = "⏎" // in the body of a request
)

// script is a file of steps.
type script struct {
	t     *testing.T
	fake  *fake // nil: a node serves them
	http  http.Handler
	url   string // of the fake, or the node, behind a socket
	ids   []string
	steps []*step
}

func newScript(t *testing.T) *script {
	t.Helper()
	f := &fake{t: t}
	return &script{t: t, fake: f, http: rest.New(servicesOf(f), api.Hooks{}), url: listen(t, f)}
}

func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = api.NewServer(h)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// servicesOf returns services that call a fake: a client has the methods of its service.
func servicesOf(f *fake) rest.Services {
	client, url, options := &http.Client{Transport: f}, "http://fake", api.ClientOptions()
	return rest.Services{
		Tasks: kinesinv1connect.NewTaskServiceClient(client, url, options...), Jobs: kinesinv1connect.NewJobServiceClient(client, url, options...),
		Gates: kinesinv1connect.NewGateServiceClient(client, url, options...), Crons: kinesinv1connect.NewCronServiceClient(client, url, options...),
		Chains: kinesinv1connect.NewChainServiceClient(client, url, options...), Groups: kinesinv1connect.NewGroupServiceClient(client, url, options...),
		Lambdas: kinesinv1connect.NewLambdaServiceClient(client, url, options...), DeadLetters: kinesinv1connect.NewDeadLetterServiceClient(client, url, options...),
		Quotas: kinesinv1connect.NewQuotaServiceClient(client, url, options...), Objectives: kinesinv1connect.NewObjectiveServiceClient(client, url, options...),
		Workers: workers{kinesinv1connect.NewWorkerServiceClient(client, url, options...)},
	}
}

// workers is a service without its stream, which the HTTP API does not have.
type workers struct {
	kinesinv1connect.WorkerServiceClient
}

// Work implements kinesinv1connect.WorkerServiceHandler.
func (workers) Work(context.Context, *connect.BidiStream[kinesinv1.WorkRequest, kinesinv1.WorkResponse]) error {
	return errors.ErrUnsupported
}

// run runs the steps of a file and returns the file with what came of them.
func (s *script) run(text string) string {
	s.t.Helper()
	var out, block []string
	end := func() {
		if len(block) > 0 {
			out = append(out, s.block(block)...)
		}
		block = nil
	}
	for line := range strings.Lines(text) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "="):
		case line == "" || strings.HasPrefix(line, "#"):
			end()
			out = append(out, line)
		default:
			block = append(block, line)
		}
	}
	end()
	return strings.Join(out, "\n") + "\n"
}

// block runs the steps between two empty lines.
func (s *script) block(lines []string) (out []string) {
	var current *step
	end := func() {
		if current != nil {
			s.steps = append(s.steps, current)
			out = append(out, s.do(current)...)
		}
		current = nil
	}
	for _, line := range lines {
		kind, rest, _ := strings.Cut(line, " ")
		isNew := kind == "$" || slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, kind)
		if isNew {
			end()
			current = &step{request: line}
		}
		if current == nil {
			s.t.Fatalf("no request before %q", line)
		}
		switch {
		case isNew:
		case kind == "<-" || kind == "<!":
			current.answers = append(current.answers, answer{rest, kind == "<!"})
		case kind == "<":
			current.stdin += rest + "\n"
		default:
			name, value, found := strings.Cut(line, ":")
			if !found {
				s.t.Fatalf("what is %q?", line)
			}
			current.header = [2]string{name, strings.TrimSpace(value)}
		}
		out = append(out, line)
	}
	end()
	return out
}

func (s *script) do(e *step) (out []string) {
	args, isCommand := strings.CutPrefix(s.meant(e.request), commandMark)
	act := func() []string {
		if isCommand {
			return s.command(e, args)
		}
		return s.call(e)
	}
	if s.fake == nil {
		for _, line := range act() {
			out = append(out, s.named(line))
		}
		return out
	}
	s.fake.begin(e.answers, !isCommand)
	came := act()
	e.calls = len(s.fake.calls)
	for _, call := range s.fake.calls {
		out = append(out, "=> "+call)
	}
	return append(out, came...)
}

func (s *script) command(e *step, args string) (out []string) {
	var stdout, stderr runtest.Text
	e.code = cli.Run(s.t.Context(), cli.Process{
		Args: words(args), Env: []string{"KINESIN_SERVER=" + s.url, "HOME=" + s.t.TempDir()}, Version: "v1.2.3",
		Stdin: strings.NewReader(e.stdin), Stdout: &stdout, Stderr: &stderr,
	})
	out = append(out, "= exit "+strconv.Itoa(e.code))
	for _, part := range []struct{ mark, text string }{{"=| ", stdout.String()}, {"=! ", stderr.String()}} {
		for line := range strings.Lines(strings.ReplaceAll(part.text, s.url, "http://server")) {
			out = append(out, strings.TrimRight(part.mark+line, " \n"))
		}
	}
	return out
}

// words cuts a command line at spaces that are not between single quotes.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all[len(all)-1] += part
			continue
		}
		fields := strings.Fields(part)
		if i > 0 && len(fields) > 0 && !strings.HasPrefix(part, " ") {
			all[len(all)-1] += fields[0]
			fields = fields[1:]
		}
		all = append(all, fields...)
		if strings.HasSuffix(part, " ") {
			all = append(all, "")
		}
	}
	return slices.DeleteFunc(all, func(word string) bool { return word == "" })
}

func (s *script) call(e *step) (out []string) {
	parts := strings.SplitN(s.meant(e.request), " ", 3)
	var body io.Reader = http.NoBody
	if len(parts) == 3 {
		body = strings.NewReader(strings.ReplaceAll(parts[2], lineEnd, "\n"))
	}
	r := httptest.NewRequestWithContext(s.t.Context(), parts[0], parts[1], body)
	if len(parts) == 3 {
		r.Header.Set("Content-Type", "application/json")
	}
	if e.header[0] != "" {
		r.Header.Set(e.header[0], e.header[1])
	}
	w := httptest.NewRecorder()
	s.http.ServeHTTP(w, r)
	e.status, e.body = w.Code, w.Body.String()
	out = append(out, strings.TrimRight("= "+strconv.Itoa(w.Code)+" "+strings.ReplaceAll(strings.TrimSuffix(e.body, "\n"), "\n", "\n=     "), " "))
	for _, name := range []string{"Allow", "Etag", "Location", "Retry-After"} {
		if value := w.Header().Get(name); value != "" {
			out = append(out, "= "+name+": "+value)
		}
	}
	return out
}

// golden compares a text with a file of testdata, or writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(text), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(want) || line != want[i] {
			t.Errorf("%s:%d: %s\nwant %s\n(go test ./test/golden -update writes it anew)", path, i+1, line, strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""))
			return
		}
	}
	if len(want) > len(strings.Split(got, "\n")) {
		t.Errorf("%s has more lines than come", path)
	}
}
