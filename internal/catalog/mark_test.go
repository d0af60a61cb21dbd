package catalog_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func (f *fixture) mark(c *catalog.Catalog, e *catalog.Entry, dropping bool) *catalog.Entry {
	f.t.Helper()
	marked, err := c.Mark(f.ctx, e, dropping)
	if err != nil {
		f.t.Fatal(err)
	}
	return marked
}

func TestAMarkIsRenewedAndStaysTheSame(t *testing.T) {
	f := newFixture(t)
	first := f.mark(f.Catalog, f.create(task.Lambda{Name: "mail"}), false)
	if !first.Deleting || first.Dropping || first.Version != 2 {
		t.Fatalf("%+v", first)
	}
	if again := f.mark(f.Catalog, first, false); again.Version != 2 {
		t.Errorf("marked again at once: %+v", again)
	}
	dropping := f.mark(f.Catalog, first, true)
	if dropping.Version != 3 || !dropping.Dropping || !dropping.IsSameMark(first) {
		t.Errorf("to drop: %+v", dropping)
	}
	if again := f.mark(f.Catalog, first, false); again.Version != 3 || !again.Dropping {
		t.Errorf("beside one that drops: %+v", again)
	}
	f.time.Advance(catalog.DeletingFor / 2)
	if !f.NeedsRenewal(dropping) {
		t.Error("not marked long ago")
	}
	renewed := f.mark(f.Catalog, dropping, true)
	if renewed.Version != 4 || !renewed.IsSameMark(first) || f.MarkedFor(renewed) != catalog.DeletingFor/2 || f.NeedsRenewal(renewed) {
		t.Errorf("renewed: %+v, marked for %v", renewed, f.MarkedFor(renewed))
	}
	if err := f.Remove(f.ctx, dropping); !errors.Is(err, catalog.ErrChanged) {
		t.Errorf("removed as it was before: %v", err)
	}
}

// TestABrokenMarkIsAnother has a mark that another process took back and set anew between two reads.
func TestABrokenMarkIsAnother(t *testing.T) {
	f := newFixture(t)
	first := f.mark(f.Catalog, f.create(task.Lambda{Name: "mail"}), true)
	f.time.Advance(time.Second)
	if err := errors.Join(f.other.Refresh(f.ctx), f.other.Unmark(f.ctx, first)); err != nil {
		t.Fatal(err)
	}
	f.mark(f.other, first, true)
	now := f.mark(f.Catalog, first, true)
	if now.IsSameMark(first) || f.MarkedFor(now) != 0 {
		t.Errorf("%+v, marked for %v", now, f.MarkedFor(now))
	}
	if err := f.Remove(f.ctx, now); err != nil {
		t.Fatal(err)
	}
	f.create(task.Lambda{Name: "mail"})
	if _, err := f.Mark(f.ctx, now, true); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("mark another of that name: %v", err)
	}
	if err := f.Unmark(f.ctx, now); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("unmark another of that name: %v", err)
	}
}

func TestADeletionThatNobodyGoesOnWithIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.time.Settle(synctest.Wait)
		marked := f.mark(f.Catalog, f.create(task.Lambda{Name: "mail"}), true)
		runtest.Start(t, f.Run)
		runtest.Start(t, f.other.Run)
		synctest.Wait()
		f.time.Advance(catalog.DeletingFor - time.Second)
		renewed := f.mark(f.Catalog, marked, true)
		f.time.Advance(catalog.DeletingFor - time.Second)
		if now := f.ByRef(marked.Ref); now == nil || !now.Deleting {
			t.Errorf("%+v", now)
		}
		f.time.Advance(2 * catalog.RefreshEvery)
		if now := f.ByRef(marked.Ref); now.Deleting || now.Dropping || now.Version != renewed.Version+1 {
			t.Errorf("%+v", now)
		}
		if err := f.Remove(f.ctx, renewed); !errors.Is(err, catalog.ErrChanged) {
			t.Errorf("removed all the same: %v", err)
		}
	})
}

func TestALambdaThatWasDroppedIsRememberedForAWhile(t *testing.T) {
	f := newFixture(t)
	const kept = 24 * time.Hour
	entry := f.mark(f.Catalog, f.create(task.Lambda{Name: "mail", Retention: time.Hour}), true)
	dropped := func() *catalog.Dropped {
		t.Helper()
		d, err := f.DroppedLambda(f.ctx, entry.Ref)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for range 2 {
		if err := f.NoteDropped(f.ctx, entry, kept); err != nil {
			t.Fatal(err)
		}
	}
	if d := dropped(); d != nil {
		t.Errorf("while it is there: %+v", d)
	}
	if err := f.Remove(f.ctx, entry); err != nil {
		t.Fatal(err)
	}
	if d := dropped(); d == nil || d.Name != "mail" || d.Retention != time.Hour || d.At != start {
		t.Errorf("%+v", d)
	}
	f.time.Advance(kept + time.Second)
	if err := f.NoteDropped(f.ctx, f.create(task.Lambda{Name: "other"}), kept); err != nil {
		t.Fatal(err)
	}
	if _, err := f.rows.Control(f.ctx, catalog.DroppedKind, strconv.FormatUint(uint64(entry.Ref), 10)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is kept: %v", err)
	}
}
