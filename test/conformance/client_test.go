package conformance_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/loopback"
	"github.com/kinesin-io/kinesin/test/harness"
)

const (
	answerMax    = 45 * time.Second // for a call, its tries included
	drainMax     = 15 * time.Second
	lineBytesMax = 1 << 20
	saidBytesMax = 4 << 10 // of standard error that a failed test shows
)

// A client is a running adapter.
type client struct {
	t       *testing.T
	name    string
	process *loopback.Process
	stdin   io.WriteCloser
	offset  time.Duration // of its clock

	mu      sync.Mutex
	calls   int
	answers map[int]chan answer
	events  []event
	cursor  int           // of the events: those before were awaited, or passed over
	changed chan struct{} // closed at the next event
}

type answer struct {
	OK    object `json:"ok"`
	Error struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"error"`
}

// An event is what a handler or a worker writes down.
type event struct {
	Name    string `json:"event"`
	Task    string `json:"task"`
	Attempt int    `json:"attempt"`
	At      int64  `json:"at"` // corrected if the client's clock is wrong
	How     string `json:"how"`

	client string
	fields object
}

func (e event) String() string { return fmt.Sprintf("\n  client %s: %v", e.client, e.fields) }

func startClient(t *testing.T, l language, name, url, clock string) *client {
	t.Helper()
	c := &client{t: t, name: name, answers: map[int]chan answer{}, changed: make(chan struct{})}
	args, env := l.run(t)
	if clock != "" {
		harness.NewClock(t) // skips the test where there is none
		args = append([]string{harness.Clockshift(t), clock}, args...)
	}
	c.offset, _ = time.ParseDuration(clock)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), env...), "KINESIN_SERVER="+url)
	var said bytes.Buffer
	stdout, lines := io.Pipe()
	cmd.Stdout, cmd.Stderr = lines, &said
	var err error
	if c.stdin, err = cmd.StdinPipe(); err == nil {
		c.process, err = loopback.Start(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() { c.listen(stdout) })
	t.Cleanup(func() {
		c.process.Signal(syscall.SIGKILL)
		<-c.process.Exited()
		_ = lines.Close()
		reader.Wait()
		if t.Failed() {
			t.Logf("client %s wrote to standard error:\n%s", name, said.Bytes()[max(0, said.Len()-saidBytesMax):])
		}
	})
	return c
}

// listen reads answers and events until standard output ends.
func (c *client) listen(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		var line struct {
			N int `json:"n"`
			answer
		}
		e := event{client: c.name}
		err := errors.Join(json.Unmarshal(lines.Bytes(), &line), json.Unmarshal(lines.Bytes(), &e), json.Unmarshal(lines.Bytes(), &e.fields))
		c.mu.Lock()
		switch waiting := c.answers[line.N]; {
		case err == nil && e.Name != "":
			e.At -= c.offset.Milliseconds()
			c.events = append(c.events, e)
			close(c.changed)
			c.changed = make(chan struct{})
		case err == nil && waiting != nil:
			delete(c.answers, line.N)
			waiting <- line.answer
		default:
			c.t.Errorf("client %s wrote neither an answer nor an event: %s", c.name, lines.Text())
		}
		c.mu.Unlock()
	}
}

// call begins a call. Its answer comes once.
func (c *client) call(what string, args object) (<-chan answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	waiting := make(chan answer, 1)
	c.answers[c.calls] = waiting
	return waiting, json.NewEncoder(c.stdin).Encode(object{"n": c.calls, "do": what, "args": args})
}

// await waits until all events have come, in any order, after those that were awaited before.
func (c *client) await(wanted []object, atMost time.Duration) error {
	timeout := time.After(atMost)
	for {
		c.mu.Lock()
		events, changed, missing := slices.Clone(c.events), c.changed, slices.Clone(wanted)
		c.mu.Unlock()
		for i := c.cursor; i < len(events); i++ {
			if found := slices.IndexFunc(missing, func(want object) bool { return fits(want, events[i].fields) }); found >= 0 {
				missing = slices.Delete(missing, found, found+1)
			}
			if len(missing) == 0 {
				c.cursor = i + 1
				return nil
			}
		}
		select {
		case <-changed:
		case <-timeout:
			return fmt.Errorf("no events %v within %v; there were:%v", missing, atMost, events)
		}
	}
}

// all are the events so far.
func (c *client) all() []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// most is how many handlers ran at once.
func (c *client) most() (most int) {
	runs := 0
	for _, e := range c.all() {
		runs += map[string]int{"start": 1, "end": -1}[e.Name]
		most = max(most, runs)
	}
	return most
}

// end closes standard input, after which the adapter has to drain and to end well.
func (c *client) end() {
	_ = c.stdin.Close()
	select {
	case <-c.process.Exited():
		if code := c.process.State().ExitCode(); code != 0 {
			c.t.Errorf("client %s ended with status %d", c.name, code)
		}
	case <-time.After(drainMax):
		c.t.Errorf("client %s has not drained within %v", c.name, drainMax)
	}
}
