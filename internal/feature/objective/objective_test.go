package objective_test

import (
	"context"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/objective"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// Counts of several processes and of those that ended make one budget, and leave the window hour by hour.
func TestAFleetAndARestartKeepTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := store.New(mem.New(), store.Config{})
		defer func() { _ = rows.Close() }()
		c := catalog.New(rows, clock.Real(), slog.New(slog.DiscardHandler), catalog.Limits{})
		if _, _, err := c.Create(t.Context(), task.Lambda{Name: "mail"}); err != nil {
			t.Fatal(err)
		}
		l, err := c.Find(t.Context(), "mail")
		if err != nil {
			t.Fatal(err)
		}
		process := func() (*objective.Keeper, *objective.Service) {
			k := objective.New(objective.Config{Rows: rows, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Exists: func(ref uint32) bool { return c.ByRef(ref) != nil }})
			return k, &objective.Service{Keeper: k, Catalog: c}
		}
		one, serviceOne := process()
		if _, err := serviceOne.SetObjective(t.Context(), &kinesinv1.SetObjectiveRequest{
			Lambda: "mail", Within: 5_000_000, Objective: 99, Window: (24 * time.Hour).Microseconds(),
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

// What is late and waits counts as late in the window and in each burn, from all servers that told of it lately,
// and only as long as it waits.
func TestWhatWaitsLateBurnsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var waits [2]int64
		var keepers [2]*objective.Keeper
		for i := range keepers {
			keepers[i] = f.keeperWith(func(_ context.Context, o *objective.Objective) (int64, error) {
				if o.Ref != f.ref {
					t.Errorf("asked for %+v", o)
				}
				return waits[i], nil
			})
		}
		one, two := keepers[0], keepers[1]
		f.set(one, 99)
		want := func(when string, started, good, waiting int64) {
			t.Helper()
			for _, k := range []*objective.Keeper{two, one, two} { // whoever is asked last knows what the other has told
				f.status(k)
			}
			s := f.status(two)
			if s.GetStarted() != started || s.GetGood() != good || s.GetWaiting() != waiting || math.Abs(s.GetBurns()[0].GetRate()-100*(1-float64(good)/float64(max(started, 1)))) > 1e-6 && started > 0 {
				t.Errorf("%s: %v", when, s)
			}
		}
		for range 80 {
			one.Started(f.ref, time.Second)
		}
		want("before", 80, 80, 0)
		waits[0], waits[1] = 15, 5
		want("waiting", 100, 80, 20)
		waits[0] = 0
		for range 15 {
			two.Started(f.ref, time.Hour)
		}
		want("some started", 100, 80, 5)
		waits[0], waits[1] = 10, 0
		f.status(one)
		if s := f.status(two); s.GetWaiting() != 10 {
			t.Errorf("of the other: %v", s)
		}
		time.Sleep(3 * objective.KeepEvery) // the other has ended
		if s := f.status(two); s.GetWaiting() != 0 || s.GetStarted() != 95 {
			t.Errorf("of one that ended: %v", s)
		}
	})
}

// Deaths are told of all servers and of those that ended, by lambda, with and without an objective.
func TestDeathsOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one, two := f.keeper(), f.keeper()
		want := func(when string, hour, day, other int64) {
			t.Helper()
			for _, k := range []*objective.Keeper{one, two} { // each stores what it has counted
				if _, err := k.Deaths(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for n, k := range []*objective.Keeper{one, two, f.keeper()} {
				all, err := k.Deaths(t.Context())
				if got := all[f.ref]; err != nil || got != (objective.Deaths{Hour: hour, Day: day}) || all[f.ref+1].Day != other || len(all) > 2 {
					t.Errorf("%s, keeper %d: %v, %v, want %d in the hour, %d in the day", when, n, all, err, hour, day)
				}
			}
		}
		want("none", 0, 0, 0)
		for n := range 61 {
			[]*objective.Keeper{one, two}[n%2].Died(f.ref)
		}
		one.Died(f.ref + 1)
		one.Started(f.ref+2, time.Hour)
		want("61", 61, 61, 1)
		time.Sleep(time.Hour)
		two.Died(f.ref)
		want("an hour later", 62, 62, 1) // the hour before this one is all in it
		time.Sleep(time.Hour)
		want("two hours later", 1, 62, 1)
		time.Sleep(22 * time.Hour)
		want("a day later", 0, 62, 1)
		time.Sleep(time.Hour)
		want("more than a day later", 0, 1, 0)
		time.Sleep(time.Hour)
		if all, err := one.Deaths(t.Context()); len(all) != 0 || err != nil {
			t.Errorf("two days later: %v, %v", all, err)
		}
	})
}

// The deaths of very many lambdas do not fill a row without bound, and starts with an objective are counted all
// the same.
func TestLambdasOfARowAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		k := f.keeper()
		f.set(k, 99)
		for ref := range uint32(15_000) {
			k.Died(f.ref + 1 + ref)
		}
		k.Started(f.ref, time.Second)
		all, err := k.Deaths(t.Context())
		if len(all) != 5000 || err != nil {
			t.Errorf("deaths of %d lambdas, %v", len(all), err)
		}
		if s := f.status(k); s.GetStarted() != 1 {
			t.Errorf("%v", s)
		}
	})
}

// fleet is a store with one lambda and keepers over it.
type fleet struct {
	*testing.T

	rows    *store.Store
	catalog *catalog.Catalog
	ref     uint32
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, rows: store.New(mem.New(), store.Config{})}
	t.Cleanup(func() { _ = f.rows.Close() })
	f.catalog = catalog.New(f.rows, clock.Real(), slog.New(slog.DiscardHandler), catalog.Limits{})
	if _, _, err := f.catalog.Create(t.Context(), task.Lambda{Name: "mail"}); err != nil {
		t.Fatal(err)
	}
	l, err := f.catalog.Find(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	f.ref = l.Ref
	return f
}

func (f *fleet) keeper() *objective.Keeper { return f.keeperWith(nil) }

// keeperWith is a keeper of a process that has partitions, besides others.
func (f *fleet) keeperWith(late func(context.Context, *objective.Objective) (int64, error)) *objective.Keeper {
	return objective.New(objective.Config{
		Rows: f.rows, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
		Exists: func(ref uint32) bool { return f.catalog.ByRef(ref) != nil }, Late: late, Shared: late != nil,
	})
}

func (f *fleet) set(k *objective.Keeper, percent float64) {
	f.Helper()
	s := &objective.Service{Keeper: k, Catalog: f.catalog}
	if _, err := s.SetObjective(f.Context(), &kinesinv1.SetObjectiveRequest{Lambda: "mail", Within: 5_000_000, Objective: percent}); err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) status(k *objective.Keeper) *kinesinv1.ObjectiveStatus {
	f.Helper()
	s := &objective.Service{Keeper: k, Catalog: f.catalog}
	r, err := s.GetObjectives(f.Context(), &kinesinv1.GetObjectivesRequest{Lambda: "mail"})
	if err != nil || len(r.GetObjectives()) != 1 {
		f.Fatal(r, err)
	}
	return r.GetObjectives()[0]
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
