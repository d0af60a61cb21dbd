package control_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

type thing struct {
	control.Meta `json:"-"`

	ID    string       `json:"id"`
	Count int          `json:"count,omitempty"`
	Ended task.Instant `json:"ended,omitempty"`
}

func kind() control.Kind[thing] {
	return control.Kind[thing]{Live: "thing", Ended: "thing-ended", What: "thing", Name: func(t *thing) string { return t.ID }}
}

// spied is a store that notes what is asked of it, and calls before ahead of each write.
type spied struct {
	store.ControlRows

	asked  []string
	before func(row store.Control) error
	away   error // of all reads; nil: they succeed
}

func (s *spied) Control(ctx context.Context, kind, name string) (store.Control, error) {
	s.asked = append(s.asked, "read "+kind)
	if s.away != nil {
		return store.Control{}, s.away
	}
	return s.ControlRows.Control(ctx, kind, name)
}

func (s *spied) write(what string, row store.Control) error {
	s.asked = append(s.asked, what+" "+row.Kind)
	if s.before == nil {
		return nil
	}
	return s.before(row)
}

func (s *spied) PutControl(ctx context.Context, row store.Control) error {
	if err := s.write("put", row); err != nil {
		return err
	}
	return s.ControlRows.PutControl(ctx, row)
}

func (s *spied) DeleteControl(ctx context.Context, row store.Control) error {
	if err := s.write("delete", row); err != nil {
		return err
	}
	return s.ControlRows.DeleteControl(ctx, row)
}

func (s *spied) done() string {
	asked := strings.Join(s.asked, ", ")
	s.asked = nil
	return asked
}

func newBook() (*spied, *control.Book[thing]) {
	rows := &spied{ControlRows: store.New(mem.New(), store.Config{Clock: clock.Real()})}
	return rows, control.NewBook(rows, kind(), clock.Real())
}

func count(t *thing) (control.Do, error) {
	t.Count++
	return control.Store, nil
}

// TestAChangeIsMadeAgain has others change the row before each try.
func TestAChangeIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, b := newBook()
		if err := b.Put(t.Context(), &thing{ID: "a", Count: 1}); err != nil {
			t.Fatal(err)
		}
		others := control.NewBook(rows.ControlRows, kind(), clock.Real())
		overtaken := 0
		rows.before = func(store.Control) error {
			if overtaken--; overtaken >= 0 {
				_, err := others.Change(t.Context(), "a", count)
				return err
			}
			return nil
		}
		rows.done()
		for _, c := range []struct {
			overtaken int
			want      string // what the store is asked for
		}{
			{0, "read thing, put thing"},
			{1, "read thing, put thing, put thing"}, // from the row of the conflict
			{2, "read thing, put thing, put thing, read thing, put thing"},
		} {
			before, err := others.Find(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			overtaken = c.overtaken
			got, err := b.Change(t.Context(), "a", count)
			if asked := rows.done(); err != nil || got.Count != before.Count+c.overtaken+1 || got.Version != before.Version+uint64(c.overtaken)+1 || asked != c.want {
				t.Errorf("overtaken %d times: %+v, %v, by %s", c.overtaken, got, err, asked)
			}
		}
		overtaken = 1000
		began := time.Now()
		if _, err := b.Change(t.Context(), "a", count); !errors.Is(err, control.ErrBusy) || !errors.Is(err, store.ErrConflict) {
			t.Errorf("always overtaken: %v", err)
		}
		if tries := strings.Count(rows.done(), "put"); tries != 16 || time.Since(began) > 14*50*time.Millisecond {
			t.Errorf("%d tries in %v", tries, time.Since(began))
		}
	})
}

// TestAChangeOfWhatIsNotThere has no row, and one that ended.
func TestAChangeOfWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, b := newBook()
		named := func(t *thing) (control.Do, error) {
			t.ID = "a"
			return count(t)
		}
		if _, err := b.Change(t.Context(), "a", count); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a change: %v", err)
		}
		rows.before = func(store.Control) error {
			rows.before = nil
			return b.Put(t.Context(), &thing{ID: "a", Count: 7}) // somebody else is faster
		}
		got, err := b.Set(t.Context(), "a", named)
		if err != nil || got.Count != 8 || got.Version != 2 {
			t.Errorf("set: %+v, %v", got, err)
		}
		seen := *got
		if _, err := b.Change(t.Context(), "a", func(*thing) (control.Do, error) { return control.Remove, nil }); err != nil {
			t.Error(err)
		}
		if _, err := b.ChangeFrom(t.Context(), seen, count); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a change of what was seen before it was removed: %v", err)
		}
		if err := b.Put(t.Context(), &thing{ID: "b"}); err != nil {
			t.Fatal(err)
		}
		ended, err := b.Change(t.Context(), "b", count)
		if err == nil {
			_, err = b.Bury(t.Context(), ended)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Change(t.Context(), "b", count); !got.IsBuried() || !errors.Is(err, store.ErrMalformed) {
			t.Errorf("a change of what has ended: %+v, %v", got, err)
		}
	})
}

// TestAFailedReadIsNoAnswer has the store away, which does not mean that there is no row.
func TestAFailedReadIsNoAnswer(t *testing.T) {
	rows, b := newBook()
	rows.away = errors.New("away")
	if _, err := b.Find(t.Context(), "a"); !errors.Is(err, rows.away) {
		t.Errorf("find: %v", err)
	}
	edited := func(*thing) (control.Do, error) {
		t.Error("an edit of what was not read")
		return control.Keep, nil
	}
	if _, err := b.Set(t.Context(), "a", edited); !errors.Is(err, rows.away) {
		t.Errorf("set: %v", err)
	}
}

// TestWhatEndsIsFoundAllTheTime fails each write of a burial once, and buries again.
func TestWhatEndsIsFoundAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows, b := newBook()
		lost := errors.New("lost")
		one := &thing{ID: "a", Ended: 1}
		if err := b.Put(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		rows.done()
		for _, c := range []struct {
			lost  string // kind of the row that cannot be written
			first bool
			want  string
		}{
			{"thing-ended", false, "put thing-ended"},
			{"thing", true, "put thing-ended, delete thing"},
			{"", false, "put thing-ended, delete thing"},
			{"", false, "put thing-ended, delete thing"},
		} {
			rows.before = func(row store.Control) error {
				if row.Kind == c.lost {
					return lost
				}
				return nil
			}
			again := *one // as it was read before it ended
			first, err := b.Bury(t.Context(), &again)
			if asked := rows.done(); first != c.first || (err != nil) != (c.lost != "") || asked != c.want {
				t.Errorf("lost %q: first %t, %v, by %s", c.lost, first, err, asked)
			}
			found, err := b.Find(t.Context(), "a")
			if err != nil || found.Ended != 1 || found.IsBuried() != (c.lost == "") {
				t.Errorf("lost %q: found %+v, %v", c.lost, found, err)
			}
			rows.done()
		}
	})
}

// TestWhatIsForgotten has values that ended at different times, one of which cannot be forgotten.
func TestWhatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := newBook()
		now := clock.Real().Now()
		for name, age := range map[string]time.Duration{"a": 5 * time.Hour, "b": 4 * time.Hour, "c": 3 * time.Hour, "d": 2 * time.Hour, "e": time.Hour} {
			one := &thing{ID: name, Ended: now.Add(-age)}
			if err := b.Put(t.Context(), one); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Bury(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		failed := errors.New("failed")
		var firsts []string
		f := control.Forget[thing]{
			Until: func(t *thing) task.Instant { return t.Ended.Add(150 * time.Minute) },
			First: func(_ context.Context, t *thing) error {
				firsts = append(firsts, t.ID)
				if t.ID == "c" {
					return failed
				}
				return nil
			},
			Last: func(a, b *thing) int { return strings.Compare(b.ID, a.ID) },
		}
		kept := func() (names string) {
			all, err := b.AllEnded(t.Context())
			if err != nil {
				t.Error(err)
			}
			for _, t := range all {
				names += t.ID
			}
			return names
		}
		if err := b.Forget(t.Context(), f); !errors.Is(err, failed) || kept() != "acde" || !slices.Equal(firsts, []string{"c", "b"}) {
			t.Errorf("%v, %s stay, first %v", err, kept(), firsts)
		}
		f.First, f.Max, f.Until = nil, 1, func(t *thing) task.Instant { return t.Ended.Add(24 * time.Hour) }
		if err := b.Forget(t.Context(), f); err != nil || kept() != "ae" {
			t.Errorf("one at most: %v, %s stay", err, kept())
		}
	})
}

// TestMembersOfANewerVersionStay rewrites a row to which a newer version has added members.
func TestMembersOfANewerVersionStay(t *testing.T) {
	k := kind()
	rows := store.New(mem.New(), store.Config{Clock: clock.Real()})
	b := control.NewBook(rows, k, clock.Real())
	made, err := k.Encode(&thing{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	made.Value = append(made.Value[:len(made.Value)-1], `,"later":{"b":2,"a":[1]}}`...)
	if err := rows.PutControl(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	got, err := b.Change(t.Context(), "a", count)
	if err == nil {
		got, err = b.ChangeFrom(t.Context(), *got, count)
	}
	if err == nil {
		_, err = b.Bury(t.Context(), got)
	}
	if err != nil {
		t.Fatal(err)
	}
	row, err := rows.Control(t.Context(), "thing-ended", "a")
	if err != nil || !strings.Contains(string(row.Value), `"later":{"b":2,"a":[1]}`) {
		t.Errorf("%s, %v", row.Value, err)
	}
	if got, err := b.Find(t.Context(), "a"); err != nil || got.Count != 2 || got.Version != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
