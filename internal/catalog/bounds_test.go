package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// shaped is a lambda with two priorities.
func shaped(name string, shards uint16) task.Lambda {
	return task.Lambda{Name: name, Priorities: []string{"a", "b"}, Shards: shards}
}

func (f *fixture) wantBound(err error, says ...string) {
	f.t.Helper()
	if !errors.Is(err, task.ErrInvalid) {
		f.t.Errorf("%v, want %v", err, task.ErrInvalid)
		return
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			f.t.Errorf("%q does not say %q", err, part)
		}
	}
}

// refused is the error of creating a lambda.
func (f *fixture) refused(l task.Lambda) error {
	_, _, err := f.Create(f.ctx, l)
	return err
}

// grown is the error of giving a lambda more shards.
func (f *fixture) grown(name string, shards uint16) error {
	_, err := f.Update(f.ctx, name, func(l *task.Lambda) error { return l.Grow(shards, f.GrownFrom()) })
	return err
}

func TestAnInstallationHasBounds(t *testing.T) {
	f := newFixture(t)
	f.Bounds = catalog.Bounds{Lambdas: 3, LambdaPartitions: 8, Partitions: 12}
	f.wantBound(f.refused(shaped("wide", 5)), "wide", "5 shards for each of 2 priorities are 10 partitions", "may have 8", "--lambda-partitions-max")
	f.create(shaped("one", 4))
	f.create(shaped("two", 1))
	f.wantBound(f.refused(shaped("three", 2)), "its 4 partitions", "would have 14", "may have 12 together", "--partitions-max")
	f.wantBound(f.grown("two", 3), "would have 14")
	f.wantBound(f.grown("one", 5), "10 partitions")
	if err := f.grown("two", 2); err != nil {
		t.Errorf("up to the bound: %v", err)
	}
	f.Bounds.Partitions = 0
	f.create(shaped("three", 1))
	f.wantBound(f.refused(shaped("four", 1)), "four", "there are 3 lambdas", "may have 3", "--lambdas-max")
}

// An installation of yesterday may be far beyond the bounds of today.
func TestWhatExistsIsKept(t *testing.T) {
	f := newFixture(t)
	f.create(shaped("one", 100))
	f.create(shaped("two", 100))
	f.Bounds = catalog.Bounds{Lambdas: 1, LambdaPartitions: 8, Partitions: 10}
	if _, duplicate, err := f.Create(f.ctx, shaped("one", 100)); err != nil || !duplicate {
		t.Errorf("the same again: duplicate %v, %v", duplicate, err)
	}
	if _, err := f.Update(f.ctx, "one", func(l *task.Lambda) error { l.MaxAttempts = 7; return nil }); err != nil {
		t.Errorf("another setting: %v", err)
	}
	two := shaped("two", 0).WithDefaults()
	two.Shards = 0 // as many as there are
	if _, _, err := f.Register(f.ctx, catalog.Registration{Lambda: two, Sum: "s"}); err != nil {
		t.Errorf("registered: %v", err)
	}
	f.wantBound(f.grown("one", 101), "--lambda-partitions-max")
}

// Calls at the same moment pass no bound together.
func TestBoundsHoldForCallsAtOnce(t *testing.T) {
	f := newFixture(t)
	f.Bounds = catalog.Bounds{Partitions: 10}
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() { _ = f.refused(shaped(fmt.Sprint("l", i), 1)) })
	}
	calls.Wait()
	if n := len(f.Partitions()); n != 10 {
		t.Errorf("%d partitions, want 10", n)
	}
}
