package conformance_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
		if version, err := exec.Command("node", "--version").Output(); err != nil || bytes.Compare(version, []byte("v20")) < 0 {
			t.Skipf("needs Node 20 or later: %s %v", version, err)
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
	answers  object                   // by the name that a call has
	later    map[string]<-chan answer // of calls that go on
	due      map[string]int64         // Unix ms before which no task may start, by id
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
		answers: object{}, later: map[string]<-chan answer{}, due: map[string]int64{},
	}
	for _, lambda := range s.Lambdas {
		response, err := http.Post(server.URL+"/v1/lambdas", "application/json", bytes.NewReader(lambda))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode >= http.StatusBadRequest {
			t.Fatalf("lambda: %s", body)
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
		ends.Go(func() { c.end(t) })
	}
	ends.Wait()
	g.judge()
}

// client is the adapter of that name, which is started at first. The first one, a, has the proxy before it.
func (g *stage) client(name string) *client {
	name = cmp.Or(name, "a")
	if g.clients[name] == nil {
		at := g.server.URL
		if name == "a" {
			at = g.proxy.url
		}
		g.clients[name] = startClient(g.t, g.language, name, at, g.clocks[name])
	}
	return g.clients[name]
}

func (g *stage) step(raw json.RawMessage) error {
	s, err := parse(raw, 0, g.answers)
	if err != nil {
		return err
	}
	within := cmp.Or(time.Duration(s.Within), withinDefault)
	switch {
	case s.Call != "":
		return g.calls(raw, s.Repeat, within)
	case s.Answer != "":
		return g.answer(s, s.Answer, g.later[s.Answer])
	case s.Events != nil:
		return g.client(s.On).await(s.Events, within)
	case s.Never != nil:
		for _, c := range g.clients {
			for _, e := range c.all() {
				if fits(s.Never, e.fields) {
					return fmt.Errorf("client %s: %v", c.name, e.fields)
				}
			}
		}
	case s.Fault != "":
		return g.fault(s)
	case s.Pause > 0:
		time.Sleep(time.Duration(s.Pause))
	case s.Tasks != nil:
		return g.count(*s.Tasks, within)
	case s.Most != nil:
		if most := mostAtOnce(g.client(s.On).all()); most != *s.Most {
			return fmt.Errorf("%d handlers ran at once, not %d", most, *s.Most)
		}
	}
	return nil
}

// calls makes a call, or a number of them at once, or one again and again until the answer is as expected.
func (g *stage) calls(raw json.RawMessage, repeat int, within time.Duration) error {
	type made struct {
		step
		began  time.Time
		answer <-chan answer
	}
	deadline := time.Now().Add(within)
	for {
		var all []made
		for i := range max(1, repeat) {
			s, err := parse(raw, i, g.answers)
			if err != nil {
				return err
			}
			began := time.Now()
			waiting, err := g.client(s.On).call(s.Call, s.Args)
			if err != nil {
				return err
			}
			all = append(all, made{step: s, began: began, answer: waiting})
		}
		var err error
		for _, m := range all {
			if m.Later {
				g.later[m.As] = m.answer
				continue
			}
			if err = g.answer(m.step, m.As, m.answer); err != nil {
				break
			}
			g.dueAfter(m.step, m.began)
		}
		if err == nil || !all[0].Until || time.Now().After(deadline) {
			return err
		}
		time.Sleep(lookEvery)
	}
}

// answer waits for the answer of a call, compares it, and keeps it under a name.
func (g *stage) answer(s step, name string, waiting <-chan answer) error {
	var got answer
	select {
	case got = <-waiting:
	case <-time.After(answerMax):
		return fmt.Errorf("no answer within %v", answerMax)
	}
	reason := ""
	if got.Error != nil {
		reason = got.Error.Reason
	}
	switch {
	case reason != s.Error:
		return fmt.Errorf("refused as %q, want %q: %+v", reason, s.Error, got.Error)
	case !fits(s.Expect, got.OK):
		return fmt.Errorf("the answer is %v, want %v", got.OK, s.Expect)
	}
	if name != "" {
		g.answers[name] = got.OK
	}
	return nil
}

// dueAfter notes before when a task may not start that a call scheduled or moved.
func (g *stage) dueAfter(s step, began time.Time) {
	answered, _ := g.answers[s.As].(object)
	id, _ := cmp.Or(answered["id"], s.Args["id"]).(string)
	text, _ := s.Args["delay"].(string)
	if s.Call == "schedule" || s.Call == "reschedule" {
		delay, _ := time.ParseDuration(text) // none: now
		g.due[id] = began.Add(delay).UnixMilli()
	}
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
		if !slices.Contains(strings.Fields(proxyFaults), s.Fault) {
			return fmt.Errorf("no fault %q; there are: kill server, start server, stop client, continue client, %s", s.Fault, proxyFaults)
		}
		g.proxy.set(s.Fault)
	}
	return nil
}

// count waits until the server has so many tasks, ended ones included.
func (g *stage) count(want int, within time.Duration) error {
	deadline := time.Now().Add(within)
	for {
		_, body := g.server.Fetch("/v1/tasks/count?exact=true&where=" + url.QueryEscape(`lambda!=""`))
		var got struct {
			Count json.Number `json:"count"`
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			return fmt.Errorf("%s: %w", body, err)
		}
		if got.Count.String() == strconv.Itoa(want) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("there are %s tasks, not %d", got.Count, want)
		}
		time.Sleep(lookEvery)
	}
}

func mostAtOnce(events []event) (most int) {
	runs := 0
	for _, e := range events {
		switch e.name {
		case "start":
			runs++
		case "end":
			runs--
		}
		most = max(most, runs)
	}
	return most
}

// judge is what holds in every scenario: an attempt runs once, from its due time on, and to an end; the next one has a
// higher number and starts after that end, unless the attempt had been taken away.
func (g *stage) judge() {
	g.t.Helper()
	byTask := map[string][]event{}
	for _, c := range g.clients {
		for _, e := range c.all() {
			if e.task != "" {
				byTask[e.task] = append(byTask[e.task], e)
			}
		}
	}
	taken := []string{"lease_lost", "fenced"}
	for id, events := range byTask {
		slices.SortStableFunc(events, func(a, b event) int {
			return cmp.Or(cmp.Compare(a.attempt, b.attempt), cmp.Compare(b.name, a.name)) // the start first
		})
		var free int64 // since when the attempt before has ended
		for i, e := range events {
			isEnd := i%2 == 1
			switch {
			case isEnd != (e.name == "end") || isEnd && (e.attempt != events[i-1].attempt || e.client != events[i-1].client):
				g.t.Fatalf("task %s: not one start and one end of each attempt:%s", id, listed(events))
			case !isEnd && e.attempt == 1 && e.at < g.due[id]:
				g.t.Errorf("task %s started %d ms before it was due", id, g.due[id]-e.at)
			case !isEnd && e.at < free:
				g.t.Errorf("task %s ran twice at a time:%s", id, listed(events))
			case isEnd && !slices.Contains(taken, e.how):
				free = e.at
			}
		}
		if len(events)%2 != 0 {
			g.t.Errorf("task %s: its last attempt has no end:%s", id, listed(events))
		}
	}
}
