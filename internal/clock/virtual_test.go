package clock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const start = task.Instant(1_700_000_000_000_000)

// fired receives what is in the timer's channel now.
func fired(t clock.Timer) (time.Time, bool) {
	select {
	case at := <-t.C():
		return at, true
	default:
		return time.Time{}, false
	}
}

func wantFired(t *testing.T, timer clock.Timer, want bool) {
	t.Helper()
	if _, got := fired(timer); got != want {
		t.Fatalf("timer fired: %v, want %v", got, want)
	}
}

func TestVirtualTimerFiresAtItsInstantAndNotBefore(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	timer := v.Process(0).NewTimer(time.Second)
	v.Advance(time.Second - time.Nanosecond)
	wantFired(t, timer, false)
	v.Advance(time.Nanosecond)
	at, ok := fired(timer)
	if !ok || task.InstantOf(at) != start.Add(time.Second) {
		t.Fatalf("fired %v at %v, want at %v", ok, at, start.Add(time.Second).Time())
	}
	v.Advance(time.Hour)
	wantFired(t, timer, false)
}

func TestVirtualTimerOfNoDurationFiresAtOnce(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	wantFired(t, c.NewTimer(0), true)
	wantFired(t, c.NewTimer(-time.Hour), true)
}

func TestVirtualResetForgetsTheEarlierSetting(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	timer := v.Process(0).NewTimer(time.Second)
	timer.Reset(2 * time.Second)
	v.Advance(time.Second)
	wantFired(t, timer, false)
	v.Advance(time.Second) // fires, and nobody receives
	timer.Reset(time.Second)
	wantFired(t, timer, false)
	v.Advance(time.Second)
	wantFired(t, timer, true)
	timer.Reset(0)
	wantFired(t, timer, true)
}

func TestVirtualStopTakesBackAValueNobodyReceived(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	timer := v.Process(0).NewTimer(time.Second)
	v.Advance(time.Second)
	timer.Stop()
	wantFired(t, timer, false)
	timer.Reset(time.Second)
	timer.Stop()
	timer.Stop()
	v.Advance(time.Minute)
	wantFired(t, timer, false)
	timer.Reset(time.Second)
	v.Advance(time.Second)
	wantFired(t, timer, true)
}

func TestVirtualProcessesShareTimeAndDifferByTheirOffset(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	ahead, behind := v.Process(70*time.Millisecond), v.Process(-50*time.Millisecond)
	timer := behind.NewTimer(time.Second)
	v.Advance(time.Second)
	if got := ahead.Now().Sub(behind.Now()); got != 120*time.Millisecond {
		t.Errorf("offset between the two: %v, want 120ms", got)
	}
	if v.Now() != start.Add(time.Second) {
		t.Errorf("true time %v", v.Now().Time())
	}
	if at, _ := fired(timer); task.InstantOf(at) != behind.Now() {
		t.Errorf("timer fired with %v, want its process's wall clock", at)
	}
}

func TestVirtualNextIsTheFirstInstantThatFires(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	c := v.Process(time.Hour)
	if _, armed := v.Next(); armed {
		t.Fatal("a timer though none was made")
	}
	late, early := c.NewTimer(time.Minute), c.NewTimer(1500*time.Nanosecond)
	next, ok := v.Next()
	if !ok || next != start+2 {
		t.Fatalf("next %d µs after the start, want 2", next-start)
	}
	v.Advance(next.Sub(v.Now()))
	wantFired(t, early, true)
	wantFired(t, late, false)
	late.Stop()
	if _, armed := v.Next(); armed {
		t.Fatal("a stopped timer is still next")
	}
}

func TestVirtualAdvanceStopsAtEveryInstantInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(0)
		var mu sync.Mutex
		var seen []string
		wait := func(name string, timer clock.Timer) {
			<-timer.C()
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, name+"@"+v.Now().Sub(start).String())
		}
		go wait("b", c.NewTimer(2*time.Second))
		go wait("c", c.NewTimer(2*time.Second)) // equal instants: as they were armed
		moved := c.NewTimer(time.Second)
		moved.Reset(2 * time.Second)
		go wait("d", moved)
		go func() {
			wait("a", c.NewTimer(time.Second))
			wait("chained", c.NewTimer(500*time.Millisecond))
		}()
		synctest.Wait()
		v.Advance(3 * time.Second)
		want := []string{"a@1s", "chained@1.5s", "b@2s", "c@2s", "d@2s"}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != len(want) {
			t.Fatalf("saw %v, want %v", seen, want)
		}
		for i := range want {
			if seen[i] != want[i] {
				t.Fatalf("saw %v, want %v", seen, want)
			}
		}
		if v.Now() != start.Add(3*time.Second) {
			t.Fatalf("ended at %v", v.Now().Sub(start))
		}
	})
}

func TestVirtualRandomnessIsGivenByTheSeed(t *testing.T) {
	draw := func(seed uint64) (all [4]uint64) {
		v := clock.NewVirtual(start, seed)
		a, b := v.Process(0), v.Process(0)
		return [4]uint64{a.Uint64(), b.Uint64(), a.Uint64(), b.Uint64()}
	}
	first, again, other := draw(7), draw(7), draw(8)
	if first != again {
		t.Error("the same seed gave other numbers")
	}
	if first == other {
		t.Error("another seed gave the same numbers")
	}
	if first[0] == first[1] {
		t.Error("two processes draw the same numbers")
	}
}

func TestVirtualUnderConcurrentUse(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	var all sync.WaitGroup
	for range 8 {
		c := v.Process(time.Millisecond)
		all.Go(func() {
			timer := c.NewTimer(time.Hour)
			for range 200 {
				timer.Reset(time.Duration(c.Uint64()%1000) * time.Microsecond)
				v.Advance(time.Millisecond)
				<-timer.C()
				c.Now()
				timer.Stop()
			}
		})
	}
	all.Wait()
	if _, armed := v.Next(); armed {
		t.Error("a stopped timer is still armed")
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		c := v.Process(0)
		done := make(chan error, 1)
		go func() { done <- clock.Sleep(t.Context(), c, time.Minute) }()
		synctest.Wait()
		v.Advance(time.Minute)
		if err := <-done; err != nil {
			t.Error(err)
		}
		over := errors.New("over")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(over)
		if err := clock.Sleep(ctx, c, time.Minute); !errors.Is(err, over) {
			t.Errorf("slept with %v, want the cause of the end", err)
		}
		if _, armed := v.Next(); armed {
			t.Error("an ended sleep left its timer")
		}
	})
}

func TestRealClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time.Now and timers are the bubble's
		c := clock.Real()
		before := c.Now()
		timer := c.NewTimer(time.Hour)
		<-timer.C()
		if got := c.Now().Sub(before); got != time.Hour {
			t.Errorf("waited %v", got)
		}
		timer.Reset(time.Minute)
		timer.Stop()
		time.Sleep(time.Hour)
		wantFired(t, timer, false)
		if first, second := c.Uint64(), c.Uint64(); first == second {
			t.Error("twice the same random number")
		}
	})
}

func TestJumpFiresEachTimerOnceAtTheNewInstant(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	c := v.Process(time.Minute)
	second, first, later := c.NewTimer(2*time.Second), c.NewTimer(time.Second), c.NewTimer(2*time.Hour)
	v.Jump(start.Add(time.Hour))
	for _, timer := range []clock.Timer{first, second} {
		at, ok := fired(timer)
		if want := start.Add(time.Hour + time.Minute); !ok || task.InstantOf(at) != want {
			t.Errorf("fired %v at %v, want at %v", ok, at, want.Time())
		}
	}
	wantFired(t, later, false)
	first.Reset(time.Second)
	v.Jump(start)
	if v.Now() != start.Add(time.Hour) {
		t.Errorf("jumped back to %v", v.Now().Time())
	}
	wantFired(t, first, false)
	v.Jump(start.Add(3 * time.Hour))
	wantFired(t, first, true)
	wantFired(t, later, true)
}

func TestResetFromIsNotOvertakenByAJump(t *testing.T) {
	v := clock.NewVirtual(start, 1)
	c := v.Process(-time.Minute)
	timer := c.NewTimer(time.Hour)
	from := clock.StampOf(timer)
	v.Jump(start.Add(5 * time.Second))
	clock.ResetFrom(timer, from, 5*time.Second)
	wantFired(t, timer, true)
	clock.ResetFrom(timer, from, 6*time.Second)
	wantFired(t, timer, false)
	v.Advance(time.Second)
	wantFired(t, timer, true)
}

func TestResetFromOfARealTimerIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Real()
		timer, began := c.NewTimer(time.Hour), c.Now()
		clock.ResetFrom(timer, clock.StampOf(timer), time.Second)
		<-timer.C()
		if took := c.Now().Sub(began); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A goroutine that begins to sleep just before time moves sleeps from the time before.
func TestAdvanceWaitsForWhoIsAboutToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(0)
		var woke task.Instant
		go func() {
			if err := clock.Sleep(t.Context(), c, time.Minute); err == nil {
				woke = c.Now()
			}
		}()
		v.Advance(time.Hour)
		synctest.Wait()
		if woke != start.Add(time.Minute) {
			t.Errorf("woke at %v, want %v", woke.Time(), start.Add(time.Minute).Time())
		}
	})
}
