package catalog_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
)

// Whoever still makes what an older registration declared, or takes away what one declared that is back, is
// told so before it writes.
func TestWhatIsDeclaredIsMadeOfTheNewestRegistration(t *testing.T) {
	ctx, k := t.Context(), clock.NewVirtual(1_700_000_000_000_000, 1).Process(0)
	rows := store.New(mem.New(), store.Config{Clock: k})
	slow, fast := catalog.New(rows, k, slog.New(slog.DiscardHandler), catalog.Limits{}), catalog.New(rows, k, slog.New(slog.DiscardHandler), catalog.Limits{})
	registered := func(c *catalog.Catalog, value string) (*catalog.Entry, *catalog.Registration) {
		t.Helper()
		r, err := lambdas.ParseRegistration(store.Control{Name: "mail", Value: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		l, _, err := c.Register(ctx, r)
		if err == nil && !l.IsMade(&r) {
			l, err = c.Claim(ctx, l, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return l, &r
	}
	settled := func(l *catalog.Entry, r *catalog.Registration) *catalog.Entry {
		t.Helper()
		l, err := fast.Settle(ctx, l, r)
		if err != nil || !l.IsMade(r) {
			t.Fatalf("%+v, %v", l, err)
		}
		return l
	}
	const one, two = `{"format":2,"crons":{"a":{"schedule":"@daily"}}}`, `{"format":2,"crons":{"b":{"schedule":"@daily"}}}`

	old, oldRegistration := registered(slow, one)
	if err := slow.CheckCurrent(ctx, old); err != nil {
		t.Error(err)
	}
	now, next := registered(fast, two)
	if !now.HasMade("a") || !now.HasMade("b") {
		t.Errorf("claimed %v, and one of a killed server would be forgotten", now.Crons)
	}
	if err := slow.CheckCurrent(ctx, old); !errors.Is(err, catalog.ErrChanged) {
		t.Errorf("an older registration goes on: %v", err)
	}
	if _, err := slow.Settle(ctx, old, oldRegistration); !errors.Is(err, catalog.ErrChanged) {
		t.Errorf("an older registration is noted as made: %v", err)
	}
	if now = settled(now, next); now.HasMade("a") {
		t.Errorf("made %v", now.Crons)
	}

	undoing, err := slow.Undo(ctx, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := slow.CheckCurrent(ctx, undoing); err != nil {
		t.Error(err)
	}
	if undoing.IsMade(next) {
		t.Error("what is being taken away counts as made")
	}
	back, _ := registered(fast, two)
	if err := slow.CheckCurrent(ctx, undoing); !errors.Is(err, catalog.ErrChanged) {
		t.Errorf("what is back is taken away: %v", err)
	}
	settled(back, next)
	if _, err := slow.Undone(ctx, undoing); !errors.Is(err, catalog.ErrChanged) {
		t.Errorf("what is back is noted as taken away: %v", err)
	}
}
