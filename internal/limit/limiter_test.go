package limit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// slowRows are rows of a store at some distance, which can fail.
type slowRows struct {
	*store.Store

	takes  time.Duration // a call
	writes atomic.Int64
	fails  atomic.Bool
	// refuses says that writes alone fail; refused counts them.
	refuses atomic.Bool
	refused atomic.Int64
}

var errDown = errors.New("down")

func newSlowRows() *slowRows {
	return &slowRows{takes: 8 * time.Millisecond, Store: store.New(mem.New(), store.Config{Clock: clock.Real()})}
}

func (r *slowRows) call() error {
	time.Sleep(r.takes)
	if r.fails.Load() {
		return errDown
	}
	return nil
}

func (r *slowRows) Control(ctx context.Context, kind, name string) (store.Control, error) {
	if err := r.call(); err != nil {
		return store.Control{}, err
	}
	return r.Store.Control(ctx, kind, name)
}

func (r *slowRows) PutControl(ctx context.Context, c store.Control) error {
	if err := r.call(); err != nil {
		return err
	}
	if r.refuses.Load() {
		r.refused.Add(1)
		return errDown
	}
	r.writes.Add(1)
	return r.Store.PutControl(ctx, c)
}

// aside is a clock that differs from that of the other servers.
type aside struct {
	clock.Clock
	by time.Duration
}

func (a aside) Now() task.Instant { return a.Clock.Now().Add(a.by) }

// fleet starts tasks at a rate on servers that come and go, and notes when.
type fleet struct {
	rows *slowRows
	ask  limit.Ask

	mu     sync.Mutex
	starts []time.Duration // since begin
	begin  time.Time
	wg     sync.WaitGroup
}

// serve runs a server whose loops always have tasks that wait, until stop is closed: as if it was killed.
func (f *fleet) serve(loops int, clockOff time.Duration, stop <-chan struct{}) {
	c := aside{clock.Real(), clockOff}
	l := limit.NewLimiter(f.rows, c)
	f.wg.Go(func() {
		var loopsEnd sync.WaitGroup
		for i := range loops {
			loopsEnd.Go(func() { f.loop(l, c, i, stop) })
		}
		loopsEnd.Wait()
		l.Wait()
	})
}

func (f *fleet) loop(l *limit.Limiter, c clock.Clock, caller int, stop <-chan struct{}) {
	for {
		ask := f.ask
		ask.Caller, ask.Want, ask.Wait = caller, 512, 4096
		granted, wait := l.Take(ask)
		f.mu.Lock()
		for range granted {
			f.starts = append(f.starts, time.Since(f.begin))
		}
		f.mu.Unlock()
		pause := time.Millisecond // what a round takes
		if granted < ask.Want {
			pause = wait.Again.Sub(c.Now())
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-wait.More:
		case <-stop:
			return
		}
	}
}

// within returns how many starts there were from one time to another.
func (f *fleet) within(from, to time.Duration) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.starts {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

func newFleet(rate float64, burst uint32) *fleet {
	return &fleet{rows: newSlowRows(), ask: limit.Ask{Name: "7", Rate: rate, Burst: burst}, begin: time.Now()}
}

// wantRate checks every window of 10 s that begins at a whole second in between.
func (f *fleet) wantRate(t *testing.T, from, to time.Duration) {
	t.Helper()
	const window = 10 * time.Second
	want := f.ask.Rate * window.Seconds()
	for at := from; at+window <= to; at += time.Second {
		if n := float64(f.within(at, at+window)); n < want*0.95-1 || n > want*1.05+1 {
			t.Errorf("%v starts in the 10 s from %v on, want %v within 5 %%", n, at, want)
		}
	}
}

func TestRateIsKeptAsServersComeAndGo(t *testing.T) {
	for _, rate := range []float64{0.7, 5, 100, 3000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(rate, 0)
				stops := make([]chan struct{}, 7)
				start := func(i int) {
					stops[i] = make(chan struct{})
					f.serve(1+i%4, time.Duration(i%3-1)*50*time.Millisecond, stops[i])
				}
				start(0)
				time.Sleep(20 * time.Second)
				for i := 1; i < 3; i++ {
					start(i)
				}
				time.Sleep(20 * time.Second)
				for i := 3; i < 6; i++ {
					start(i)
				}
				time.Sleep(20 * time.Second)
				for i := range 4 {
					close(stops[i])
				}
				time.Sleep(20 * time.Second)
				for i := 4; i < 6; i++ {
					close(stops[i])
				}
				f.wg.Wait()
				f.wantRate(t, time.Second, 80*time.Second)
				t.Logf("%d starts, %d writes", len(f.starts), f.rows.writes.Load())
			})
		})
	}
}

// A reservation in a store that is slow, or far away, takes as long as what it reserves lasts.
func TestRateIsKeptOverASlowStore(t *testing.T) {
	for _, servers := range []int{1, 3, 6} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(100, 0)
				f.rows.takes = 400 * time.Millisecond
				stop := make(chan struct{})
				for range servers {
					f.serve(2, 0, stop)
				}
				time.Sleep(40 * time.Second)
				close(stop)
				f.wg.Wait()
				f.wantRate(t, 5*time.Second, 40*time.Second)
				t.Logf("%d starts, %d writes", len(f.starts), f.rows.writes.Load())
			})
		})
	}
}

func TestRateWithAllTasksOnOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(100, 0)
		stop := make(chan struct{})
		f.serve(1, 0, stop)
		time.Sleep(30 * time.Second)
		close(stop)
		f.wg.Wait()
		f.wantRate(t, time.Second, 30*time.Second)
		if writes := f.rows.writes.Load(); writes > 30*6 {
			t.Errorf("%d writes in 30 s, want a few per second at most", writes)
		}
	})
}

// The most that can start in a window, whatever happens: the rate, the burst, and what may be made up for.
func (f *fleet) wantNever(t *testing.T, burst float64) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.starts)
	for i, from := range f.starts {
		for _, window := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second} {
			n, _ := slices.BinarySearch(f.starts[i:], from+window)
			if most := f.ask.Rate*(window+600*time.Millisecond).Seconds() + 2*burst + 2; float64(n) > most {
				t.Fatalf("%d starts in %v from %v on, want at most %v", n, window, from, most)
			}
		}
	}
}

func TestRateIsNeverExceededWhenServersCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(200, 20)
		for i := range 30 {
			stop := make(chan struct{})
			f.serve(2, 0, stop)
			time.Sleep(time.Duration(200+37*i) * time.Millisecond)
			close(stop)
		}
		f.wg.Wait()
		f.wantNever(t, 20)
	})
}

func TestAfterAPauseABurstStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLimiter(nil, clock.Real())
		take := func() int {
			n, _ := l.Take(limit.Ask{Name: "7", Rate: 10, Burst: 25, Caller: 1, Want: 100, Wait: 100})
			return n
		}
		if n := take(); n != 25 {
			t.Errorf("%d of a burst of 25 start at once", n)
		}
		time.Sleep(time.Second)
		if n := take(); n < 9 || n > 11 {
			t.Errorf("%d start in the second after it, want 10", n)
		}
		time.Sleep(time.Minute)
		if n := take(); n != 25 {
			t.Errorf("%d of a burst of 25 start after a minute", n)
		}
	})
}

func TestNothingStartsWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(100, 0)
		stop := make(chan struct{})
		f.serve(2, 0, stop)
		time.Sleep(10 * time.Second)
		f.rows.fails.Store(true)
		time.Sleep(10 * time.Second)
		if n := f.within(12*time.Second, 20*time.Second); n > 0 {
			t.Errorf("%d starts while nothing could be reserved", n)
		}
		f.rows.fails.Store(false)
		time.Sleep(15 * time.Second)
		close(stop)
		f.wg.Wait()
		f.wantNever(t, 10)
		f.wantRate(t, 23*time.Second, 35*time.Second)
	})
}

// A write that fails is no conflict: it is tried again after ever longer pauses, and not as soon as possible.
func TestAReservationThatFailsIsNoConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(100, 0)
		stop := make(chan struct{})
		f.serve(2, 0, stop)
		time.Sleep(10 * time.Second)
		f.rows.refuses.Store(true)
		time.Sleep(20 * time.Second)
		if n := f.within(12*time.Second, 30*time.Second); n > 0 {
			t.Errorf("%d starts while nothing could be reserved", n)
		}
		if n := f.rows.refused.Load(); n > 2*35 { // two servers; five pauses below a second, then of one on average
			t.Errorf("two servers tried to reserve %d times in 20 s", n)
		}
		f.rows.refuses.Store(false)
		time.Sleep(15 * time.Second)
		close(stop)
		f.wg.Wait()
		f.wantNever(t, 10)
		f.wantRate(t, 33*time.Second, 45*time.Second)
	})
}

func TestServerThatIsAloneWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLimiter(nil, clock.Real())
		total := 0
		for range 1000 {
			n, wait := l.Take(limit.Ask{Name: "7", Rate: 50, Caller: 1, Want: 100, Wait: 100})
			total += n
			if wait.More != nil {
				t.Fatal("it waits for a store")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if total < 495 || total > 506 {
			t.Errorf("%d starts in 10 s at 50 per second", total)
		}
	})
}

func TestHigherPrioritiesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLimiter(nil, clock.Real())
		var got [2]int
		for range 100 {
			for class := range got {
				want := 4096
				if class == 0 {
					want = 3 // of 10 that start meanwhile
				}
				n, _ := l.Take(limit.Ask{Name: "7", Rate: 100, Burst: 1, Caller: class, Class: uint8(class), Want: want, Wait: want})
				got[class] += n
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got[0] < 290 || got[1] < 600 {
			t.Errorf("%d high and %d low ones started, want all of the 300 high ones and the rest of 1000", got[0], got[1])
		}
	})
}

// Priorities with weights share the rate out by them; what one leaves goes to the others, and it saves
// nothing up.
func TestPrioritiesWithWeightsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLimiter(nil, clock.Real())
		var again [3]time.Time
		var got [3]int
		serve := func(d time.Duration, waiting ...int) {
			got = [3]int{}
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
				for _, class := range waiting {
					if time.Now().Before(again[class]) {
						continue
					}
					n, wait := l.Take(limit.Ask{
						Name: "7", Rate: 120, Caller: class, Class: uint8(class), Weights: []uint16{8, 3, 1}, Want: 4096, Wait: 4096,
					})
					got[class] += n
					again[class] = wait.Again.Time()
				}
			}
		}
		want := func(when string, want ...int) {
			t.Helper()
			for class, n := range got {
				if n < want[class]-15 || n > want[class]+15 {
					t.Errorf("%s: %v started, want about %v", when, got, want)
					return
				}
			}
		}
		serve(10*time.Second, 0, 1, 2)
		want("all wait", 800, 300, 100)
		serve(10*time.Second, 1, 2)
		want("high does not wait", 0, 900, 300)
		serve(10*time.Second, 2)
		want("only low waits", 0, 0, 1200)
		serve(time.Second, 0, 1, 2)
		want("all wait again", 80, 30, 10)
	})
}

func TestAChangedRateHoldsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(0.01, 0) // the next start is 100 s ahead
		stop := make(chan struct{})
		f.serve(1, 0, stop)
		time.Sleep(10 * time.Second)
		close(stop)
		f.wg.Wait()
		f.ask.Rate = 100
		stop = make(chan struct{})
		f.serve(1, 0, stop)
		time.Sleep(20 * time.Second)
		close(stop)
		f.wg.Wait()
		f.wantRate(t, 11*time.Second, 30*time.Second)
	})
}

// TestAReservationOfTheRateBeforeIsLost changes the rate while the store answers, or after it has.
func TestAReservationOfTheRateBeforeIsLost(t *testing.T) {
	for _, answered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := limit.NewLimiter(newSlowRows(), clock.Real())
			defer l.Wait()
			ask := limit.Ask{Name: "7", Rate: 1000, Caller: 1, Want: 100, Wait: 100}
			l.Take(ask)
			if answered {
				l.Wait()
			}
			ask.Rate = 1
			first, _ := l.Take(ask)
			l.Wait()
			if second, _ := l.Take(ask); first+second > 1 {
				t.Errorf("%d starts, and then %d, at one a second", first, second)
			}
		})
	}
}

func TestReturnedStartsAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLimiter(nil, clock.Real())
		ask := limit.Ask{Name: "7", Rate: 10, Burst: 5, Caller: 1, Want: 5, Wait: 5}
		for range 3 {
			if n, _ := l.Take(ask); n != 5 {
				t.Fatalf("%d granted, want 5", n)
			}
			l.Return("7", 5)
		}
		l.Return("7", 1000)
		ask.Want, ask.Wait = 1000, 1000
		if n, _ := l.Take(ask); n > 10 {
			t.Errorf("%d granted after more were returned than could be taken", n)
		}
	})
}

func TestStartsThatAreCloseAreGivenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Real()
		l, until := limit.NewLimiter(nil, c), c.Now().Add(time.Second)
		calls, starts := 0, 0
		for c.Now() < until {
			granted, wait := l.Take(limit.Ask{Name: "mail", Rate: 500, Burst: 1, Want: 512, Wait: 4096})
			calls, starts = calls+1, starts+granted
			time.Sleep(wait.Again.Sub(c.Now()))
		}
		if calls > 55 || starts < 490 || starts > 501 {
			t.Errorf("%d starts in %d calls, want 500 in 50", starts, calls)
		}
	})
}
