package objective_test

import (
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/objective"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// Counts of several processes and of those that ended make one budget, and leave the window hour by hour.
func TestAFleetAndARestartKeepTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := store.New(mem.New(), store.Config{})
		defer func() { _ = rows.Close() }()
		c := catalog.New(rows, clock.Real(), slog.New(slog.DiscardHandler))
		if _, _, err := c.Create(t.Context(), task.Lambda{Name: "mail"}); err != nil {
			t.Fatal(err)
		}
		l, err := c.Find(t.Context(), "mail")
		if err != nil {
			t.Fatal(err)
		}
		process := func() (*objective.Keeper, *objective.Service) {
			k := objective.New(rows, clock.Real(), slog.New(slog.DiscardHandler), func(ref uint32) bool { return c.ByRef(ref) != nil })
			return k, &objective.Service{Keeper: k, Catalog: c}
		}
		one, serviceOne := process()
		if _, err := serviceOne.SetObjective(t.Context(), &kinesinv1.SetObjectiveRequest{
			Lambda: "mail", WithinMicros: 5_000_000, Objective: 99, WindowMicros: (24 * time.Hour).Microseconds(),
		}); err != nil {
			t.Fatal(err)
		}
		two, serviceTwo := process()
		if err := two.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n := range 1000 {
			late := time.Second
			if n < 5 {
				late = 6 * time.Second
			}
			[]*objective.Keeper{one, two}[n%2].Started(l.Ref, late)
			one.Started(l.Ref+1, time.Hour) // without an objective
		}
		if err := one.Flush(t.Context()); err != nil { // and ends
			t.Fatal(err)
		}
		status := func() *kinesinv1.ObjectiveStatus {
			t.Helper()
			r, err := serviceTwo.GetObjectives(t.Context(), &kinesinv1.GetObjectivesRequest{Lambda: "mail"})
			if err != nil || len(r.GetObjectives()) != 1 {
				t.Fatal(r, err)
			}
			return r.GetObjectives()[0]
		}
		if s := status(); s.GetStarted() != 1000 || s.GetGood() != 995 || math.Abs(s.GetBudgetLeft()-0.5) > 1e-9 || math.Abs(s.GetBurns()[0].GetRate()-0.5) > 1e-9 {
			t.Errorf("%v", s)
		}
		time.Sleep(2 * time.Hour)
		for range 10 {
			two.Started(l.Ref, time.Hour)
		}
		if s := status(); s.GetStarted() != 1010 || s.GetGood() != 995 || s.GetBurns()[0].GetStarted() != 10 || math.Abs(s.GetBurns()[0].GetRate()-100) > 1e-6 || s.GetBudgetLeft() > 0 {
			t.Errorf("%v", s)
		}
		time.Sleep(23*time.Hour + 30*time.Minute)
		if s := status(); s.GetStarted() != 10 {
			t.Errorf("after a day: %v", s)
		}
		time.Sleep(24 * time.Hour)
		if s := status(); s.GetStarted() != 0 || s.GetAttained() != 100 || s.GetBudgetLeft() != 1 {
			t.Errorf("after two days: %v", s)
		}
	})
}

func TestBadObjectives(t *testing.T) {
	for _, bad := range []objective.Objective{
		{Within: 0, Percent: 99, Window: time.Hour},
		{Within: time.Second, Percent: 100, Window: time.Hour},
		{Within: time.Second, Percent: 0, Window: time.Hour},
		{Within: time.Second, Percent: math.NaN(), Window: time.Hour},
		{Within: time.Second, Percent: 99, Window: time.Minute},
		{Within: time.Second, Percent: 99, Window: 90 * time.Minute},
		{Within: time.Second, Percent: 99, Window: 91 * 24 * time.Hour},
		{Within: 25 * time.Hour, Percent: 99, Window: time.Hour},
	} {
		if err := bad.Validate(); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
