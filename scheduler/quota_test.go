package scheduler_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/quota"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// withQuota gives the world's lambda limits, which one server keeps alone.
func (w *world) withQuota(limits ...quota.Limit) *quota.Starts {
	w.t.Helper()
	row, err := quota.AsRows.Encode(&quota.Quota{Lambda: "seven", Ref: high.Lambda, Limits: limits})
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(store.Op{Kind: store.PutControl, Control: row})
	book := quota.NewBook(w.rows.Store, w.clock, discard)
	if err := book.Refresh(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	starts := &quota.Starts{Book: book, Limiter: limit.NewLimiter(nil, w.clock)}
	w.quotas = starts
	return starts
}

// firedPer returns how many tasks of a priority were dispatched in each second of the test.
func (w *world) firedPer(second time.Duration, of func(f fired) bool) (n []int) {
	for _, f := range w.sent.fired() {
		if !of(f) {
			continue
		}
		for at := int(f.at.Sub(start) / second); len(n) <= at; {
			n = append(n, 0)
		}
		n[f.at.Sub(start)/second]++
	}
	return n
}

func anyOrder(fired) bool { return true }

// wantPerSecond wants about so many in each of the first seconds but the very first, which has the burst.
func wantPerSecond(t *testing.T, got []int, rate, seconds int) {
	t.Helper()
	if len(got) <= seconds {
		t.Fatalf("dispatched %v per second, want %d for %d seconds", got, rate, seconds)
	}
	total := 0
	for _, n := range got[1 : 1+seconds] {
		if total += n; n < rate*9/10-1 || n > rate*11/10+1 {
			t.Errorf("dispatched %v per second, want %d", got, rate)
			break
		}
	}
	if want := rate * seconds; total < want*95/100-1 || total > want*105/100+1 {
		t.Errorf("dispatched %d in %d s, want %d within 5 %%", total, seconds, want)
	}
}

func TestAQuotaPacesWhatIsDueAtOnce(t *testing.T) {
	for _, rate := range []int{5, 100, 1000} {
		inWorld(t, 100_000, func(w *world) {
			w.withQuota(quota.Limit{Rate: float64(rate)})
			for range rate * 8 {
				w.waiting(high, 0)
			}
			w.start()
			w.advance(7 * time.Second)
			wantPerSecond(w.t, w.firedPer(time.Second, anyOrder), rate, 5)
			w.advance(10 * time.Second)
			if n := len(w.sent.fired()); n != rate*8 {
				w.t.Errorf("%d of %d tasks were dispatched", n, rate*8)
			}
		})
	}
}

func TestAfterAPauseABurstIsDispatched(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withQuota(quota.Limit{Rate: 10, Burst: 40})
		for range 100 {
			w.waiting(high, time.Minute)
		}
		w.start()
		w.advance(time.Minute + 50*time.Millisecond)
		if n := len(w.sent.fired()); n < 40 || n > 42 {
			w.t.Errorf("%d were dispatched at once, want the burst of 40", n)
		}
		w.advance(2 * time.Second)
		if n := len(w.sent.fired()); n < 59 || n > 62 {
			w.t.Errorf("%d were dispatched after 2 s more, want 20 more", n)
		}
	})
}

func TestPrioritiesShareTheQuotaOfTheirLambda(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withQuota(quota.Limit{Rate: 100}, quota.Limit{Priority: "high", Class: high.Priority, Rate: 30})
		of := map[task.ID]task.Partition{}
		for range 500 {
			of[w.waiting(high, 0).ID] = high
			of[w.waiting(low, 0).ID] = low
		}
		w.start()
		w.advance(7 * time.Second)
		wantPerSecond(w.t, w.firedPer(time.Second, anyOrder), 100, 5)
		wantPerSecond(w.t, w.firedPer(time.Second, func(f fired) bool { return of[f.id] == high }), 30, 5)
	})
}

func TestHigherPrioritiesUseTheQuotaFirst(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withQuota(quota.Limit{Rate: 100})
		of := map[task.ID]task.Partition{}
		for range 300 {
			of[w.waiting(low, 0).ID] = low
		}
		for i := range 100 { // half of the rate
			of[w.waiting(high, time.Second+time.Duration(i)*20*time.Millisecond).ID] = high
		}
		w.start()
		w.advance(6 * time.Second)
		for _, f := range w.sent.fired() {
			if late := f.at.Sub(f.due); of[f.id] == high && late > 50*time.Millisecond {
				w.t.Fatalf("one of high priority was dispatched %v late", late)
			}
		}
		if n := len(w.sent.fired()); n != 400 {
			w.t.Errorf("%d of 400 were dispatched", n)
		}
	})
}

func TestRetriesCountAgainstTheQuota(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withQuota(quota.Limit{Rate: 50})
		retries := map[task.ID]bool{}
		for range 200 {
			retries[w.awake(high, 0, backedOff(0)).ID] = true
			w.waiting(high, 0)
		}
		w.start()
		w.advance(7 * time.Second)
		wantPerSecond(w.t, w.firedPer(time.Second, anyOrder), 50, 5)
		w.advance(10 * time.Second)
		again := w.firedPer(time.Hour, func(f fired) bool { return retries[f.id] })
		if len(w.sent.fired()) != 400 || len(again) != 1 || again[0] != 200 {
			w.t.Errorf("%d of 400 were dispatched, %v of them retries", len(w.sent.fired()), again)
		}
	})
}

// A retry that another process stored is told of by a hint, and read when it wakes.
func TestRetriesThatAreToldOfCountAgainstTheQuota(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withQuota(quota.Limit{Rate: 50})
		s := w.settled()
		began := w.clock.Now()
		for range 400 {
			one := w.awake(high, -30*time.Second, backedOff(time.Second))
			s.Awake(&one)
		}
		w.advance(7 * time.Second)
		n := 0
		for _, f := range w.sent.fired() {
			if at := f.at.Sub(began); at >= 2*time.Second && at < 7*time.Second {
				n++
			}
		}
		if n < 237 || n > 263 {
			w.t.Errorf("%d retries in 5 s at 50 per second", n)
		}
	})
}

// The message of a task that nobody claimed is sent again whatever the quota: the task has its start.
func TestARedispatchTakesNoStart(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withQuota(quota.Limit{Rate: 0.01})
		first := w.waiting(high, 0)
		unclaimed := w.awake(high, -5*time.Second, func(t *task.Task) { t.State, t.Enqueues, t.Wake = task.Enqueued, 1, t.Due.Add(task.EnqueueTimeout) })
		w.start()
		w.advance(time.Minute + task.EnqueueTimeout)
		if _, ok := w.dispatched(first); !ok {
			w.t.Error("the only start was not used")
		}
		if _, ok := w.dispatched(unclaimed); !ok {
			w.t.Error("a task that was dispatched before waits for a start")
		}
	})
}

func TestWhatWaitsForItsQuotaIsCountedAndNoLag(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withQuota(quota.Limit{Rate: 1})
		for range 50 {
			w.waiting(high, 0)
		}
		s := w.start()
		w.advance(10 * time.Second)
		synctest.Wait()
		if held := s.Counts(high).Quotas; held < 37 || held > 41 {
			w.t.Errorf("%d tasks are held, want about 39", held)
		}
		if lag := s.Lag(); lag > 0 {
			w.t.Errorf("a lag of %v: more schedulers would not help", lag)
		}
		w.advance(time.Minute)
		if held := s.Counts(high).Quotas; held != 0 {
			w.t.Errorf("%d tasks are held after all were dispatched", held)
		}
	})
}

func TestAQuotaPacesDeliveries(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.withQuota(quota.Limit{Rate: 100})
		for range 600 {
			o.waiting(high, 3*time.Second)
		}
		o.start(self)
		o.advance(3 * time.Second)
		o.advance(5 * time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		per := make([]int, 9)
		for _, s := range o.sent {
			per[s.at.Sub(start)/time.Second]++
		}
		wantPerSecond(t, per[3:], 100, 4)
		if per[3] > 125 {
			t.Errorf("%v were sent per second, want no more than a burst of 20 besides", per)
		}
	})
}

// countedQuota grants all that is asked for, and counts.
type countedQuota struct{ taken, returned atomic.Int64 }

func (*countedQuota) Rate(task.Partition) float64 { return 1000 }

func (q *countedQuota) Take(_ task.Partition, want, _ int) (int, task.Instant, <-chan struct{}) {
	q.taken.Add(int64(want))
	return want, 0, nil
}

func (q *countedQuota) Return(_ task.Partition, count int) { q.returned.Add(int64(count)) }

// Tasks that a gate drops, and those that have ended before, take no start and give none back.
func TestADropTakesNoStart(t *testing.T) {
	inGated(t, depth, func(g *gated) {
		q := &countedQuota{}
		g.quotas = q
		drop := dropAll()
		drop.Collection = "a"
		g.set(drop)
		g.settled()
		const count = 10
		for range count {
			g.of("b", 30*time.Second)
			g.of("a", 30*time.Second)
			left := g.of("a", 30*time.Second) // a leftover row
			ended := left
			ended.State, ended.Seq, ended.Attempt, ended.Wake, ended.Ended = task.Success, 4, 1, 0, left.Due
			ended.ExpireAt = left.Due.Add(time.Hour)
			g.apply(store.Op{Kind: store.PutTask, Task: ended, New: true})
		}
		g.advance(time.Minute)
		if n := len(g.sent.fired()); n != 2*count {
			t.Errorf("%d dispatched or dropped, want %d", n, 2*count)
		}
		if n := q.taken.Load() - q.returned.Load(); n != count {
			t.Errorf("%d starts taken and %d given back, want %d for %d tasks", q.taken.Load(), q.returned.Load(), count, count)
		}
	})
}

// Where the priorities have weights a backlog of high tasks leaves low ones some of the quota.
func TestWithWeightsNoPriorityUsesTheWholeQuota(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.withQuota(quota.Limit{Rate: 100}).Weights = func(uint32) []uint16 { return []uint16{1, 1, 1} }
		of := map[task.ID]task.Partition{}
		for range 2000 {
			of[w.waiting(high, 0).ID] = high
			of[w.waiting(low, 0).ID] = low
		}
		w.start()
		w.advance(7 * time.Second)
		wantPerSecond(w.t, w.firedPer(time.Second, anyOrder), 100, 5)
		all, lows := 0, 0
		for _, f := range w.sent.fired() {
			if all++; of[f.id] == low {
				lows++
			}
		}
		if lows < all/4 || lows > all*3/4 {
			t.Errorf("%d of %d starts were of low tasks, want about half", lows, all)
		}
	})
}
