package conformance_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/loopback"
	"github.com/kinesin-io/kinesin/test/harness"
)

const (
	clients   = "../../clients/"
	scenarios = clients + "conformance/scenarios/*.json"

	withinDefault = 10 * time.Second // for what a step waits for
	lookEvery     = 20 * time.Millisecond
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// A language is a client to test: how to run its adapter, and what it has not.
type language struct {
	name  string
	lacks []string
	run   func(t *testing.T) (args, env []string)
}

var languages = []language{
	{name: "go", lacks: []string{"release"}, run: func(t *testing.T) ([]string, []string) {
		t.Helper()
		return []string{harness.Adapter(t)}, nil
	}},
	{name: "python", run: func(t *testing.T) ([]string, []string) {
		t.Helper()
		program := present(t, "python/conformance.py")
		interpreter, err := python()
		if err != nil {
			t.Fatal(err)
		}
		return []string{interpreter, program}, []string{"PYTHONPATH=" + filepath.Dir(program), "PYTHONDONTWRITEBYTECODE=1"}
	}},
	{name: "typescript", run: func(t *testing.T) ([]string, []string) {
		t.Helper()
		if err := exec.Command("node", "-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)").Run(); err != nil {
			t.Skip("needs Node 20 or later:", err)
		}
		return []string{"node", present(t, "typescript/conformance.mjs")}, nil
	}},
}

// python is an interpreter with what the client in Python needs.
var python = sync.OnceValues(func() (string, error) { return loopback.Installed("openapi") })

// present is the absolute path of an adapter.
func present(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(clients + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	return path
}

func TestConformance(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(scenarios)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in %s: %v", scenarios, err)
	}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.run(t) // skips all of them where it cannot run
			for _, file := range files {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
					t.Parallel()
					play(t, l, load(t, file))
				})
			}
		})
	}
}

// A stage is where a scenario is played.
type stage struct {
	t        *testing.T
	language language
	clocks   map[string]string
	server   *harness.Server
	proxy    *proxy
	clients  map[string]*client
	answers  object                   // by the names that calls give them
	later    map[string]<-chan answer // of calls that go on
}

func play(t *testing.T, l language, s scenario) {
	t.Helper()
	for _, need := range s.Needs {
		if slices.Contains(l.lacks, need) {
			t.Skipf("%s has no %s", l.name, need)
		}
	}
	server := harness.StartServer(t, harness.ServerOptions{})
	g := &stage{
		t: t, language: l, clocks: s.Clocks, server: server, proxy: newProxy(t, server.Addr), clients: map[string]*client{},
		answers: object{}, later: map[string]<-chan answer{},
	}
	for _, lambda := range s.Lambdas {
		response, err := http.Post(server.URL+"/v1/lambdas", "application/json", bytes.NewReader(lambda))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusCreated {
			t.Fatalf("lambda %s: %s", lambda, response.Status)
		}
	}
	for i, raw := range s.Steps {
		if err := g.step(raw); err != nil {
			t.Fatalf("step %d, %s: %v", i+1, raw, err)
		}
	}
	g.proxy.set("pass")
	var ends sync.WaitGroup
	for _, c := range g.clients {
		ends.Go(c.end)
	}
	ends.Wait()
	g.judge()
}

// client is the adapter of that name, which is started at first. Client a has the proxy before it.
func (g *stage) client(name string) *client {
	name = cmp.Or(name, "a")
	if g.clients[name] == nil {
		addr := g.server.Addr
		if name == "a" {
			addr = g.proxy.addr
		}
		g.clients[name] = startClient(g.t, g.language, name, "http://"+addr, g.clocks[name])
	}
	return g.clients[name]
}

// step does a step; one that looks for something does so until it is there, or its time is over.
func (g *stage) step(raw json.RawMessage) error {
	s, err := parse(raw, 0, g.answers)
	if err != nil {
		return err
	}
	within := cmp.Or(time.Duration(s.Within), withinDefault)
	for deadline := time.Now().Add(within); ; time.Sleep(lookEvery) {
		switch {
		case s.Call != "":
			err = g.calls(raw, max(1, s.Repeat))
		case s.Answer != "":
			err = g.answer(s, s.Answer, g.later[s.Answer])
		case s.Events != nil:
			err = g.client(s.On).await(s.Events, within)
		case s.Never != nil:
			err = g.never(s.Never)
		case s.Fault != "":
			err = g.fault(s)
		case s.Pause > 0:
			time.Sleep(time.Duration(s.Pause))
		case s.Tasks != nil:
			_, body := g.server.Fetch("/v1/tasks/count?exact=true&where=" + url.QueryEscape(`lambda!=""`))
			if !strings.Contains(body, fmt.Sprintf(`{"count":%d,`, *s.Tasks)) {
				err = fmt.Errorf("the server counts %s, not %d", body, *s.Tasks)
			}
		case s.Most > 0:
			if most := g.client(s.On).most(); most != s.Most {
				err = fmt.Errorf("%d handlers ran at once, not %d", most, s.Most)
			}
		default:
			err = errors.New("it has none of call, answer, events, never, fault, pause, tasks and most")
		}
		if err == nil || !s.Until || time.Now().After(deadline) {
			return err
		}
		err = nil
	}
}

// calls makes a call, or a number of them at once.
func (g *stage) calls(raw json.RawMessage, repeat int) error {
	steps, answers := make([]step, repeat), make([]<-chan answer, repeat)
	for i := range repeat {
		s, err := parse(raw, i, g.answers)
		if err != nil {
			return err
		}
		if answers[i], err = g.client(s.On).call(s.Call, s.Args); err != nil {
			return err
		}
		steps[i] = s
	}
	for i, s := range steps {
		if s.Later {
			g.later[s.As] = answers[i]
		} else if err := g.answer(s, s.As, answers[i]); err != nil {
			return err
		}
	}
	return nil
}

// answer waits for the answer of a call, compares it, and keeps it under a name.
func (g *stage) answer(s step, name string, waiting <-chan answer) error {
	select {
	case got := <-waiting:
		if got.Error.Reason != s.Error || !fits(s.Expect, got.OK) || got.OK == nil && s.Error == "" {
			return fmt.Errorf("the answer is %+v", got)
		}
		g.answers[name] = got.OK
		return nil
	case <-time.After(answerMax):
		return fmt.Errorf("no answer within %v", answerMax)
	}
}

func (g *stage) never(unwanted object) error {
	for _, c := range g.clients {
		for _, e := range c.all() {
			if fits(unwanted, e.fields) {
				return fmt.Errorf("there is%v", e)
			}
		}
	}
	return nil
}

func (g *stage) fault(s step) error {
	switch s.Fault {
	case "kill server":
		g.server.Kill()
	case "start server":
		g.server.Start()
	case "stop client":
		g.client(s.On).process.Signal(syscall.SIGSTOP)
	case "continue client":
		g.client(s.On).process.Signal(syscall.SIGCONT)
	default:
		if !slices.Contains(proxyFaults, s.Fault) {
			return fmt.Errorf("there are kill server, start server, stop client, continue client and %v", proxyFaults)
		}
		g.proxy.set(s.Fault)
	}
	return nil
}

// judge is what holds in every scenario: each attempt has one start, not before its task is due, and one end; the next one
// has a higher number and starts after that end, unless the attempt had been taken away.
func (g *stage) judge() {
	g.t.Helper()
	byTask := map[string][]event{}
	for _, c := range g.clients {
		for _, e := range c.all() {
			if e.Task != "" {
				byTask[e.Task] = append(byTask[e.Task], e)
			}
		}
	}
	for id, events := range byTask {
		slices.SortStableFunc(events, func(a, b event) int {
			return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(b.Name, a.Name)) // the start first
		})
		var task struct {
			Due time.Time `json:"due"`
		}
		if _, body := g.server.Fetch("/v1/tasks/" + id); json.Unmarshal([]byte(body), &task) != nil || task.Due.IsZero() {
			g.t.Errorf("task %s: the server says %s", id, body)
		}
		free := task.Due.UnixMilli() // when the next attempt may start
		for attempt := range slices.Chunk(events, 2) {
			start, end := attempt[0], attempt[len(attempt)-1]
			switch {
			case start.Name != "start" || end.Name != "end" || start.Attempt != end.Attempt || start.client != end.client:
				g.t.Errorf("task %s: not one start and one end of each attempt:%v", id, events)
			case start.At < free:
				g.t.Errorf("task %s started %d ms before it was due, or the attempt before had ended:%v", id, free-start.At, events)
			case end.At > time.Now().UnixMilli():
				g.t.Errorf("task %s ended in the future, so the clock of client %s is not the one it was given", id, end.client)
			case end.How != "lease_lost" && end.How != "fenced":
				free = end.At
			}
		}
	}
}
