package inbound_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
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
		sum := whole.Sum(all)
		if want := []int64{0, 0, 51 + 1, 1200 - 61}; !sum.Until.IsZero() || !slices.Equal(sum.Due, want) || slices.Max(sum.Variance) != 0 {
			t.Errorf("%+v, want %v", sum, want)
		}
		if due := whole.Sum(func(lambda string) bool { return lambda == "pay" }).Due; !slices.Equal(due, []int64{0, 0, 1, 0}) {
			t.Errorf("of one lambda: %v", due)
		}

		// It estimates what it has no budget for, if a shard at least was read whole.
		missed, estimated := 0, 0
		for range 20 {
			part, err := f.Forecast(f.ctx, edges, 900)
			if err != nil {
				t.Fatal(err)
			}
			sum := part.Sum(all)
			off := 1.96 * math.Sqrt(sum.Variance[3])
			if part.Rows > 1100 || sum.Due[2] != 52 || sum.Variance[2] != 0 {
				t.Errorf("within a budget: %d rows, %+v", part.Rows, sum)
			}
			if off == 0 {
				continue
			}
			if estimated++; math.Abs(float64(sum.Due[3]-1139)) > off {
				missed++
			}
		}
		if estimated == 0 || missed > 5 {
			t.Errorf("%d estimates, of which %d are off by more than they say", estimated, missed)
		}

		// A bucket begins with what is due on its edge, and a backlog takes none of the budget.
		midnight := time.Date(2023, 11, 15, 0, 0, 0, 0, time.UTC)
		f.accept(named("pay", "midnight", 0, func(item *kinesinv1.ScheduleItem) { item.Delay, item.Due = 0, midnight.UnixMicro() }))
		later := []time.Time{now.Add(80 * time.Minute), midnight, edges[3]} // some are due before the first
		coming, err := f.Forecast(f.ctx, later, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		if due := coming.Sum(func(lambda string) bool { return lambda == "pay" }).Due; !slices.Equal(due, []int64{0, 1, 1}) || coming.Sum(all).Due[0] != 0 {
			t.Errorf("of what is coming: %v, all %v", due, coming.Sum(all).Due)
		}

		few, err := f.Forecast(f.ctx, edges, 10)
		if err != nil {
			t.Fatal(err)
		}
		if sum := few.Sum(all); sum.Until.IsZero() || sum.Due[3] >= 1139 || slices.Max(sum.Variance) != 0 {
			t.Errorf("with a budget for no shard: %+v", sum)
		}
	})
}
