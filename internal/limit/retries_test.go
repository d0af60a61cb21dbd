package limit_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/limit"
)

func newRetries(share float64) (*limit.Retries, *clock.Virtual) {
	v := clock.NewVirtual(1_700_000_000_000_000, 1)
	return &limit.Retries{Share: func(uint32) float64 { return share }, Clock: v.Process(0)}, v
}

func takeAll(r *limit.Retries) (n int) {
	for r.Take(7) {
		n++
	}
	return n
}

func TestRetriesAreAShareOfFirstStartsAndAMinimum(t *testing.T) {
	r, v := newRetries(0.2)
	if n := takeAll(r); n != 10 {
		t.Errorf("%d retries without a first start, want the minimum of 10 s", n)
	}
	r.Earn(7, 100)
	r.Earn(8, 1000) // of another lambda
	if n := takeAll(r); n != 20 {
		t.Errorf("%d retries after 100 first starts, want 20", n)
	}
	r.Return(7)
	if n := r.Left(7); n != 1 {
		t.Errorf("%d retries left after one was given back, want 1", n)
	}
	v.Advance(65 * time.Second)
	if n := takeAll(r); n != 10 {
		t.Errorf("%d retries a minute later, want 10: what was earned lapses", n)
	}
}

func TestInNoTenSecondsDoMoreRetriesStart(t *testing.T) {
	r, v := newRetries(0.5)
	var took [60]int
	for second := range took {
		if second < 20 {
			r.Earn(7, 40)
		}
		took[second] = takeAll(r)
		v.Advance(time.Second)
	}
	total := 0
	for second := range took {
		total += took[second]
		of, first := 0, 0
		for s := max(0, second-9); s <= second; s++ {
			of += took[s]
			if s < 20 {
				first += 40
			}
		}
		if most := first/2 + 10; of > most {
			t.Errorf("%d retries in the 10 s up to %d s, want %d at most", of, second, most)
		}
	}
	if want := 20*20 + 6*10; total < want-30 || total > want {
		t.Errorf("%d retries, want about %d", total, want)
	}
}

func TestABudgetIsKeptWhenTheClockIsSet(t *testing.T) {
	r, _ := newRetries(0.2)
	wall := &clocktest.Settable{Clock: r.Clock}
	r.Clock = wall
	r.Earn(7, 100)
	for _, by := range []time.Duration{0, time.Hour, -2 * time.Hour} {
		wall.Step(by)
		if n, want := takeAll(r), map[time.Duration]int{0: 30}[by]; n != want {
			t.Errorf("%d retries after a step of %v, want %d", n, by, want)
		}
	}
}

func TestWithoutAShareNothingIsKept(t *testing.T) {
	r, _ := newRetries(0)
	if r.IsBounded(7) {
		t.Error("the retries of a lambda without a share are bounded")
	}
	r.Earn(7, 1)
}
