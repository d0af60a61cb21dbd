package inbound_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A forecast is what the due times add up to, and within its budget it says how far that is so.
func TestForecast(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		f.lambdas("pay")
		now := f.clock.Now().Time()
		for i := range 1200 {
			id := f.accept(named("mail", fmt.Sprintf("k%04d", i), time.Duration(i)*time.Minute+time.Hour))
			if i < 10 {
				f.cancelled(id)
			}
		}
		f.accept(named("pay", "one", 90*time.Minute))
		edges := []time.Time{now, now.Add(time.Hour + 30*time.Second), now.Add(2*time.Hour + 30*time.Second), now.Add(24 * time.Hour)}
		all := func(string) bool { return true }

		whole, err := f.Forecast(f.ctx, edges, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		due, until := whole.Sum(all)
		if want := []int64{0, 0, 51 + 1, 1200 - 61}; !until.IsZero() || !slices.Equal(due, want) {
			t.Errorf("%v until %v, want %v", due, until, want)
		}
		if due, _ = whole.Sum(func(lambda string) bool { return lambda == "pay" }); !slices.Equal(due, []int64{0, 0, 1, 0}) {
			t.Errorf("of one lambda: %v", due)
		}

		part, err := f.Forecast(f.ctx, edges, 700)
		if err != nil {
			t.Fatal(err)
		}
		due, until = part.Sum(all)
		if part.Rows > 800 || until.Before(edges[2]) || until.After(edges[3]) || due[2] != 52 || due[3] >= 1139 || due[3] < 500 {
			t.Errorf("within a budget: %d rows, %v until %v", part.Rows, due, until)
		}
	})
}
