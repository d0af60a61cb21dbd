package inbound_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Live figures are of a whole lambda, so they are for who may read it whole.
func TestLiveFiguresAreForWhoMayReadTheLambda(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		f.accept(in(0))
		l, err := f.Catalog.Lambda("mail")
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.Live(f.ctx, l, true)
		if err != nil || s.GetDue() != 1 || s.GetTasks()["enqueued"] != 1 || s.GetPriorities()[0].Queued == nil || s.Workers != nil {
			t.Errorf("%v %v", s, err)
		}
		f.CountWorkers = func(context.Context, string) (int, error) { return 0, errors.New("the store does not answer") }
		if s, err = f.Live(f.ctx, l, false); err != nil || s.Workers != nil || s.Due != nil || len(s.HeldBy) != 0 {
			t.Errorf("what cannot be read is known: %v %v", s, err)
		}
		f.CountWorkers = func(context.Context, string) (int, error) { return 0, nil }
		if s, err = f.Live(f.ctx, l, false); err != nil || s.GetWorkers() != 0 || len(s.HeldBy) != 1 || s.HeldBy[0].Reason != "no worker" {
			t.Errorf("no worker: %v %v", s, err)
		}
		f.CountWorkers = func(context.Context, string) (int, error) { return 2, nil }
		if s, err = f.Live(f.ctx, l, false); err != nil || len(s.HeldBy) != 0 {
			t.Errorf("a task that waits for a moment: %v %v", s, err)
		}
		f.time.Advance(2 * time.Second)
		if s, err = f.Live(f.ctx, l, false); err != nil || len(s.HeldBy) != 1 || s.HeldBy[0].Reason != "busy workers" || s.HeldBy[0].Priority != "normal" {
			t.Errorf("a task that waits: %v %v", s, err)
		}
		f.as("read:mail:seven")
		if s, err = f.Live(f.ctx, l, true); s != nil || err != nil {
			t.Errorf("of one collection: %v %v", s, err)
		}
		f.as("read:mail")
		if s, err = f.Live(f.ctx, l, true); s == nil || err != nil {
			t.Errorf("of the lambda: %v %v", s, err)
		}
	})
}
