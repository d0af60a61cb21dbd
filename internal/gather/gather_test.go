package gather_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errOdd = errors.New("odd")

// line is a Gatherer of numbers in virtual time, whose sends block until the test releases them.
type line struct {
	*gather.Gatherer[int]

	time *clock.Virtual
	goOn chan struct{}

	mu    sync.Mutex
	sends [][]int
}

func newLine(t *testing.T, held bool, change func(*gather.Config[int])) *line {
	t.Helper()
	l := &line{time: clock.NewVirtual(1, 1), goOn: make(chan struct{})}
	l.time.Settle(synctest.Wait)
	if !held {
		close(l.goOn)
	}
	c := gather.Config[int]{
		Clock: l.time.Process(0), Send: l.send, Bytes: func(n int) int { return n },
		ItemsMax: 3, BytesMax: 100, SendsMax: 2, Linger: 10 * time.Millisecond,
	}
	if change != nil {
		change(&c)
	}
	l.Gatherer = gather.New(c)
	return l
}

func (l *line) send(_ context.Context, batch []int) []error {
	l.mu.Lock()
	l.sends = append(l.sends, slices.Clone(batch))
	l.mu.Unlock()
	<-l.goOn
	results := make([]error, len(batch))
	for i, n := range batch {
		if n%2 == 1 {
			results[i] = errOdd
		}
	}
	return results
}

// call sends in a goroutine; the channel has its results.
func (l *line) call(ctx context.Context, items ...int) <-chan []error {
	done := make(chan []error, 1)
	go func() { done <- l.Do(ctx, items) }()
	synctest.Wait()
	return done
}

func (l *line) want(t *testing.T, sends ...[]int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.EqualFunc(l.sends, sends, slices.Equal) {
		t.Errorf("sends %v, want %v", l.sends, sends)
	}
}

func TestCallersShareASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, false, nil)
		a := l.call(t.Context(), 2)
		l.time.Advance(9 * time.Millisecond)
		b := l.call(t.Context(), 1)
		l.want(t)
		l.time.Advance(time.Millisecond)
		l.want(t, []int{2, 1})
		if got := <-a; got[0] != nil {
			t.Errorf("%v", got)
		}
		if got := <-b; !errors.Is(got[0], errOdd) {
			t.Errorf("%v", got)
		}
		if l.Do(t.Context(), nil) != nil {
			t.Error("nothing has results")
		}
	})
}

// An item that comes alone is sent at once; those that come soon after it wait for others.
func TestALoneItemIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, false, func(c *gather.Config[int]) { c.LoneAtOnce = true })
		<-l.call(t.Context(), 2)
		l.want(t, []int{2})
		l.time.Advance(5 * time.Millisecond)
		second := l.call(t.Context(), 4)
		third := l.call(t.Context(), 6)
		l.want(t, []int{2})
		l.time.Advance(10 * time.Millisecond)
		if got := append(<-second, <-third...); errors.Join(got...) != nil {
			t.Error(got)
		}
		l.want(t, []int{2}, []int{4, 6})
		l.time.Advance(time.Second)
		<-l.call(t.Context(), 8)
		l.want(t, []int{2}, []int{4, 6}, []int{8})
	})
}

// Put does not wait, neither for a send nor for room, and Close sends what it left.
func TestPutDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, false, func(c *gather.Config[int]) { c.PendingMax, c.ItemsMax = 1, 10 })
		if !l.Put(2) || !l.Put(4, 6) {
			t.Fatal("refused")
		}
		l.want(t)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.want(t, []int{2, 4, 6})
		if l.Put(8) {
			t.Error("not refused after Close")
		}
	})
}

func TestAFullSendDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, false, nil)
		if got := <-l.call(t.Context(), 2, 4, 6); errors.Join(got...) != nil {
			t.Error(got)
		}
		<-l.call(t.Context(), 100) // full of bytes
		l.want(t, []int{2, 4, 6}, []int{100})
		<-l.call(t.Context(), 60, 60, 200, 2, 4, 6) // no send of many is above 100
		for _, batch := range l.sends {
			sum := 0
			for _, n := range batch {
				sum += n
			}
			if sum > 100 && len(batch) > 1 || len(batch) > 3 {
				t.Errorf("a send of %v", batch)
			}
		}
	})
}

func TestWhatComesWhileAllSendsAreUnderWayGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, true, func(c *gather.Config[int]) { c.Linger = 0 })
		var all []<-chan []error
		for n := range 8 {
			all = append(all, l.call(t.Context(), 2*n))
		}
		l.want(t, []int{0}, []int{2})
		close(l.goOn)
		for _, done := range all {
			if got := <-done; got[0] != nil {
				t.Error(got)
			}
		}
		if len(l.sends) != 4 {
			t.Errorf("sends %v", l.sends)
		}
	})
}

func TestACallerWhoGoesTakesBackWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, true, func(c *gather.Config[int]) { c.SendsMax = 1 })
		why := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		a := l.call(ctx, 2, 4, 6, 8)
		b := l.call(t.Context(), 10)
		cancel(why)
		got := <-a
		if !errors.Is(got[0], gather.ErrUnderWay) || !errors.Is(got[2], why) || !errors.Is(got[3], gather.ErrNotSent) || !errors.Is(got[3], why) {
			t.Errorf("%v", got)
		}
		close(l.goOn)
		if got := <-b; got[0] != nil {
			t.Error(got)
		}
		l.want(t, []int{2, 4, 6}, []int{10})
	})
}

func TestWhoHasMoreThanMayWaitWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, true, func(c *gather.Config[int]) { c.SendsMax, c.PendingMax, c.PendingBytesMax = 1, 2, 50 })
		first := l.call(t.Context(), 2, 4, 6)
		waits := l.call(t.Context(), 40) // as many bytes as may be pending
		blocked := l.call(t.Context(), 20)
		ctx, cancel := context.WithCancel(t.Context())
		goes := l.call(ctx, 30)
		cancel()
		if got := <-goes; !errors.Is(got[0], gather.ErrNotSent) || !errors.Is(got[0], context.Canceled) {
			t.Errorf("%v", got)
		}
		close(l.goOn)
		for _, done := range []<-chan []error{first, waits, blocked} {
			synctest.Wait()
			l.time.Advance(10 * time.Millisecond)
			if got := <-done; errors.Join(got...) != nil {
				t.Error(got)
			}
		}
	})
}

func TestCloseSendsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, true, nil)
		a := l.call(t.Context(), 2)
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan error, 1)
		go func() { closed <- l.Close(ctx) }()
		synctest.Wait()
		l.want(t, []int{2}) // before its linger ended
		cancel()
		if err := <-closed; !errors.Is(err, context.Canceled) {
			t.Errorf("closed while sending: %v", err)
		}
		if got := l.Do(t.Context(), []int{4}); !errors.Is(got[0], gather.ErrClosed) || !errors.Is(got[0], gather.ErrNotSent) {
			t.Errorf("%v", got)
		}
		close(l.goOn)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := <-a; got[0] != nil {
			t.Error(got)
		}
		if err := newLine(t, false, nil).Close(t.Context()); err != nil {
			t.Errorf("idle: %v", err)
		}
	})
}

func TestASendThatForgetsItemsIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, false, func(c *gather.Config[int]) {
			c.Send = func(context.Context, []int) []error { return []error{nil} }
		})
		if got := <-l.call(t.Context(), 2, 4, 6); got[0] != nil || !errors.Is(got[1], gather.ErrUnderWay) {
			t.Errorf("%v", got)
		}
	})
}

// Every item of every caller has exactly one result, whenever callers leave.
func TestManyCallers(t *testing.T) {
	var mu sync.Mutex
	sent := map[int]int{}
	g := gather.New(gather.Config[int]{
		Clock: clock.Real(), ItemsMax: 7, SendsMax: 3, PendingMax: 20, Linger: 50 * time.Microsecond,
		Send: func(_ context.Context, batch []int) []error {
			mu.Lock()
			defer mu.Unlock()
			for _, n := range batch {
				sent[n]++
			}
			return make([]error, len(batch))
		},
	})
	results := make([][]error, 400)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				go cancel()
			}
			results[i] = g.Do(ctx, []int{10 * i, 10*i + 1, 10*i + 2})
		})
	}
	wg.Wait()
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		for k, err := range r {
			n := sent[10*i+k]
			if (err == nil) && n != 1 || errors.Is(err, gather.ErrNotSent) && n != 0 || errors.Is(err, gather.ErrUnderWay) && n != 1 {
				t.Errorf("item %d of call %d: %v, sent %d times", k, i, err, n)
			}
		}
	}
}
