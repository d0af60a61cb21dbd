package control_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
)

// rows are what a store holds.
type rows []store.Control

func (r *rows) Controls(context.Context, string) ([]store.Control, error) { return *r, nil }

// TestACopyKnowsWhatIsStored changes the rows between two reads in each way in which they can.
func TestACopyKnowsWhatIsStored(t *testing.T) {
	t.Parallel()
	row := func(name string, version uint64, value string) store.Control {
		return store.Control{Kind: "setting", Name: name, Version: version, Value: []byte(value)}
	}
	stored := &rows{}
	m := control.NewCopy(control.CopyConfig[string]{
		Kind: "setting", Rows: stored, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
		Build: func(_ context.Context, rows []store.Control) (all string) {
			for _, r := range rows {
				all += r.Name + "=" + string(r.Value) + " "
			}
			return all
		},
	})
	for _, c := range []struct {
		what, want string
		rows       rows
		isSame     bool
	}{
		{what: "set", want: "a=1 b=2 ", rows: rows{row("b", 1, "2"), row("a", 1, "1")}},
		{what: "in another order", want: "a=1 b=2 ", rows: rows{row("a", 1, "1"), row("b", 1, "2")}, isSame: true},
		{what: "changed", want: "a=3 b=2 ", rows: rows{row("a", 2, "3"), row("b", 1, "2")}},
		{what: "removed and set again", want: "a=3 b=4 ", rows: rows{row("a", 2, "3"), row("b", 1, "4")}},
		{what: "removed, set again and changed as often", want: "a=5 b=4 ", rows: rows{row("a", 2, "5"), row("b", 1, "4")}},
		{what: "another name", want: "a=5 c=4 ", rows: rows{row("a", 2, "5"), row("c", 1, "4")}},
		{what: "removed", want: "c=4 ", rows: rows{row("c", 1, "4")}},
	} {
		number, changed := m.Number(), m.Changed()
		*stored = c.rows
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
