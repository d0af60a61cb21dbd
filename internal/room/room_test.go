package room

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// fill takes one after the other until one is refused, and returns how many were taken.
func fill(r *Room, who string, urgent bool) (n int) {
	for r.Enter(who, urgent).Take(1) {
		n++
	}
	return n
}

func TestEachHasAShare(t *testing.T) {
	refused := map[string]int{}
	r := New("jobs", 100, 10)
	r.Refused = func(who string) { refused[who]++ }
	for _, c := range []struct {
		who    string
		urgent bool
		want   int
	}{{"a", false, 45}, {"b", false, 23}, {"c", false, 11}, {"a", false, 0}, {"d", false, 6}, {"root", true, 15}, {"e", false, 0}, {"root", true, 0}} {
		if got := fill(r, c.who, c.urgent); got != c.want {
			t.Errorf("%s took %d, want %d", c.who, got, c.want)
		}
		if refused[c.who] == 0 {
			t.Errorf("%s was refused, and nobody was told", c.who)
		}
	}
	if !r.IsFull() || r.Used() != r.Most() {
		t.Errorf("%d of %d", r.Used(), r.Most())
	}
}

func TestWhatIsLeftMayBeTakenAgain(t *testing.T) {
	r := New("calls", 10, 0)
	s := r.Enter("a", false)
	if !s.Take(5) || s.Take(1) {
		t.Fatal("want half of it")
	}
	s.Shrink(2)
	if s.Held() != 2 || r.Used() != 2 || !s.Take(2) || r.IsFull() {
		t.Errorf("%d held, %d used", s.Held(), r.Used())
	}
	s.Leave()
	s.Leave()
	if r.Used() != 0 || len(r.callers) != 0 || r.waiting.Len() != 0 {
		t.Errorf("%d used, by %v", r.Used(), r.callers)
	}
}

func TestStoredRows(t *testing.T) {
	r := New("gates", 1000, 100)
	for _, c := range []struct {
		used, own int64
		urgent    bool
		want      bool
	}{{0, 0, false, true}, {449, 449, false, true}, {450, 450, false, false}, {899, 0, false, true}, {900, 0, false, false}, {999, 999, true, true}, {1000, 0, true, false}} {
		if got := r.Admits("a", c.used, c.own, c.urgent); got != c.want || r.Used() != c.used {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// begin waits in the background, and returns what tells how that ended.
func begin(ctx context.Context, s *Stay, n int64) <-chan error {
	over := make(chan error, 1)
	go func() { over <- s.Wait(ctx, time.Minute, n) }()
	synctest.Wait()
	return over
}

func isOver(t *testing.T, over <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-over:
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	default:
		t.Error("it still waits")
	}
}

func waits(t *testing.T, over <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-over:
		t.Errorf("it does not wait: %v", err)
	default:
	}
}

func TestOneWaitsBehindItsOwnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New("bodies", 100, 0)
		one := r.Enter("a", false)
		if !one.Take(50) {
			t.Fatal("nothing is taken")
		}
		large := begin(t.Context(), r.Enter("a", false), 40)
		small := begin(t.Context(), r.Enter("a", false), 1)
		if err := r.Enter("b", false).Wait(t.Context(), 0, 20); err != nil {
			t.Error("another caller waits:", err)
		}
		waits(t, large)
		one.Shrink(45)
		waits(t, small) // it came later than the large one
		one.Leave()
		isOver(t, large, nil)
		waits(t, small) // 40 of its caller, 40 are left
		time.Sleep(time.Minute)
		isOver(t, small, ErrFull)
		if r.Used() != 60 || r.waiting.Len() != 0 {
			t.Errorf("%d used, %d wait", r.Used(), r.waiting.Len())
		}
	})
}

func TestCallersHaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New("bodies", 100, 100) // nobody has a share
		first := r.Enter("root", true)
		if !first.Take(100) {
			t.Fatal("nothing is taken")
		}
		var a, b []<-chan error
		for range 3 {
			a = append(a, begin(t.Context(), r.Enter("a", true), 10))
		}
		b = append(b, begin(t.Context(), r.Enter("b", true), 10))
		first.Shrink(80)
		isOver(t, a[0], nil)
		isOver(t, b[0], nil)
		waits(t, a[1])
		first.Leave()
		isOver(t, a[1], nil)
		isOver(t, a[2], nil)
	})
}

// Calls that hold something and all wait for more would wait for each other for ever.
func TestTheLastThatWouldWaitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New("bodies", 60, 0)
		var all [3]*Stay
		for i := range all {
			if all[i] = r.Enter("a", false); !all[i].Take(10) {
				t.Fatal("nothing is taken")
			}
		}
		one, two := begin(t.Context(), all[0], 20), begin(t.Context(), all[1], 20)
		if err := all[2].Wait(t.Context(), time.Minute, 20); !errors.Is(err, ErrFull) {
			t.Errorf("the last: %v", err)
		}
		waits(t, one)
		waits(t, two)
		all[2].Leave() // which is not enough for the others: 20 of the caller, 40 left; the first needs 20
		isOver(t, one, nil)
		all[0].Leave()
		isOver(t, two, nil)

		if all[0] = r.Enter("a", false); !all[0].Take(0) {
			t.Fatal("nothing is taken")
		}
	})
}

// One that waits is refused too once those have left that it waited for, and that was not enough.
func TestWhoIsLeftWaitingIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New("bodies", 60, 0)
		big, small := r.Enter("a", false), r.Enter("a", false)
		if !big.Take(20) || !small.Take(5) {
			t.Fatal("nothing is taken")
		}
		more := begin(t.Context(), big, 30)
		waits(t, more)
		small.Leave()
		isOver(t, more, ErrFull)
	})
}

func TestWhoGoesGivesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New("bodies", 10, 0)
		if !r.Enter("a", false).Take(4) {
			t.Fatal("nothing is taken")
		}
		ctx, cancel := context.WithCancel(t.Context())
		large, small := begin(ctx, r.Enter("a", false), 5), begin(t.Context(), r.Enter("a", false), 1)
		waits(t, small)
		cancel()
		isOver(t, large, ErrFull)
		isOver(t, small, nil)
	})
}
