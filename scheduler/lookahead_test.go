package scheduler

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

func idOf(n uint64) (id task.ID) {
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

// model is all that a store has, and what the set promised to hold of it.
type model struct {
	look   *lookahead
	stored []entry // ordered
}

func (m *model) add(e entry) {
	at, found := slices.BinarySearchFunc(m.stored, e, func(a, b entry) int {
		switch {
		case before(a, b):
			return -1
		case before(b, a):
			return 1
		}
		return 0
	})
	if !found {
		m.stored = slices.Insert(m.stored, at, e)
	}
}

// scan does what a loop does with a store: from behind a place, at most from the horizon.
func (m *model) scan(at, to task.Instant) {
	from, until := through(at), through(to)
	if end := m.look.end(); end.less(from) {
		from = end
	}
	m.look.reach(until)
	m.look.cutBehind(from, func(entry) bool { return true })
	m.look.truncated = false
	read := 0
	var last position
	for _, e := range m.stored {
		p := position{e.at, e.id}
		if !from.less(p) {
			continue
		}
		if until.less(p) || read == m.look.limit {
			break
		}
		if m.look.has(p) {
			m.look.add(e)
		}
		read, last = read+1, p
	}
	if read == m.look.limit {
		m.look.lower(last)
	}
}

func (m *model) held() (all []entry) {
	m.look.entries.Ascend(func(e entry) bool {
		all = append(all, e)
		return true
	})
	return all
}

func (m *model) check(t *rapid.T) {
	if n := m.look.entries.Len(); n > m.look.limit {
		t.Fatalf("holds %d of at most %d", n, m.look.limit)
	}
	held := m.held()
	for _, e := range m.stored {
		if m.look.has(position{e.at, e.id}) && !m.look.covers(e.at) {
			t.Fatalf("%d is not covered, and has to be in the set", e.at)
		}
		if m.look.has(position{e.at, e.id}) && !slices.ContainsFunc(held, func(h entry) bool { return h.at == e.at && h.id == e.id }) {
			t.Fatalf("forgot %d, which is not after the horizon %d", e.at, m.look.horizon.Load())
		}
	}
	if next, ok := m.look.next(); ok && next != held[0].at {
		t.Fatalf("next is %d, want %d", next, held[0].at)
	}
}

func TestLookaheadNeverForgetsWhatItCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{look: newLookahead(rapid.IntRange(1, 9).Draw(t, "limit"))}
		instants := rapid.Int64Range(1, 30)
		var n uint64
		t.Repeat(map[string]func(*rapid.T){
			"": m.check,
			"store and hint": func(t *rapid.T) {
				n++
				e := entry{at: task.Instant(instants.Draw(t, "at")), id: idOf(n), sends: rapid.Bool().Draw(t, "sends"), first: rapid.Bool().Draw(t, "first")}
				m.add(e)
				if m.look.has(position{e.at, e.id}) {
					m.look.add(e)
				}
			},
			"scan": func(t *rapid.T) {
				m.scan(task.Instant(instants.Draw(t, "from")), task.Instant(instants.Draw(t, "through")))
			},
			"take": func(t *rapid.T) {
				now, limit := task.Instant(instants.Draw(t, "now")), rapid.IntRange(1, 5).Draw(t, "limit")
				ahead, room := time.Duration(rapid.IntRange(0, 9).Draw(t, "ahead"))*time.Microsecond, rapid.IntRange(0, 5).Draw(t, "room")
				want := m.held()
				taken, full := m.look.take(now, ahead, limit, room)
				checkTaken(t, want, taken, now, ahead, limit, room, full)
				m.stored = slices.DeleteFunc(m.stored, func(e entry) bool {
					return slices.ContainsFunc(taken, func(g entry) bool { return g.at == e.at && g.id == e.id })
				})
			},
			"lower": func(t *rapid.T) {
				m.look.lower(position{task.Instant(instants.Draw(t, "to")), idOf(rapid.Uint64Range(0, n).Draw(t, "id"))})
				if !m.look.truncated {
					t.Fatal("not marked as cut short")
				}
			},
		})
	})
}

// checkTaken compares with the plain reading of take's comment.
func checkTaken(t *rapid.T, held, taken []entry, now task.Instant, ahead time.Duration, limit, room int, full bool) {
	var want []entry
	passed := false
	for _, e := range held {
		if e.at > now.Add(ahead) || len(want) == limit {
			break
		}
		if e.at > now && !e.first {
			continue
		}
		if e.sends {
			if room == 0 {
				passed = true
				continue
			}
			room--
		}
		want = append(want, e)
	}
	if !slices.Equal(want, taken) || full != passed {
		t.Fatalf("took %v, full %v; want %v, %v", taken, full, want, passed)
	}
}

func TestLookaheadEvictsTheLatest(t *testing.T) {
	l := newLookahead(2)
	l.reach(through(100))
	for i, at := range []task.Instant{50, 30, 50} {
		l.add(entry{at: at, id: idOf(uint64(9 - i))})
	}
	kept, evicted := position{50, idOf(7)}, position{50, idOf(9)}
	if l.has(evicted) || !l.has(kept) || !l.has(evicted.previous()) || !l.covers(50) || l.covers(51) || !l.truncated || l.entries.Len() != 2 {
		t.Errorf("horizon %v, cut short %v, holds %d", l.end(), l.truncated, l.entries.Len())
	}
	l.lower(through(80))
	if l.has(evicted) {
		t.Error("lower moved the horizon away")
	}
	if before := l.reach(through(100)); before != evicted.previous() || !l.has(evicted) || l.entries.Len() != 2 {
		t.Errorf("after reach from %v: horizon %v, holds %d", before, l.end(), l.entries.Len())
	}
}

func TestThePositionBefore(t *testing.T) {
	for p, want := range map[position]position{
		{5, idOf(7)}:   {5, idOf(6)},
		{5, idOf(256)}: {5, idOf(255)},
		{5, task.ID{}}: through(4),
	} {
		if got := p.previous(); got != want || !got.less(p) {
			t.Errorf("before %v is %v, want %v", p, got, want)
		}
	}
}

// A look puts what it finds where it wakes. It keeps what it would not find there again: what waits
// elsewhere, and what is in flight, too.
func TestALookKeepsWhatItDoesNotFind(t *testing.T) {
	l := &loop{ahead: newLookahead(8), flight: newFlight(newBudget(8))}
	for n, at := range []task.Instant{10, 20, 5, 40} {
		row := &task.Task{ID: idOf(uint64(n)), WakeRow: task.WakeRow{At: at, Seq: 1}}
		e := entry{at: at, id: row.ID, row: row}
		if at == 5 {
			e.at = 30 // a retry in place
		}
		if at == 40 {
			l.flight.put(inFlight{id: row.ID, place: at}) // a retry that waits for room
		}
		l.ahead.add(e)
	}
	l.ahead.cutBehind(through(10), l.isFound)
	var held []task.Instant
	l.ahead.each(func(e entry) { held = append(held, e.at) })
	if want := []task.Instant{10, 30, 40}; !slices.Equal(held, want) {
		t.Errorf("holds those at %v, want %v", held, want)
	}
}

func TestNextFiring(t *testing.T) {
	const lead = 5 * time.Microsecond
	l := newLookahead(8)
	l.reach(through(100))
	want := func(silent bool, at task.Instant) {
		t.Helper()
		if got, ok := l.nextFiring(lead, silent); got != at || ok != (at != 0) {
			t.Errorf("silent %v: fires at %d (%v), want %d", silent, got, ok, at)
		}
	}
	want(false, 0)
	l.add(entry{at: 18, id: idOf(1), sends: true})
	l.add(entry{at: 20, id: idOf(2), sends: true, first: true})
	want(true, 0)
	want(false, 15) // the one that is fired ahead, though it comes later
	l.add(entry{at: 22, id: idOf(3)})
	want(true, 22)
	want(false, 15)
	if at := l.waitsSince(); at != 18 {
		t.Errorf("waits since %d, want 18", at)
	}
}
