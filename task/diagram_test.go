package task_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

// page reads a page of docs, which must say what the machine does.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type edge struct{ from, to task.State }

// TestTheDiagramIsOfTheMachine checks that each edge that is drawn is possible, and that every end is drawn as one.
func TestTheDiagramIsOfTheMachine(t *testing.T) {
	_, text, found := strings.Cut(page(t, "concepts/task.md"), "```mermaid\nstateDiagram-v2\n")
	diagram, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatal("no diagram")
	}
	drawn, ends := map[task.State]bool{}, map[string]bool{}
	form := regexp.MustCompile(`^  (\[\*\]|\w+) --> (\[\*\]|\w+)(: [^:;]+)?$`)
	for line := range strings.Lines(diagram) {
		m := form.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case m == nil:
			t.Errorf("cannot read %q", line)
		case m[2] == "[*]":
			ends[m[1]] = true
		case m[1] != "[*]":
			from, to := parseState(t, m[1]), parseState(t, m[2])
			drawn[from], drawn[to] = true, true
			if !from.CanBecome(to) {
				t.Errorf("%s --> %s is drawn, and not possible", from, to)
			}
		}
	}
	for _, s := range task.States() {
		if !drawn[s] || ends[s.String()] != s.IsEnd() {
			t.Errorf("%s: drawn %v, as an end %v, is an end %v", s, drawn[s], ends[s.String()], s.IsEnd())
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
		if !c.from.CanBecome(c.to) {
			t.Errorf("%s leads from %s to %s, which CanBecome denies", c.event, c.from, c.to)
		}
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

// table reads the rows below a head that begins with these cells.
func table(t *testing.T, head string) (rows [][]string) {
	t.Helper()
	_, below, found := strings.Cut(page(t, "internals/states.md"), "\n"+head)
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
