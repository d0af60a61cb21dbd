package scheduler

import (
	"encoding/binary"
	"math"
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
	buffer *buffer
	stored []entry // ordered
}

func (m *model) add(e entry) {
	at, found := slices.BinarySearchFunc(m.stored, e, func(a, b entry) int {
		switch {
		case a.key().less(b.key()):
			return -1
		case b.key().less(a.key()):
			return 1
		}
		return 0
	})
	if !found {
		m.stored = slices.Insert(m.stored, at, e)
	}
}

// scan does what a loop does with a store: from behind a place, at most from the high-water mark.
func (m *model) scan(at, to task.Instant) {
	from, until := endOf(at), endOf(to)
	if end := m.buffer.end(); end.less(from) {
		from = end
	}
	m.buffer.extend(until)
	m.buffer.dropAfter(from, func(entry) bool { return true })
	m.buffer.truncated = false
	read := 0
	var last rowKey
	for _, e := range m.stored {
		p := rowKey{e.at, e.id}
		if !from.less(p) {
			continue
		}
		if until.less(p) || read == m.buffer.limit {
			break
		}
		if m.buffer.has(p) {
			m.buffer.add(e)
		}
		read, last = read+1, p
	}
	if read == m.buffer.limit {
		m.buffer.lower(last)
	}
}

func (m *model) held() (all []entry) {
	m.buffer.entries.Ascend(func(e entry) bool {
		all = append(all, e)
		return true
	})
	return all
}

func (m *model) check(t *rapid.T) {
	if n := m.buffer.entries.Len(); n > m.buffer.limit {
		t.Fatalf("holds %d of at most %d", n, m.buffer.limit)
	}
	held, roomless := m.held(), 0
	for i := range held {
		if held[i].isRoomless() {
			roomless++
		}
	}
	if roomless != m.buffer.roomless {
		t.Fatalf("counts %d entries that need no room, and has %d", m.buffer.roomless, roomless)
	}
	for _, e := range m.stored {
		if m.buffer.has(rowKey{e.at, e.id}) && !m.buffer.covers(e.at) {
			t.Fatalf("%d is not covered, and has to be in the set", e.at)
		}
		if m.buffer.has(rowKey{e.at, e.id}) && !slices.ContainsFunc(held, func(h entry) bool { return h.at == e.at && h.id == e.id }) {
			t.Fatalf("forgot %d, which is not after the high-water mark %d", e.at, m.buffer.highWater.Load())
		}
	}
	if next, ok := m.buffer.first(); ok && next != held[0].at {
		t.Fatalf("next is %d, want %d", next, held[0].at)
	}
}

func TestBufferNeverForgetsWhatItCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{buffer: newBuffer(rapid.IntRange(1, 9).Draw(t, "limit"))}
		instants := rapid.Int64Range(1, 30)
		var n uint64
		t.Repeat(map[string]func(*rapid.T){
			"": m.check,
			"store and hint": func(t *rapid.T) {
				n++
				e := entry{at: task.Instant(instants.Draw(t, "at")), id: idOf(n), sends: rapid.Bool().Draw(t, "sends"), early: rapid.Bool().Draw(t, "first")}
				m.add(e)
				if m.buffer.has(rowKey{e.at, e.id}) {
					m.buffer.add(e)
				}
			},
			"scan": func(t *rapid.T) {
				m.scan(task.Instant(instants.Draw(t, "from")), task.Instant(instants.Draw(t, "through")))
			},
			"take": func(t *rapid.T) {
				now, limit := task.Instant(instants.Draw(t, "now")), rapid.IntRange(1, 5).Draw(t, "limit")
				ahead, room := time.Duration(rapid.IntRange(0, 9).Draw(t, "ahead"))*time.Microsecond, rapid.IntRange(0, 5).Draw(t, "room")
				want := m.held()
				taken, full := m.buffer.take(now, ahead, limit, room)
				checkTaken(t, want, taken, now, ahead, limit, room, full)
				m.stored = slices.DeleteFunc(m.stored, func(e entry) bool {
					return slices.ContainsFunc(taken, func(g entry) bool { return g.at == e.at && g.id == e.id })
				})
			},
			"lower": func(t *rapid.T) {
				m.buffer.lower(rowKey{task.Instant(instants.Draw(t, "to")), idOf(rapid.Uint64Range(0, n).Draw(t, "id"))})
				if !m.buffer.truncated {
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
		if e.at > now && !e.early {
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

func TestBufferEvictsTheLatest(t *testing.T) {
	l := newBuffer(2)
	l.extend(endOf(100))
	for i, at := range []task.Instant{50, 30, 50} {
		l.add(entry{at: at, id: idOf(uint64(9 - i))})
	}
	kept, evicted := rowKey{50, idOf(7)}, rowKey{50, idOf(9)}
	if l.has(evicted) || !l.has(kept) || !l.has(evicted.previous()) || !l.covers(50) || l.covers(51) || !l.truncated || l.entries.Len() != 2 {
		t.Errorf("high-water mark %v, cut short %v, holds %d", l.end(), l.truncated, l.entries.Len())
	}
	l.lower(endOf(80))
	if l.has(evicted) {
		t.Error("lower moved the high-water mark away")
	}
	if before := l.extend(endOf(100)); before != evicted.previous() || !l.has(evicted) || l.entries.Len() != 2 {
		t.Errorf("after reach from %v: high-water mark %v, holds %d", before, l.end(), l.entries.Len())
	}
}

func TestTheKeyBefore(t *testing.T) {
	for p, want := range map[rowKey]rowKey{
		{5, idOf(7)}:   {5, idOf(6)},
		{5, idOf(256)}: {5, idOf(255)},
		{5, task.ID{}}: endOf(4),
	} {
		if got := p.previous(); got != want || !got.less(p) {
			t.Errorf("before %v is %v, want %v", p, got, want)
		}
	}
}

// A read-ahead puts what it finds where it wakes. It keeps what it would not find there again: what waits
// elsewhere, and what is in flight, too.
func TestAReadKeepsWhatItDoesNotFind(t *testing.T) {
	l := &loop{buffer: newBuffer(8), inFlight: newInFlightSet(newInFlightLimit(8))}
	for n, at := range []task.Instant{10, 20, 5, 40} {
		row := &task.Task{ID: idOf(uint64(n)), WakeRow: task.WakeRow{At: at, Seq: 1}}
		e := entry{at: at, id: row.ID, row: row}
		if at == 5 {
			e.at = 30 // a retry in place
		}
		if at == 40 {
			l.inFlight.put(inFlightTask{id: row.ID, wakeRowAt: at}) // a retry that waits for room
		}
		l.buffer.add(e)
	}
	l.buffer.dropAfter(endOf(10), l.isFoundAgain)
	var held []task.Instant
	l.buffer.entries.Ascend(func(e entry) bool { held = append(held, e.at); return true })
	if want := []task.Instant{10, 30, 40}; !slices.Equal(held, want) {
		t.Errorf("holds those at %v, want %v", held, want)
	}
}

func TestNextDispatch(t *testing.T) {
	const lead = 5 * time.Microsecond
	l := newBuffer(8)
	l.extend(endOf(100))
	want := func(silent bool, at task.Instant) {
		t.Helper()
		if got, ok := l.nextDispatch(lead, silent); got != at || ok != (at != 0) {
			t.Errorf("silent %v: fires at %d (%v), want %d", silent, got, ok, at)
		}
	}
	want(false, 0)
	l.add(entry{at: 18, id: idOf(1), sends: true})
	l.add(entry{at: 20, id: idOf(2), sends: true, early: true})
	want(true, 0)
	want(false, 15) // the one that is fired ahead, though it comes later
	l.add(entry{at: 22, id: idOf(3)})
	want(true, 22)
	want(false, 15)
	l.add(entry{at: 16, id: idOf(4), sends: true, row: &task.Task{StartBefore: 19}}) // for which no room is needed when it has expired
	want(true, 19)
	l.add(entry{at: 16, id: idOf(4), sends: true, row: &task.Task{StartBefore: 19, Lost: 1}})
	want(true, 22)
	l.dropUpTo(rowKey{16, idOf(4)}, math.MaxUint64)
	if at := l.oldestSend(); at != 18 {
		t.Errorf("waits since %d, want 18", at)
	}
}
