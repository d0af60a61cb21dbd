package gather_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
)

const (
	linger   = 3 * time.Millisecond
	patience = 80 * time.Millisecond
	sending  = 5 * time.Millisecond
)

// patient runs load on a Gatherer with slow sends. It returns the number of sends and how long a call took,
// on average and at most.
func patient(t *testing.T, load func(k clock.Clock, call func())) (sends int, mean, most time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(1, 1)
		v.Settle(synctest.Wait)
		k := v.Process(0)
		var mu sync.Mutex
		g := gather.New(gather.Config[int]{
			Clock: k, ItemsMax: 250, SendsMax: 8, Linger: linger, Patience: patience, Enough: 10,
			Send: func(ctx context.Context, batch []int) []error {
				mu.Lock()
				sends++
				mu.Unlock()
				_ = clock.Sleep(ctx, k, sending)
				return make([]error, len(batch))
			},
		})
		calls, sum := 0, time.Duration(0)
		call := func() {
			began := clock.Mono(k)
			if err := g.Do(t.Context(), []int{1})[0]; err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			took := clock.Mono(k) - began
			calls, sum, most = calls+1, sum+took, max(most, took)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			load(k, call)
		}()
		for ended := false; !ended; {
			synctest.Wait()
			select {
			case <-done:
				ended = true
			default:
				v.Advance(time.Millisecond)
			}
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
		mean = sum / time.Duration(calls)
	})
	return sends, mean, most
}

// every makes n calls some time apart, without waiting for their results.
func every(n int, apart func(k clock.Clock) time.Duration) func(clock.Clock, func()) {
	return func(k clock.Clock, call func()) {
		var wg sync.WaitGroup
		for range n {
			_ = clock.Sleep(context.Background(), k, apart(k))
			wg.Go(call)
		}
		wg.Wait()
	}
}

// oneByOne makes n calls from each of several callers, which wait for each result.
func oneByOne(callers, n int, think time.Duration) func(clock.Clock, func()) {
	return func(k clock.Clock, call func()) {
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range n {
					call()
					_ = clock.Sleep(context.Background(), k, think)
				}
			})
		}
		wg.Wait()
	}
}

func TestWhoeverKeepsComingSharesSends(t *testing.T) {
	sends, mean, most := patient(t, every(1000, func(clock.Clock) time.Duration { return 10 * time.Millisecond }))
	t.Logf("100 a second: %d sends, a call takes %v, at most %v", sends, mean, most)
	if sends > 170 || mean > 50*time.Millisecond || most > linger+patience+sending {
		t.Error("too many, or too long")
	}
	sends, mean, most = patient(t, every(1000, func(k clock.Clock) time.Duration { return time.Duration(k.Uint64() % uint64(20*time.Millisecond)) }))
	t.Logf("100 a second, at random: %d sends, a call takes %v, at most %v", sends, mean, most)
	if sends > 220 || mean > 50*time.Millisecond || most > linger+patience+sending {
		t.Error("too many, or too long")
	}
	sends, mean, most = patient(t, every(2000, func(clock.Clock) time.Duration { return time.Millisecond }))
	t.Logf("1,000 a second: %d sends, a call takes %v, at most %v", sends, mean, most)
	if sends > 220 || mean > 20*time.Millisecond {
		t.Error("too many, or too long")
	}
}

func TestACallerThatWaitsForResultsIsNotDelayed(t *testing.T) {
	for callers, slower := range map[int]time.Duration{1: time.Millisecond, 4: time.Millisecond, 16: time.Millisecond} {
		_, mean, most := patient(t, oneByOne(callers, 1000, 0))
		t.Logf("%d callers: a call takes %v, at most %v", callers, mean, most)
		if mean > linger+sending+slower || most > linger+patience+sending {
			t.Errorf("%d callers: a call takes %v, at most %v", callers, mean, most)
		}
	}
	_, mean, most := patient(t, oneByOne(1, 100, 100*time.Millisecond))
	if most > linger+sending {
		t.Errorf("now and then: a call takes %v, at most %v", mean, most)
	}
}

// When no other items come any more, sends stop waiting for them.
func TestPatienceEnds(t *testing.T) {
	sends, mean, _ := patient(t, func(k clock.Clock, call func()) {
		every(200, func(clock.Clock) time.Duration { return 10 * time.Millisecond })(k, call)
		oneByOne(1, 1000, 0)(k, call)
	})
	if limit := (200*50*time.Millisecond + 1000*(linger+sending+time.Millisecond)) / 1200; mean > limit || sends < 1000 {
		t.Errorf("a call takes %v, %d sends", mean, sends)
	}
}
