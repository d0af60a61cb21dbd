package catalog_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func registration(t *testing.T, value string) catalog.Registration {
	t.Helper()
	r, err := lambdas.ParseRegistration(store.Control{Kind: catalog.RegistrationKind, Name: "mail", Version: 1, Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRegister has a lambda made and changed by registrations and by calls.
func TestRegister(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	s := store.New(mem.New(), store.Config{Clock: c})
	lambdas := catalog.New(s, c, slog.New(slog.DiscardHandler), catalog.Limits{})
	first, second := registration(t, `{"format":2,"shards":3,"max_attempts":3}`), registration(t, `{"format":2,"shards":3,"max_attempts":5,"priority_weights":{"high":4}}`)

	made, created, err := lambdas.Register(t.Context(), first)
	if err != nil || !created || made.MaxAttempts != 3 || made.Ref == 0 || made.Registration != first.Sum {
		t.Fatalf("created %+v %v, %v", made, created, err)
	}
	if _, duplicate, err := lambdas.Create(t.Context(), first.Lambda); err != nil || !duplicate {
		t.Errorf("the same by a call: duplicate %v, %v", duplicate, err)
	}
	changed, err := lambdas.Update(t.Context(), "mail", func(l *task.Lambda) error { l.MaxAttempts = 9; return nil })
	if err != nil || changed.Registration != first.Sum {
		t.Fatalf("a change by a call: %+v, %v", changed, err)
	}
	again, created, err := lambdas.Register(t.Context(), second)
	if err != nil || created || again.MaxAttempts != 5 || !slices.Equal(again.PriorityWeights, []uint16{4, 1, 1}) || again.Registration != second.Sum || again.Ref != made.Ref || again.Created != made.Created {
		t.Errorf("changed %+v %v, %v", again, created, err)
	}
	for _, value := range []string{`{"format":2,"mode":"deliver"}`, `{"format":2,"shards":2}`, `{"format":2,"priorities":["normal"]}`} {
		if _, _, err := lambdas.Register(t.Context(), registration(t, value)); !errors.Is(err, catalog.ErrFixed) {
			t.Errorf("%s: %v, want ErrFixed", value, err)
		}
	}
	if _, err := lambdas.Update(t.Context(), "mail", func(l *task.Lambda) error { l.MaxAttempts = 11; return nil }); err != nil {
		t.Fatal(err)
	}
	again, created, err = lambdas.Register(t.Context(), second) // as one does who did not know yet that another one had
	if err != nil || created || again.MaxAttempts != 11 {
		t.Errorf("the same once more: %+v %v, %v; want what the call changed", again, created, err)
	}
	if l, err := lambdas.Lambda("mail"); err != nil || l.Version != again.Version {
		t.Errorf("a refused registration changed it: %+v, %v", l, err)
	}
}

// TestRegisterTakesOver has a lambda that a call made become that of a registration.
func TestRegisterTakesOver(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	s := store.New(mem.New(), store.Config{Clock: c})
	lambdas := catalog.New(s, c, slog.New(slog.DiscardHandler), catalog.Limits{})
	made, _, err := lambdas.Create(t.Context(), task.Lambda{Name: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	same := registration(t, `{"format":2}`)
	taken, created, err := lambdas.Register(t.Context(), same)
	if err != nil || created || taken.Ref != made.Ref || taken.Registration != same.Sum {
		t.Errorf("%+v %v, %v", taken, created, err)
	}
}

// TestRegisterTakesADeletionBack has a registration come back while its lambda is deleted, or after whoever
// did so was killed.
func TestRegisterTakesADeletionBack(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	s := store.New(mem.New(), store.Config{Clock: c})
	lambdas := catalog.New(s, c, slog.New(slog.DiscardHandler), catalog.Limits{})
	for what, back := range map[string]string{"the same": `{"format":2,"shards":3}`, "changed": `{"format":2,"shards":4,"max_attempts":5}`} {
		made, _, err := lambdas.Register(t.Context(), registration(t, `{"format":2,"shards":3}`))
		if err != nil {
			t.Fatal(err)
		}
		deleting, err := lambdas.Update(t.Context(), "mail", func(l *task.Lambda) error { l.Deleting = true; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := lambdas.Register(t.Context(), registration(t, `{"format":2,"shards":2}`)); !errors.Is(err, catalog.ErrFixed) {
			t.Errorf("%s: another one than it was: %v, want ErrFixed", what, err)
		}
		r := registration(t, back)
		again, created, err := lambdas.Register(t.Context(), r)
		if err != nil || created || again.Deleting || again.Ref != made.Ref || again.MaxAttempts != r.MaxAttempts || again.Registration != r.Sum {
			t.Errorf("%s: %+v %v, %v", what, again, created, err)
		}
		if err := lambdas.Remove(t.Context(), deleting); !errors.Is(err, catalog.ErrChanged) {
			t.Errorf("%s: who was still at it: %v, want ErrChanged", what, err)
		}
		if err := lambdas.Remove(t.Context(), again); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFits says what a registration that does not fit is refused with, and that what a lambda was made of
// fits, whatever defaults are.
func TestFits(t *testing.T) {
	r := registration(t, `{"format":2,"shards":3}`)
	byCall := catalog.Entry{Lambda: task.Lambda{Name: "mail", Shards: 5}.WithDefaults()}
	registered, same := byCall, byCall
	registered.Registration, same.Registration = "another", r.Sum
	if err := r.Fits(&same); err != nil {
		t.Errorf("what it was made of: %v", err)
	}
	if err := r.Fits(&catalog.Entry{Lambda: r.Lambda}); err != nil {
		t.Errorf("the same settings: %v", err)
	}
	for want, have := range map[string]*catalog.Entry{
		"delete it, and it is created anew of this registration":        &byCall,
		"put the registration back; or wait until it has no live tasks": &registered,
	} {
		err := r.Fits(have)
		if !errors.Is(err, catalog.ErrFixed) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "shards 3, and mail has mode managed") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestTheSameInOtherWordsChangesNothing has a lambda, which a call changed since, meet the registration that it was made
// of in other words, and then another.
func TestTheSameInOtherWordsChangesNothing(t *testing.T) {
	one, two := registration(t, `{"format":2,"max_attempts":3,"timeout":"60s"}`), registration(t, `{"timeout":"1m","max_attempts":3,"format":2}`)
	c := clock.NewVirtual(start, 1).Process(0)
	s := store.New(mem.New(), store.Config{Clock: c})
	known := catalog.New(s, c, slog.New(slog.DiscardHandler), catalog.Limits{})
	if _, _, err := known.Register(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	changed, err := known.Update(t.Context(), "mail", func(l *task.Lambda) error { l.MaxAttempts = 9; return nil })
	if err != nil || changed.Registration != one.Sum {
		t.Fatalf("%+v, %v", changed, err)
	}
	if again, _, err := known.Register(t.Context(), two); err != nil || again.Version != changed.Version || again.MaxAttempts != 9 {
		t.Errorf("the same made it %+v, %v", again, err)
	}
	other := registration(t, `{"format":2,"max_attempts":4,"timeout":"1m"}`)
	next, _, err := known.Register(t.Context(), other)
	if err != nil || next.MaxAttempts != 4 || next.Registration != other.Sum {
		t.Errorf("another one made it %+v, %v", next, err)
	}
	if back, _, err := known.Register(t.Context(), one); err != nil || back.MaxAttempts != 3 || back.Registration != one.Sum {
		t.Errorf("the first one made it %+v, %v", back, err)
	}
}
