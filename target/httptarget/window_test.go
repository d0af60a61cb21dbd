package httptarget_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/target/httptarget"
)

func TestTheWindowOfAHost(t *testing.T) {
	t.Parallel()
	w := httptarget.NewWindows().Get("a")
	for range 10 {
		if err := w.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	full, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("why"))
	if err := w.Enter(full); err == nil || err.Error() != "why" {
		t.Errorf("the eleventh call: %v", err)
	}
	for range 10 {
		w.Leave(httptarget.Good, 1, 2)
	}
	wantSize(t, w, 20, "after a round of good answers")
	w.EnterAll(t, 20)
	for range 20 {
		w.Leave(httptarget.Overloaded, 3, 4)
	}
	wantSize(t, w, 10, "after a round that failed")
	w.EnterAll(t, 10)
	for range 10 {
		w.Leave(httptarget.Good, 5, 6)
	}
	wantSize(t, w, 10, "after most of a round")
	w.EnterAll(t, 1)
	w.Leave(httptarget.Good, 5, 6)
	wantSize(t, w, 11, "after a round later")
	for at := range 10 {
		w.EnterAll(t, 1)
		w.Leave(httptarget.Overloaded, httptarget.Instant(10+2*at), httptarget.Instant(11+2*at))
	}
	wantSize(t, w, 1, "of a dead host")
	w.EnterAll(t, 1)
	w.Leave(httptarget.Unknown, 100, 101)
	wantSize(t, w, 1, "after a call that was given up")
}

func wantSize(t *testing.T, w *httptarget.Window, want int, when string) {
	t.Helper()
	if got := w.Size(); got != want {
		t.Errorf("%s: %d calls at a time, want %d", when, got, want)
	}
}

func TestCallsThatWaitGoOnInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := httptarget.NewWindows().Get("a")
		w.EnterAll(t, 10)
		var order []int
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 4 {
			of := t.Context()
			if i == 1 {
				of = ctx
			}
			go func() {
				if w.Enter(of) == nil {
					order = append(order, i)
				}
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		for range 3 {
			w.Leave(httptarget.Unknown, 1, 1)
			synctest.Wait()
		}
		if fmt.Sprint(order) != "[0 2 3]" {
			t.Errorf("went on: %v", order)
		}
	})
}

// A host that is dead holds a few slots, and the others leave theirs after a moment.
func TestFewCallsWaitForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := httptarget.NewWindows().Get("a")
		w.EnterAll(t, 10)
		began := time.Now()
		waited := map[time.Duration]int{}
		results := make(chan time.Duration)
		for range 100 {
			go func() {
				if err := w.Enter(t.Context()); !errors.Is(err, httptarget.ErrBusy) {
					t.Error(err)
				}
				results <- time.Since(began)
			}()
		}
		for range 100 {
			waited[<-results]++
		}
		if waited[time.Second] != 90 || waited[time.Minute] != 10 {
			t.Errorf("waited: %v", waited)
		}
		go w.Leave(httptarget.Good, 1, 2)
		w.EnterAll(t, 1)
	})
}

func TestHostsAreBounded(t *testing.T) {
	t.Parallel()
	ws := httptarget.NewWindows()
	busy := ws.Get("busy")
	busy.EnterAll(t, 1)
	for i := range 3 * httptarget.HostsMax {
		ws.Get(fmt.Sprint(i))
	}
	if n := ws.Len(); n > httptarget.HostsMax || ws.Get("busy") != busy {
		t.Errorf("%d hosts", n)
	}
}
