package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

// keyWorld is a schedule with rows of limit keys, their slots, and the queue under test.
type keyWorld struct {
	q       *keyQueue
	rows    map[rowKey]string // not started
	through task.Instant      // up to where it was read ahead
	used    map[string]int
	most    int // slots of a key
	next    uint64
	started map[rowKey]bool
}

func newKeyWorld(rowsMax, most int) *keyWorld {
	return &keyWorld{
		q: newKeyQueue(newInFlightLimit(rowsMax), 4), rows: map[rowKey]string{}, used: map[string]int{}, started: map[rowKey]bool{},
		most: most, through: 100,
	}
}

func (w *keyWorld) insert(key string, at task.Instant) {
	w.next++
	k := rowKey{at, idOf(w.next)}
	w.rows[k] = key
	if at <= w.through {
		w.q.offer(key, keyRow{rowKey: k, due: at, row: &task.Task{}}, keyKnown)
	}
}

// between returns the rows of a range, in order.
func (w *keyWorld) between(after, to rowKey, limit int) []rowKey {
	var found []rowKey
	for k := range w.rows {
		if after.less(k) && !to.less(k) {
			found = append(found, k)
		}
	}
	slices.SortFunc(found, compareKeys)
	return found[:min(limit, len(found))]
}

func (w *keyWorld) scan(from, to task.Instant) {
	for _, k := range w.between(endOf(from), endOf(to), len(w.rows)) {
		w.q.offer(w.rows[k], keyRow{rowKey: k, due: k.at}, keyKnown)
	}
}

func (w *keyWorld) readAhead(by task.Instant) {
	from := w.through
	w.through += by
	w.scan(from, w.through)
}

// passPage is what a loop does.
func (w *keyWorld) passPage() {
	if !w.q.wantsPass() {
		return
	}
	w.q.beginPass()
	const limit = 3
	page := w.between(w.q.pass.after, endOf(w.through), limit)
	after := endOf(w.through)
	for _, k := range page {
		w.q.offer(w.rows[k], keyRow{rowKey: k, due: k.at}, keyScanned)
	}
	if len(page) == limit {
		after = page[limit-1]
	}
	w.q.passed(after, len(page) < limit, 2)
}

// take starts what has slots.
func (w *keyWorld) take(t interface{ Fatalf(string, ...any) }, now task.Instant, most int) (keys []string) {
	w.q.wake(now, now)
	taken := w.q.take(now, most, func(l *keyList) (bool, task.Instant) {
		if w.used[l.key] >= w.most {
			return false, 0
		}
		w.used[l.key]++
		return true, 0
	})
	for _, r := range taken {
		if w.started[r.rowKey] {
			t.Fatalf("row %v was taken twice", r.rowKey)
		}
		if _, there := w.rows[r.rowKey]; !there { // it was cancelled
			w.free(r.key)
			continue
		}
		if r.at > now {
			t.Fatalf("row %v was taken at %d", r.rowKey, now)
		}
		w.started[r.rowKey] = true
		delete(w.rows, r.rowKey)
		keys = append(keys, r.key)
	}
	return keys
}

func (w *keyWorld) free(key string) {
	w.used[key]--
	w.q.freed(key)
}

// check compares what the queue counts with what it has.
func (w *keyWorld) check(t interface{ Fatalf(string, ...any) }, rowsMax int) {
	rows, kept := 0, 0
	for _, l := range w.q.lists {
		rows += len(l.rows)
		for i := range l.rows {
			if l.rows[i].row != nil {
				kept++
			}
		}
		if !slices.IsSortedFunc(l.rows, func(a, b keyRow) int { return compareKeys(a.rowKey, b.rowKey) }) {
			t.Fatalf("the list of %s is not in order", l.key)
		}
		if len(l.rows) > 0 && l.state == keyIdle {
			t.Fatalf("key %s has rows and waits for nothing", l.key)
		}
	}
	if left := int(w.q.limit.left.Load()); rows != w.q.rows || kept != w.q.kept || rows+left != rowsMax {
		t.Fatalf("%d rows, %d kept, %d left of %d; the queue counts %d and %d", rows, kept, left, rowsMax, w.q.rows, w.q.kept)
	}
}

// TestNoRowOfAKeyIsForgotten stores, cancels, scans, starts and ends tasks in any order, with room for a few
// rows: in the end all have started, each once, and never more of a key at once than its slots.
func TestNoRowOfAKeyIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rowsMax := rapid.IntRange(1, 40).Draw(t, "memory")
		w := newKeyWorld(rowsMax, rapid.IntRange(1, 3).Draw(t, "slots"))
		keys := rapid.IntRange(1, 12).Draw(t, "keys")
		key := func() string { return fmt.Sprint("k", rapid.IntRange(1, keys).Draw(t, "key")) }
		for range rapid.IntRange(0, 120).Draw(t, "operations") {
			switch rapid.IntRange(0, 9).Draw(t, "operation") {
			case 0, 1, 2, 3:
				w.insert(key(), task.Instant(rapid.IntRange(1, 400).Draw(t, "at")))
			case 4:
				w.readAhead(task.Instant(rapid.IntRange(1, 60).Draw(t, "by")))
			case 5:
				w.take(t, task.Instant(rapid.IntRange(0, 300).Draw(t, "now")), rapid.IntRange(1, 4).Draw(t, "most"))
			case 6, 7:
				w.passPage()
			case 8:
				if all := slices.SortedFunc(maps.Keys(w.rows), compareKeys); len(all) > 0 {
					k := rapid.SampledFrom(all).Draw(t, "cancelled")
					if rapid.Bool().Draw(t, "told") {
						w.q.remove(w.rows[k], k)
					}
					delete(w.rows, k)
				}
			case 9:
				for name, n := range w.used {
					if n > 0 && rapid.Bool().Draw(t, "ends") {
						w.free(name)
					}
				}
			}
			w.check(t, rowsMax)
		}
		w.readAhead(1000)
		for range 4 * (len(w.rows) + 20) * 20 {
			w.take(t, 2000, 10)
			for name := range w.used {
				for w.used[name] > 0 {
					w.free(name)
				}
			}
			w.passPage()
			w.check(t, rowsMax)
		}
		if len(w.rows) > 0 {
			t.Fatalf("%d rows were never started: %v", len(w.rows), w.rows)
		}
	})
}

// Each of the keys that are ready has its turn before any has a second one, whoever came first.
func TestKeysTakeTurns(t *testing.T) {
	w := newKeyWorld(10_000, 1000)
	for i := range 500 {
		w.insert("big", task.Instant(i%50+1))
	}
	for i := range 20 {
		w.insert("small", task.Instant(60+i%2))
		w.insert("other", task.Instant(70+i%2))
	}
	for range 10 {
		got := w.take(t, 100, 6)
		slices.SortFunc(got, cmp.Compare)
		if want := []string{"big", "big", "other", "other", "small", "small"}; !slices.Equal(got, want) {
			t.Fatalf("%v were started, want two of each", got)
		}
	}
}

// A key with very many rows has a bounded share of the memory, so that others have room for their first rows.
func TestAKeyWithManyRowsLeavesRoom(t *testing.T) {
	const rowsMax = 4096
	w := newKeyWorld(rowsMax, 1)
	for range 20_000 {
		w.insert("big", 10)
	}
	if n := len(w.q.lists["big"].rows); n > rowsMax/keyRowsShare {
		t.Fatalf("the key has %d rows in memory of %d for all", n, rowsMax)
	}
	for i := range rowsMax / 2 {
		w.insert(fmt.Sprint("k", i), 50)
	}
	if got := w.take(t, 100, rowsMax); len(got) != rowsMax/2+1 {
		t.Errorf("%d keys have started a task, want %d", len(got), rowsMax/2+1)
	}
}

// A row that is stored behind a pass under way, of a key for which there is no memory, is found by the next.
func TestARowBehindAPassIsFound(t *testing.T) {
	w := newKeyWorld(1, 1)
	w.insert("a", 1) // takes all memory
	for i, key := range []string{"b", "c", "d"} {
		w.insert(key, task.Instant(20+i))
	}
	w.passPage() // which forces rows of those three, and is not at its end
	if !w.q.pass.underWay {
		t.Fatal("the pass is over")
	}
	w.insert("e", 21)
	for range 20 {
		w.passPage()
		w.take(t, 100, 10)
		for key := range w.used {
			for w.used[key] > 0 {
				w.free(key)
			}
		}
	}
	if len(w.rows) > 0 {
		t.Errorf("never started: %v", w.rows)
	}
}

func TestStartsThatNobodyAskedForPutOffTheNextByOne(t *testing.T) {
	s, now := newKeySlots(), tick(at)
	s.set(keyLimits{every: time.Second}, false)
	for range 100 { // tasks of lost workers
		s.started("a", now)
	}
	if ok, again := s.take("a", now, keyTimes{}, &keyWaiter{}); ok || again != now.Add(time.Second+keyTolerance) {
		t.Errorf("started: %v, the next one after %v", ok, again.Sub(now))
	}
	if ok, _ := s.take("a", now.Add(time.Second+keyTolerance), keyTimes{}, &keyWaiter{}); !ok {
		t.Error("not started after that")
	}
}

func TestARateCountsATaskWhenItIsDue(t *testing.T) {
	s, now, w := newKeySlots(), tick(at), &keyWaiter{}
	s.set(keyLimits{every: 4 * keyTolerance}, false)
	if ok, _ := s.take("a", now, keyTimes{due: keyTolerance}, w); !ok {
		t.Fatal("the first task did not start")
	}
	next := now.Add(4 * keyTolerance)
	if ok, again := s.take("a", now.Add(3*keyTolerance), keyTimes{}, w); ok || again != next {
		t.Errorf("started: %v, the next one after %v, want %v", ok, again.Sub(now), next.Sub(now))
	}
	if ok, _ := s.take("a", now.Add(3*keyTolerance), keyTimes{due: keyTolerance}, w); !ok {
		t.Error("a task that is due when the next start is allowed cannot be taken before")
	}
}

func TestALoopIsWokenForASlotThatIsAwaited(t *testing.T) {
	s, now, l := newKeySlots(), tick(at), &loop{wake: make(chan struct{}, 1)}
	s.set(keyLimits{atOnce: 1}, false)
	wants := func(step string, woken, awaited bool) {
		t.Helper()
		if got := len(l.wake) > 0; got != woken {
			t.Errorf("%s: the loop is woken: %v, want %v", step, got, woken)
		}
		if got := s.isAwaited("a", now); got != awaited {
			t.Errorf("%s: the end is awaited: %v, want %v", step, got, awaited)
		}
		for len(l.wake) > 0 {
			<-l.wake
		}
	}
	s.take("a", now, keyTimes{next: 2 * keyFollowsWithin}, &keyWaiter{})
	wants("the next task is due later", false, false)
	s.ended("a", l)
	wants("nobody waits", false, false)
	s.take("a", now, keyTimes{}, &keyWaiter{wake: func() {}})
	wants("somebody waits", true, true)
	s.ended("a", l)
	wants("it ends while somebody waits", true, true)
	s.free("a")
	s.take("a", now, keyTimes{next: keyFollowsWithin}, &keyWaiter{})
	wants("the next task is due soon", false, true)
}

// TestPassesReadTheScheduleInOrder lets many keys run out of the rows in memory at about the same time. Each pass serves all
// keys that ran low, so a row is read about once, and not once for each key.
func TestPassesReadTheScheduleInOrder(t *testing.T) {
	const keys, each, memory, page, atOnce = 400, 50, 5000, 8, 100
	rng := rand.New(rand.NewPCG(1, 2))
	q := newKeyQueue(newInFlightLimit(memory), 4)
	var rows []keyedRow
	for i := range keys * each {
		rows = append(rows, keyedRow{keyRow{rowKey: rowKey{1, idOf(rng.Uint64() >> 1)}, due: 1}, fmt.Sprint(i % keys)})
	}
	slices.SortFunc(rows, func(a, b keyedRow) int { return compareKeys(a.rowKey, b.rowKey) })
	for _, r := range rows {
		q.offer(r.key, r.keyRow, keyKnown)
	}
	read := 0
	pass := func() {
		q.beginPass()
		i, found := slices.BinarySearchFunc(rows, q.pass.after, func(a keyedRow, k rowKey) int { return compareKeys(a.rowKey, k) })
		if found {
			i++
		}
		last := min(i+page, len(rows))
		for _, r := range rows[i:last] {
			q.offer(r.key, r.keyRow, keyScanned)
		}
		read += last - i
		after := endOf(1)
		if last < len(rows) {
			after = rows[last-1].rowKey
		}
		q.passed(after, last == len(rows), keyPassPagesMax)
	}
	for len(rows) > 0 && read < 20*keys*each {
		q.wake(1, 1)
		started := map[rowKey]bool{}
		for _, r := range q.take(1, atOnce, func(*keyList) (bool, task.Instant) { return true, 0 }) {
			started[r.rowKey] = true
		}
		rows = slices.DeleteFunc(rows, func(r keyedRow) bool { return started[r.rowKey] })
		for range 4 {
			if q.wantsPass() {
				pass()
			}
		}
	}
	if len(rows) > 0 || read > 2*keys*each {
		t.Errorf("%d rows did not start, and %d were read of %d", len(rows), read, keys*each)
	}
}
