package control_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
)

// reads is a store that calls itself for each read.
type reads func() ([]store.Control, error)

func (r reads) Controls(context.Context, string) ([]store.Control, error) { return r() }

// copyOf says what is copied of a store: the values of the rows, one after the other.
func copyOf(r reads) control.CopyConfig[string] {
	return control.CopyConfig[string]{
		Kind: "setting", Rows: r, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
		Build: func(_ context.Context, rows []store.Control) (all string) {
			for _, r := range rows {
				all += r.Name + "=" + string(r.Value) + " "
			}
			return all
		},
	}
}

// TestACopyKnowsWhatIsStored changes the rows between two reads in each way in which they can.
func TestACopyKnowsWhatIsStored(t *testing.T) {
	t.Parallel()
	row := func(name string, version uint64, value string) store.Control {
		return store.Control{Kind: "setting", Name: name, Version: version, Value: []byte(value)}
	}
	var stored []store.Control
	m := control.NewCopy(copyOf(func() ([]store.Control, error) { return stored, nil }))
	for _, c := range []struct {
		what, want string
		rows       []store.Control
		isSame     bool
	}{
		{what: "set", want: "a=1 b=2 ", rows: []store.Control{row("b", 1, "2"), row("a", 1, "1")}},
		{what: "in another order", want: "a=1 b=2 ", rows: []store.Control{row("a", 1, "1"), row("b", 1, "2")}, isSame: true},
		{what: "changed", want: "a=3 b=2 ", rows: []store.Control{row("a", 2, "3"), row("b", 1, "2")}},
		{what: "removed and set again", want: "a=3 b=4 ", rows: []store.Control{row("a", 2, "3"), row("b", 1, "4")}},
		{what: "removed, set again and changed as often", want: "a=5 b=4 ", rows: []store.Control{row("a", 2, "5"), row("b", 1, "4")}},
		{what: "another name", want: "a=5 c=4 ", rows: []store.Control{row("a", 2, "5"), row("c", 1, "4")}},
		{what: "removed", want: "c=4 ", rows: []store.Control{row("c", 1, "4")}},
	} {
		number, changed := m.Number(), m.Changed()
		stored = c.rows
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := m.Value(); got != c.want {
			t.Errorf("%s: it knows %q, want %q", c.what, got, c.want)
		}
		told := false
		select {
		case <-changed:
			told = true
		default:
		}
		if told == c.isSame || (m.Number() > number) == c.isSame {
			t.Errorf("%s: number %d after %d, told of the change: %t", c.what, m.Number(), number, told)
		}
	}
}

// TestAnOvertakenReadChangesNothing reads the rows while an earlier read of them is under way.
func TestAnOvertakenReadChangesNothing(t *testing.T) {
	t.Parallel()
	var m *control.Copy[string]
	read := 0
	m = control.NewCopy(copyOf(func() ([]store.Control, error) {
		if read++; read == 2 {
			return []store.Control{{Name: "a", Version: 2, Value: []byte("new")}}, nil
		}
		return []store.Control{{Name: "a", Version: 1, Value: []byte("old")}}, m.Refresh(t.Context())
	}))
	if err := m.Refresh(t.Context()); err != nil || m.Value() != "a=new " {
		t.Errorf("it knows %q, %v", m.Value(), err)
	}
}

// TestWhatIsReadOnDemand has a read take 2 s, and callers who accept a copy of 3 s.
func TestWhatIsReadOnDemand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away error
		reads, sees := 0, 0
		d := control.NewOnDemand(copyOf(func() ([]store.Control, error) {
			reads++
			time.Sleep(2 * time.Second)
			return []store.Control{{Name: "a", Version: 1, Value: []byte("1")}}, away
		}))
		look := func() error {
			return d.Look(t.Context(), 3*time.Second, func(known *string) {
				if sees++; *known != "a=1 " {
					t.Errorf("it knows %q", *known)
				}
			})
		}
		var calls errgroup.Group
		for range 10 {
			calls.Go(look)
		}
		if err := calls.Wait(); err != nil || reads != 1 || sees != 10 {
			t.Errorf("ten calls at once: %d reads, %d see the copy, %v", reads, sees, err)
		}
		time.Sleep(1500 * time.Millisecond) // the read began 3.5 s ago, and may not show what was written since
		if err := look(); err != nil || reads != 2 {
			t.Errorf("%d reads, %v", reads, err)
		}
		time.Sleep(time.Minute)
		away, sees = errors.New("away"), 0
		if err := look(); !errors.Is(err, away) || sees > 0 {
			t.Errorf("the store is away: %d see the copy, %v", sees, err)
		}
	})
}
