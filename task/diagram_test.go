package task_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// page is docs/concepts/task.md, which must say what the machine does.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/concepts/task.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type edge struct{ from, to task.State }

func TestTheDiagramIsTheMachine(t *testing.T) {
	_, text, found := strings.Cut(page(t), "```mermaid\nstateDiagram-v2\n")
	diagram, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatal("no diagram")
	}
	drawn := map[edge]bool{}
	ends := map[string]bool{}
	form := regexp.MustCompile(`^  (\[\*\]|\w+) --> (\[\*\]|\w+)(: [^:;]+)?$`)
	for line := range strings.Lines(diagram) {
		line = strings.TrimRight(line, "\n")
		m := form.FindStringSubmatch(line)
		switch {
		case line == "":
		case m == nil:
			t.Errorf("cannot read %q", line)
		case m[2] == "[*]":
			ends[m[1]] = true
		case m[1] != "[*]":
			e := edge{parseState(t, m[1]), parseState(t, m[2])}
			if drawn[e] {
				t.Errorf("%s --> %s is drawn twice", e.from, e.to)
			}
			drawn[e] = true
		}
	}
	for _, from := range task.States() {
		if ends[from.String()] != from.IsEnd() {
			t.Errorf("%s: drawn as an end %v, is an end %v", from, ends[from.String()], from.IsEnd())
		}
		for _, to := range task.States() {
			if drawn[edge{from, to}] != from.CanBecome(to) {
				t.Errorf("%s --> %s: drawn %v, possible %v", from, to, drawn[edge{from, to}], from.CanBecome(to))
			}
		}
	}
}

func parseState(t *testing.T, text string) task.State {
	t.Helper()
	s, err := task.ParseState(text)
	if err != nil {
		t.Error(err)
	}
	return s
}

// change is one row of the table of events, taken apart.
type change struct {
	event string
	edge
}

func TestTheTableOfEventsIsTheMachine(t *testing.T) {
	written := map[change]bool{}
	for _, row := range table(t, "| Event | From | To |") {
		for from := range strings.SplitSeq(row[1], ", ") {
			for to := range strings.SplitSeq(strings.ReplaceAll(row[2], "itself", from), ", ") {
				c := change{row[0], edge{parseState(t, from), parseState(t, to)}}
				if written[c] {
					t.Errorf("%s from %s to %s is there twice", c.event, c.from, c.to)
				}
				written[c] = true
			}
		}
	}
	done := allChanges()
	for c := range written {
		if !done[c] {
			t.Errorf("the page has %s from %s to %s, the machine has not", c.event, c.from, c.to)
		}
	}
	used := map[edge]bool{}
	for c := range done {
		used[c.edge] = true
		if !written[c] {
			t.Errorf("the machine has %s from %s to %s, the page has not", c.event, c.from, c.to)
		}
	}
	for _, from := range task.States() {
		for _, to := range task.States() {
			if from.CanBecome(to) && !used[edge{from, to}] {
				t.Errorf("no event leads from %s to %s", from, to)
			}
		}
	}
}

// allChanges applies every event to tasks of every state and of every standing that matters.
func allChanges() map[change]bool {
	done := map[change]bool{}
	for _, from := range task.States() {
		for bits := range 1 << 5 {
			now := scheduled()
			now.State, now.Worker, now.Attempt = from, "w1", 1
			now.CancelRequested = bits&1 != 0
			now.Suspect = bits&2 != 0
			now.Blamed = uint32(bits >> 1 & 1)
			now.Failures = uint32(bits>>2&1) * (policy.MaxAttempts - 1)
			if bits&16 != 0 {
				now.StartBefore = start
			}
			applyAll(now, bits&8 != 0, done)
		}
	}
	return done
}

func applyAll(now task.Task, blame bool, done map[change]bool) {
	for kind := range task.EventKind(20) {
		for o := range task.Outcome(20) {
			e := task.Event{Kind: kind, Outcome: o, Seq: now.Seq, Worker: now.Worker, Attempt: now.Attempt, Blame: blame, Force: true, Due: start}
			next, _, err := now.Apply(e, start, policy)
			if err != nil {
				continue
			}
			name := kind.String()
			if kind == task.Finish {
				name = fmt.Sprintf("%s: %s", kind, o)
			}
			done[change{name, edge{now.State, next.State}}] = true
		}
	}
}

func TestThePageHasTheConstants(t *testing.T) {
	want := map[string]string{
		"EnqueueTimeout": text(task.EnqueueTimeout), "EnqueueTimeoutMax": text(task.EnqueueTimeoutMax),
		"ClaimTimeout": text(task.ClaimTimeout), "AcquireTimeout": text(task.AcquireTimeout), "ClockBound": text(task.ClockBound), "EndedMin": text(task.EndedMin), "DeadRetention": text(task.DeadRetention),
		"QuarantineMin": text(task.QuarantineMin), "HistoryMax": fmt.Sprint(task.HistoryMax),
	}
	rows := table(t, "| Constant of `task` | Value |")
	for _, row := range rows {
		if name := strings.Trim(row[0], "`"); want[name] != row[1] {
			t.Errorf("%s is %q on the page and %q in the code", name, row[1], want[name])
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d constants on the page, want %d", len(rows), len(want))
	}
}

func text(d time.Duration) string { return d.String() }

// table reads the rows below a head that begins with these cells.
func table(t *testing.T, head string) (rows [][]string) {
	t.Helper()
	_, below, found := strings.Cut(page(t), "\n"+head)
	if !found {
		t.Fatalf("no table %s", head)
	}
	n := 0
	for line := range strings.Lines(below) {
		if n++; n <= 2 { // rest of the head, and the rule below it
			continue
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}
