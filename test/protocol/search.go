package protocol

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// Property is something that must hold.
type Property uint8

// The properties.
const (
	NoProperty Property = iota
	NoWakeup
	Loss
	StartAfterEnd
	StartAfterRefusal
	TwoAttempts
	FalseAnswer
	Twice
	NeverEnds
	Leftover
	TooEarly
	StartedTwice
	NotFollowed
	Late
)

var propertyTexts = [...]string{
	NoProperty:        "nothing",
	NoWakeup:          "a live task has no wake-up row where its task row says",
	Loss:              "an acknowledged task that has not ended is in no row",
	StartAfterEnd:     "an attempt starts after the task has ended",
	StartAfterRefusal: "an attempt starts of a task that was refused",
	TwoAttempts:       "two attempts run whose leases are both good",
	FalseAnswer:       "a task that lives is said not to be there",
	Twice:             "a task of a deliver lambda is sent twice, though nothing crashed",
	NeverEnds:         "once faults stop, a task does not come to its end",
	Leftover:          "once faults stop, a wake-up row stays for ever",
	TooEarly:          "an attempt starts before the time to which the task was moved",
	StartedTwice:      "what follows a task starts twice",
	NotFollowed:       "once faults stop, what follows a task that has ended does not start",
	Late:              "once faults stop, a task waits for a timeout or a full scan",
}

// String says what happens where the property does not hold.
func (p Property) String() string { return propertyTexts[p] }

// Call is one Schedule call.
type Call struct {
	Kind        uint8
	Part, Stale uint8 // its partition, and the one that a count too old or too new gives
	At, Life    uint8
	AfterCall   int // it begins when that one, counted from 1, is over
	AfterExpiry int // 1: it begins when an ended row has expired
	AfterEnd    int // 1: it begins when a task has ended
	// Next: it uses the key of a task that has ended, whose row it replaces.
	Next bool
}

// Scenario bounds a search.
type Scenario struct {
	Name             string
	Calls            []Call
	Buffered         bool // the first call was acknowledged by the buffer, which holds its task
	Copies           uint8
	Parts, Owners    int
	Workers          int
	Places, LastMove uint8 // LastMove-1 is where the last move goes; 0: anywhere
	Until, Now       uint8
	Deliver          bool
	Embedded         bool
	Expires, Sweeps  bool
	Expiring         bool // an owner may end a task that never started instead of its dispatch
	Match            bool
	Follows          bool     // something follows the task
	Outside          bool     // hsc runs in a process that fires nothing
	Prompt           bool     // Late is checked
	Only             Property // the one to look for; NoProperty: all of them
	ChangePart       uint8    // added to the partition that a change moves the task to
	Change, ChangeTo uint8    // what a user changes, and the place that the task then waits at
	Left             budget
}

type model struct {
	Scenario
	rules Rules
}

func (m *model) has(r Rule) bool { return m.rules.has(r) }

func (m *model) keyed() bool { return len(m.Calls) > 0 && m.Calls[0].Kind == Keyed }

func (m *model) first() world {
	w := world{left: m.Left, now: m.Now}
	if m.Buffered {
		w.acked, w.buffered = 1, m.Copies
	}
	return w
}

// check returns the property that a state breaks by itself.
func (m *model) check(w *world) Property {
	if w.bad != NoProperty || m.Deliver {
		return w.bad
	}
	t := &w.task
	live := t.state != absent && t.state != ended
	if live && w.rows[t.part][t.at].seq == 0 {
		return NoWakeup
	}
	for open := w.acked &^ w.finished &^ w.aside; open != 0; open &= open - 1 {
		life := uint8(0)
		for open&(1<<life) == 0 {
			life++
		}
		if (!live || t.life != life) && !w.holds(life) && w.buffered == 0 {
			return Loss
		}
	}
	return NoProperty
}

// holds reports whether a wake-up row holds the task of that life.
func (w *world) holds(life uint8) bool {
	for p := range w.rows {
		for _, r := range w.rows[p] {
			if r.seq != 0 && r.kind != bare && r.life == life {
				return true
			}
		}
	}
	return false
}

// Result is what a search found.
type Result struct {
	States, Steps int
	Broken        Property
	Trace         []string
}

// edge is a step between two states, by their numbers.
type edge struct {
	from, to int32
	slow     bool
}

// worlds are states by number, in pages, because a slice of millions would be copied each time that it grows.
type worlds struct {
	pages [][]world
	n     int
}

const pageLen = 1 << 12

func (ws *worlds) at(i int32) *world { return &ws.pages[i/pageLen][i%pageLen] }

func (ws *worlds) add(w *world) {
	if ws.n%pageLen == 0 {
		ws.pages = append(ws.pages, make([]world, 0, pageLen))
	}
	last := &ws.pages[len(ws.pages)-1]
	*last = append(*last, *w)
	ws.n++
}

type search struct {
	m      *model
	seed   maphash.Seed
	number map[uint64]int32 // by hash: of a million states no two share one, but by a chance of 1 in 10 million
	worlds worlds
	parent []int32
	edges  []edge // of steps that are no faults
	steps  int
}

// StatesMax bounds a search. A search that reaches it is not exhaustive, and panics.
const StatesMax = 6_000_000

// Search looks at every state that a scenario can reach under the rules, and stops at the first that breaks
// a property.
func Search(s Scenario, rules Rules) Result { return SearchFirst(s, rules, 0) }

// SearchFirst stops when it has found enough states, those that are nearest to the start; 0: it does not. Of
// a scenario with more states it does not tell whether every task ends.
func SearchFirst(s Scenario, rules Rules, enough int) Result {
	x := &search{m: &model{s, rules}, seed: maphash.MakeSeed(), number: map[uint64]int32{}}
	start := x.m.first()
	x.add(&start, -1)
	for i := int32(0); int(i) < x.worlds.n; i++ {
		w := *x.worlds.at(i)
		broken := NoProperty
		last := int32(-1)
		x.m.next(&w, func(v *world, st step) {
			if broken != NoProperty {
				return
			}
			x.steps++
			to := x.add(v, i)
			if !st.fault {
				x.edges = append(x.edges, edge{i, to, st.slow})
			}
			if p := x.m.check(v); p != NoProperty && (s.Only == NoProperty || p == s.Only) {
				broken, last = p, to
			}
		})
		if broken != NoProperty {
			return x.result(broken, last)
		}
		if enough > 0 && x.worlds.n >= enough {
			return Result{States: x.worlds.n, Steps: x.steps}
		}
		if x.worlds.n > StatesMax {
			panic(fmt.Sprintf("scenario %s has more than %d states", s.Name, StatesMax))
		}
	}
	return x.settles()
}

// add numbers a state. Two owners that do the same are one state with their names exchanged.
func (x *search) add(w *world, parent int32) int32 {
	v := *w
	if x.m.Owners == 2 && !x.m.Prompt && less(&v.owners[1], &v.owners[0]) {
		v.owners[0], v.owners[1] = v.owners[1], v.owners[0]
	}
	h := maphash.Comparable(x.seed, v)
	if n, known := x.number[h]; known {
		return n
	}
	n := int32(x.worlds.n)
	x.number[h] = n
	x.worlds.add(&v)
	x.parent = append(x.parent, parent)
	return n
}

func less(a, b *proc) bool { return a.order() < b.order() }

func (p *proc) order() uint64 {
	h := uint64(p.pc)
	for _, b := range [...]uint8{p.part, p.at, p.plan, p.row.seq, p.row.kind, p.row.life, p.task.state, p.task.seq} {
		h = h*31 + uint64(b)
	}
	return h
}

// settles checks that from every state the end can still be reached without a fault.
func (x *search) settles() Result {
	all := func(*edge) bool { return true }
	if n := x.stuck(all, x.m.isEnd); n >= 0 {
		return x.result(NeverEnds, n)
	}
	if n := x.stuck(all, isClean); n >= 0 {
		return x.result(Leftover, n)
	}
	if x.m.Follows {
		if n := x.stuck(all, x.m.isFollowed); n >= 0 {
			return x.result(NotFollowed, n)
		}
	}
	if x.m.Prompt {
		if n := x.stuck(func(e *edge) bool { return !e.slow }, x.m.isEnd); n >= 0 {
			return x.result(Late, n)
		}
	}
	return x.result(NoProperty, -1)
}

func (m *model) isEnd(w *world) bool {
	return w.acked&^w.finished&^w.aside == 0 && (w.task.state == absent || w.task.state == ended)
}

func isClean(w *world) bool {
	return w.rows == [partsMax][placesMax]wakeRow{} && w.late == [lateMax]lateOp{}
}

// stuck returns the first state from which the allowed steps lead to no good one; -1 when there is none.
func (x *search) stuck(allowed func(*edge) bool, good func(*world) bool) int32 {
	begin := make([]int32, x.worlds.n+1)
	for i := range x.edges {
		begin[x.edges[i].to+1]++
	}
	for i := 1; i < len(begin); i++ {
		begin[i] += begin[i-1]
	}
	into := make([]int32, len(x.edges))
	fill := append([]int32(nil), begin...)
	for i := range x.edges {
		to := x.edges[i].to
		into[fill[to]] = int32(i)
		fill[to]++
	}
	ok := make([]bool, x.worlds.n)
	var queue []int32
	for i := range int32(x.worlds.n) {
		if good(x.worlds.at(i)) {
			ok[i] = true
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		to := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, i := range into[begin[to]:begin[to+1]] {
			if e := &x.edges[i]; !ok[e.from] && allowed(e) {
				ok[e.from] = true
				queue = append(queue, e.from)
			}
		}
	}
	for i := range ok {
		if !ok[i] {
			return int32(i)
		}
	}
	return -1
}

func (x *search) result(p Property, at int32) Result {
	r := Result{States: x.worlds.n, Steps: x.steps, Broken: p}
	if p != NoProperty {
		r.Trace = x.trace(at)
	}
	return r
}

// trace returns the steps that lead to a state. It makes them again, because only states are kept.
func (x *search) trace(at int32) []string {
	var path []int32
	for n := at; n >= 0; n = x.parent[n] {
		path = append(path, n)
	}
	lines := []string{"  " + show(x.worlds.at(0))}
	for i := len(path) - 2; i >= 0; i-- {
		w, told := *x.worlds.at(path[i+1]), false
		x.m.next(&w, func(v *world, st step) {
			if told || x.add(v, path[i+1]) != path[i] {
				return
			}
			told = true
			lines = append(lines, fmt.Sprintf("%2d. %-9s %s\n      %s", len(path)-1-i, st.who, st.what, show(v)))
		})
	}
	return lines
}

var (
	kindNames  = [...]string{"", "bare", "holds the task", "holds the enqueued task", "acquired"}
	stateNames = [...]string{"absent", "scheduled", "enqueued", "claimed", "retriable", "waiting", "ended"}
)

// show writes a state in a line: place@seq of each wake-up row, the task row, the messages and what is in
// flight.
func show(w *world) string {
	var b strings.Builder
	for p := range w.rows {
		for at, r := range w.rows[p] {
			if r.seq != 0 {
				fmt.Fprintf(&b, "[%s seq %d %s%s] ", placeName(uint8(p), uint8(at)), r.seq, kindNames[r.kind], lifeName(r.life))
			}
		}
	}
	if b.Len() == 0 {
		b.WriteString("[no wake-up row] ")
	}
	if t := &w.task; t.state == absent {
		b.WriteString("no task row")
	} else {
		fmt.Fprintf(&b, "task %s seq %d%s, names %s seq %d", stateNames[t.state], t.seq, lifeName(t.life), placeName(t.part, t.at), t.wseq)
	}
	for _, s := range w.msgs {
		if s != 0 {
			fmt.Fprintf(&b, ", message %d", s)
		}
	}
	for _, l := range w.late {
		if l == (lateOp{}) {
			continue
		}
		verb := "delete"
		if l.put == 1 {
			verb = "put"
		}
		fmt.Fprintf(&b, ", in flight: %s %s seq %d", verb, placeName(l.part, l.at), l.row.seq)
	}
	return b.String()
}

func placeName(part, at uint8) string {
	if part != 0 {
		return fmt.Sprintf("shard 2 place %d", at)
	}
	return fmt.Sprintf("place %d", at)
}

func lifeName(life uint8) string {
	if life == 0 {
		return ""
	}
	return " of the second task"
}
