package quota_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/quota"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// bubbleClock hides the readings of the machine's clock, so that steady time is that of the test's bubble too.
type bubbleClock struct{ clock.Clock }

// bookOf returns a book of one lambda with the reference 7.
func bookOf(t *testing.T, limits ...quota.Limit) *quota.Book {
	t.Helper()
	s := store.New(mem.New(), store.Config{Clock: clock.Real()})
	row, err := quota.AsRows.Encode(&quota.Quota{Lambda: "mail", Ref: 7, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutControl(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	damaged := store.Control{Kind: quota.Kind, Name: "other", Version: 1, Value: []byte("{")}
	if err := s.PutControl(t.Context(), damaged); err != nil {
		t.Fatal(err)
	}
	b := quota.NewBook(s, clock.Real(), slog.New(slog.DiscardHandler))
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// taken returns how many of n tasks that come together are admitted, and the retry-after of the last.
func taken(a *quota.Admission, lambda uint32, identity string, n int) (admitted int, after time.Duration) {
	refused := 0
	for range n {
		wait, ok := a.Take(lambda, identity, refused)
		if ok {
			admitted++
			continue
		}
		refused++
		after = wait
	}
	return admitted, after
}

func TestAdmissionKeepsARateAfterASecondOfBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &quota.Admission{Book: bookOf(t, quota.Limit{Admit: 50}), Clock: bubbleClock{clock.Real()}, Servers: func() int { return 1 }}
		if n, after := taken(a, 7, "me", 80); n != 50 || after <= 500*time.Millisecond || after > time.Second {
			t.Errorf("%d of 80 were admitted at once, want 50; the last comes after %v, want about 30/50 s", n, after)
		}
		total := 0
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			n, _ := taken(a, 7, "me", 80)
			total += n
		}
		if total < 495 || total > 505 {
			t.Errorf("%d were admitted in 10 s, want 500", total)
		}
		if n, _ := taken(a, 8, "me", 80); n != 80 {
			t.Errorf("%d of another lambda were admitted, want all", n)
		}
	})
}

func TestARefusedTaskIsAdmittedWhenItWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &quota.Admission{Book: bookOf(t, quota.Limit{Admit: 0.2}), Clock: bubbleClock{clock.Real()}, Servers: func() int { return 1 }}
		if n, after := taken(a, 7, "me", 2); n != 1 || after != 5*time.Second {
			t.Fatalf("%d admitted, the next after %v", n, after)
		}
		time.Sleep(5*time.Second - time.Millisecond)
		if n, after := taken(a, 7, "me", 1); n != 0 || after != time.Millisecond {
			t.Errorf("%d admitted before its time, the next after %v", n, after)
		}
		time.Sleep(time.Millisecond)
		if n, _ := taken(a, 7, "me", 1); n != 1 {
			t.Error("not admitted at its time")
		}
	})
}

func TestAdmissionByIdentityAndOfAllTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := 1
		a := &quota.Admission{
			Book:  bookOf(t, quota.Limit{Admit: 30}, quota.Limit{Identity: "crm", Admit: 10}, quota.Limit{Priority: "low", Rate: 1}),
			Clock: bubbleClock{clock.Real()}, Servers: func() int { return servers },
		}
		if n, _ := taken(a, 7, "crm", 20); n != 10 {
			t.Errorf("%d of crm were admitted, want its own 10", n)
		}
		if n, _ := taken(a, 7, "shop", 40); n != 20 {
			t.Errorf("%d of another were admitted, want the 20 that are left of 30", n)
		}
		servers = 2
		time.Sleep(10 * time.Second)
		if n, _ := taken(a, 7, "crm", 20); n != 5 {
			t.Errorf("%d of crm were admitted by one of two servers, want 5", n)
		}
		if n, _ := taken(a, 7, "", 40); n != 10 {
			t.Errorf("%d without an identity were admitted, want the 10 that are left of 15", n)
		}
	})
}

func TestARaisedAdmissionHoldsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &quota.Admission{Book: bookOf(t, quota.Limit{Admit: 0.001}), Clock: bubbleClock{clock.Real()}, Servers: func() int { return 1 }}
		if n, _ := taken(a, 7, "", 10); n != 1 {
			t.Fatalf("%d admitted", n)
		}
		a.Book = bookOf(t, quota.Limit{Admit: 10})
		if n, _ := taken(a, 7, "", 10); n < 1 {
			t.Error("nothing is admitted at the new rate")
		}
		time.Sleep(time.Second)
		if n, _ := taken(a, 7, "", 100); n != 10 {
			t.Errorf("%d admitted a second later, want 10", n)
		}
	})
}

func TestStartsOfLambdaAndPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &quota.Starts{Book: bookOf(t, quota.Limit{Rate: 100, Burst: 1}, quota.Limit{Priority: "low", Class: 2, Rate: 10, Burst: 3}), Limiter: limit.NewLimiter(nil, clock.Real())}
		low, high, other := partition(7, 2), partition(7, 0), partition(8, 0)
		for _, c := range []struct {
			name string
			rate float64
			got  float64
		}{{"low", 10, s.Rate(low)}, {"high", 100, s.Rate(high)}, {"of another lambda", 0, s.Rate(other)}} {
			if c.rate != c.got {
				t.Errorf("%s: rate %v, want %v", c.name, c.got, c.rate)
			}
		}
		if n, again, _ := s.Take(other, 1000, 1000); n != 1000 || !again.IsZero() {
			t.Errorf("%d without a quota", n)
		}
		if n, _, _ := s.Take(low, 5, 5); n != 1 { // by the burst of the lambda; the other two are given back
			t.Errorf("%d of low, want 1", n)
		}
		time.Sleep(50 * time.Millisecond)
		if n, again, _ := s.Take(low, 5, 5); n != 2 || again.IsZero() {
			t.Errorf("%d of low 50 ms later, want the 2 that were given back", n)
		}
		if n, limited := s.Within(7, 2, time.Second); !limited || n != 13 {
			t.Errorf("%d may start in a second, want 13", n)
		}
		if _, limited := s.Within(8, 2, time.Second); limited {
			t.Error("another lambda is limited")
		}
	})
}

func partition(lambda uint32, priority uint8) task.Partition {
	return task.Partition{Lambda: lambda, Priority: priority}
}
