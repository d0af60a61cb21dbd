package conformance_test

import (
	"bufio"
	"bytes"
	"cmp"
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
	answerMax    = 50 * time.Second // for a call, its tries included
	drainMax     = 15 * time.Second
	lineBytesMax = 1 << 20
	saidBytesMax = 4 << 10 // of standard error that a failed test shows
)

// A client is a running adapter.
type client struct {
	name    string
	process *loopback.Process
	stdin   io.WriteCloser
	said    bytes.Buffer  // standard error, to be read once the process is gone
	offset  time.Duration // of its clock

	mu      sync.Mutex
	calls   int
	answers map[int]chan answer
	events  []event
	cursor  int           // of the events, those before were looked at
	changed chan struct{} // closed at the next event
	wrong   []string      // what it wrote that is neither
	read    chan struct{} // closed at the end of its standard output
}

type answer struct {
	OK    object `json:"ok"`
	Error *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"error"`
}

// An event is what a handler or a worker writes down. At is corrected if the client's clock is wrong.
type event struct {
	client  string
	fields  object
	name    string
	task    string
	attempt int
	at      int64 // Unix ms
	how     string
}

func startClient(t *testing.T, l language, name, url, clock string) *client {
	t.Helper()
	c := &client{name: name, answers: map[int]chan answer{}, changed: make(chan struct{}), read: make(chan struct{})}
	args, env := l.run(t)
	if clock != "" {
		var err error
		if c.offset, err = time.ParseDuration(clock); err != nil {
			t.Fatal(err)
		}
		harness.NewClock(t) // skips the test where there is none
		args = append([]string{harness.Clockshift(t), clock}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), env...), "KINESIN_SERVER="+url)
	stdout, lines := io.Pipe()
	cmd.Stdout, cmd.Stderr = lines, &c.said
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if c.process, err = loopback.Start(cmd); err != nil {
		t.Fatal(err)
	}
	go c.listen(stdout)
	t.Cleanup(func() {
		c.process.Signal(syscall.SIGKILL)
		<-c.process.Exited()
		_ = lines.Close()
		<-c.read
		if t.Failed() {
			t.Logf("client %s wrote to standard error:\n%s", name, c.said.String()[max(0, c.said.Len()-saidBytesMax):])
		}
	})
	return c
}

// listen reads answers and events until standard output ends.
func (c *client) listen(stdout io.Reader) {
	defer close(c.read)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		var line struct {
			N int `json:"n"`
			answer
			Event   string `json:"event"`
			Task    string `json:"task"`
			Attempt int    `json:"attempt"`
			At      int64  `json:"at"`
			How     string `json:"how"`
		}
		var fields object
		err := errors.Join(json.Unmarshal(lines.Bytes(), &line), json.Unmarshal(lines.Bytes(), &fields))
		c.mu.Lock()
		switch waiting := c.answers[line.N]; {
		case err == nil && line.Event != "":
			at := cmp.Or(line.At, time.Now().UnixMilli()+c.offset.Milliseconds()) - c.offset.Milliseconds()
			c.events = append(c.events, event{
				client: c.name, fields: fields, name: line.Event, task: line.Task, attempt: line.Attempt, at: at, how: line.How,
			})
			close(c.changed)
			c.changed = make(chan struct{})
		case err == nil && waiting != nil:
			delete(c.answers, line.N)
			waiting <- line.answer
		default:
			c.wrong = append(c.wrong, lines.Text())
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
		missing := slices.Clone(wanted)
		for i, e := range c.events[c.cursor:] {
			if found := slices.IndexFunc(missing, func(want object) bool { return fits(want, e.fields) }); found >= 0 {
				missing = slices.Delete(missing, found, found+1)
			}
			if len(missing) == 0 {
				c.cursor += i + 1
				c.mu.Unlock()
				return nil
			}
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			return fmt.Errorf("no events %v within %v; there were:%s", missing, atMost, listed(c.all()))
		}
	}
}

// all are the events so far.
func (c *client) all() []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

func listed(events []event) (lines string) {
	for _, e := range events {
		lines += fmt.Sprintf("\n  %s %v", e.client, e.fields)
	}
	return lines
}

// end closes standard input, after which the adapter has to drain and to end well.
func (c *client) end(t *testing.T) {
	t.Helper()
	_ = c.stdin.Close()
	select {
	case <-c.process.Exited():
		if code := c.process.State().ExitCode(); code != 0 {
			t.Errorf("client %s ended with status %d", c.name, code)
		}
	case <-time.After(drainMax):
		t.Errorf("client %s has not drained within %v", c.name, drainMax)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.wrong {
		t.Errorf("client %s wrote neither an answer nor an event: %s", c.name, line)
	}
}
