package scheduler

import (
	"encoding/binary"
	"slices"
	"testing"

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

// scan does what a runner does with a store.
func (m *model) scan(through task.Instant) {
	m.look.open(through)
	read := 0
	for _, e := range m.stored {
		if e.at > through || read == m.look.limit {
			break
		}
		m.look.add(e)
		read++
	}
	if read == m.look.limit {
		m.look.lower(m.stored[read-1].at - 1)
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
		if m.look.covers(e.at) && !slices.ContainsFunc(held, func(h entry) bool { return h.at == e.at && h.id == e.id }) {
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
				e := entry{at: task.Instant(instants.Draw(t, "at")), id: idOf(n), sends: rapid.Bool().Draw(t, "sends")}
				m.add(e)
				if m.look.covers(e.at) {
					m.look.add(e)
				}
			},
			"scan": func(t *rapid.T) { m.scan(task.Instant(instants.Draw(t, "through"))) },
			"take": func(t *rapid.T) {
				until, limit := task.Instant(instants.Draw(t, "until")), rapid.IntRange(1, 5).Draw(t, "limit")
				room := rapid.IntRange(0, 5).Draw(t, "room")
				want := m.held()
				taken, full := m.look.takeUntil(until, limit, room)
				checkTaken(t, want, taken, until, limit, room, full)
				m.stored = slices.DeleteFunc(m.stored, func(e entry) bool {
					return slices.ContainsFunc(taken, func(g entry) bool { return g.at == e.at && g.id == e.id })
				})
			},
			"lower": func(t *rapid.T) {
				m.look.lower(task.Instant(instants.Draw(t, "to")))
				if !m.look.truncated {
					t.Fatal("not marked as cut short")
				}
			},
		})
	})
}

// checkTaken compares with the plain reading of takeUntil's comment.
func checkTaken(t *rapid.T, held, taken []entry, until task.Instant, limit, room int, full bool) {
	var want []entry
	passed := false
	for _, e := range held {
		if e.at > until || len(want) == limit {
			break
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
	l.open(100)
	for i, at := range []task.Instant{50, 30, 40} {
		l.add(entry{at: at, id: idOf(uint64(i))})
	}
	if l.covers(50) || !l.covers(49) || !l.truncated || l.entries.Len() != 2 {
		t.Errorf("horizon %d, cut short %v, holds %d", l.horizon.Load(), l.truncated, l.entries.Len())
	}
	l.lower(80)
	if l.covers(50) {
		t.Error("lower moved the horizon away")
	}
	l.open(100)
	if !l.covers(100) || l.truncated || l.entries.Len() != 0 {
		t.Errorf("after open: horizon %d, cut short %v, holds %d", l.horizon.Load(), l.truncated, l.entries.Len())
	}
}

func TestNextSilentPassesOverWhatSends(t *testing.T) {
	l := newLookahead(8)
	l.open(100)
	if _, ok := l.nextSilent(); ok {
		t.Error("found something in an empty set")
	}
	l.add(entry{at: 1, sends: true})
	l.add(entry{at: 2, sends: true})
	if _, ok := l.nextSilent(); ok {
		t.Error("found something that sends")
	}
	if _, ok := l.nextSending(0); ok {
		t.Error("found something that is not yet due")
	}
	if at, ok := l.nextSending(1); !ok || at != 1 {
		t.Errorf("sends at %d, %v", at, ok)
	}
	l.add(entry{at: 3})
	if at, ok := l.nextSilent(); !ok || at != 3 {
		t.Errorf("found %d, %v", at, ok)
	}
}
