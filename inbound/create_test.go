package inbound_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// meeting wraps the store of a catalog with points at which another process may interfere.
type meeting struct {
	*store.Store

	before, after func() // a lambda is written
}

func (m meeting) PutControl(ctx context.Context, c store.Control) error {
	if c.Version > 1 {
		return m.Store.PutControl(ctx, c)
	}
	if m.before != nil {
		m.before()
	}
	err := m.Store.PutControl(ctx, c)
	if m.after != nil {
		m.after()
	}
	return err
}

// process is another process over the fixture's store.
func (f *fixture) process(config settings, before, after func()) *fixture {
	config.Catalog = catalog.New(meeting{f.store, before, after}, f.clock, slog.New(slog.DiscardHandler), catalog.Limits{})
	other := &fixture{t: f.t, ctx: f.ctx, clock: f.clock}
	config.Queue = dropping{f.queue, other}
	other.serving = newServing(config)
	return other
}

func (f *fixture) createOf(name, priority string) error {
	_, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &lambda{Name: name, Priorities: []string{priority}}})
	return err
}

// barrier makes two goroutines wait for each other.
func barrier() func() {
	var both sync.WaitGroup
	both.Add(2)
	return func() { both.Done(); both.Wait() }
}

// Two lambdas with a queue of the same name are created at one moment: each is checked when the other one is
// not there yet.
func TestLambdasWithAQueueOfOneNameAreNotBothCreated(t *testing.T) {
	twoProcesses := func(t *testing.T, test func(f *fixture, config settings)) {
		t.Helper()
		var config settings
		runWith(t, func(_ *fixture, c *settings) {
			c.Shared = true
			config = *c
		}, func(f *fixture) { test(f, config) })
	}
	t.Run("one sees the other", func(t *testing.T) {
		twoProcesses(t, func(f *fixture, config settings) {
			two := f.process(config, nil, nil)
			one := f.process(config, func() {
				if err := two.createOf("c2", "x-y"); err != nil {
					t.Error(err)
				}
			}, nil)
			var err error
			f.during(time.Minute, func() { err = one.createOf("c2-x", "y") })
			wantError(t, "the second", err, isInvalid, "would be one of lambda c2 (", "create this one again")
			f.wantLambdas("c2", "mail")
		})
	})
	t.Run("each sees the other", func(t *testing.T) {
		twoProcesses(t, func(f *fixture, config settings) {
			checked, written := barrier(), barrier()
			one, two := f.process(config, checked, written), f.process(config, checked, written)
			var errs [2]error
			f.during(time.Minute, func() {
				var both sync.WaitGroup
				both.Go(func() { errs[0] = one.createOf("c2-x", "y") })
				both.Go(func() { errs[1] = two.createOf("c2", "x-y") })
				both.Wait()
			})
			wantError(t, "c2-x", errs[0], isInvalid, "would be one of lambda c2 (")
			wantError(t, "c2", errs[1], isInvalid, "would be one of lambda c2-x (")
			f.wantLambdas("mail")
			if err := f.createOf("c2", "x-y"); err != nil {
				t.Errorf("again: %v", err)
			}
		})
	})
}

func (f *fixture) wantLambdas(want ...string) {
	f.t.Helper()
	if err := f.Catalog.Refresh(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	var have []string
	for _, entry := range f.Catalog.All() {
		have = append(have, entry.Name)
	}
	if !slices.Equal(have, want) {
		f.t.Errorf("lambdas %q, want %q", have, want)
	}
}

// A lambda that is there keeps its queues as they are, and no queues are made for one that is refused.
func TestALambdaInAnotherFormMakesNoQueues(t *testing.T) {
	run(t, func(f *fixture) {
		for _, other := range []*lambda{{Name: "mail", Shards: 2, Priorities: []string{"one"}}, {Name: "mail", Shards: 2, Mode: "deliver"}} {
			_, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: other})
			wantError(t, fmt.Sprint(other), err, kinesinv1.Reason_REASON_EXISTS, "mail")
		}
		if _, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &lambda{Name: "mail", Shards: 2}}); err != nil {
			t.Error(err)
		}
		f.note(func() {
			if !slices.Equal(f.made, []string{"mail"}) {
				t.Errorf("queues of %q were asked for", f.made)
			}
		})
	})
}

// inOtherMode is a queue that a lambda in the other mode left.
type inOtherMode struct {
	dropping

	left *bool
}

func (q inOtherMode) refusal() error {
	if *q.left {
		return fmt.Errorf("%w: p-bills-normal has 3 messages", queue.ErrOtherMode)
	}
	return nil
}

func (q inOtherMode) Missing(context.Context, task.Lambda) (names []string, err error) {
	q.f.note(func() { err = q.refusal() })
	return nil, err
}

func (q inOtherMode) Provision(context.Context, task.Lambda) (err error) {
	q.f.note(func() { err = q.refusal() })
	return err
}

func TestALambdaWhoseQueueIsOfTheOtherModeWaits(t *testing.T) {
	left := true
	r := &registering{}
	runWith(t, func(f *fixture, c *settings) {
		c.Shared, c.Queue = true, inOtherMode{dropping{f.queue, f}, &left}
		c.Registered = func(_ context.Context, lambda, outcome string, err error) {
			r.note(func() { r.told, r.errs = append(r.told, strings.TrimSpace(lambda+" "+outcome)), append(r.errs, err) })
		}
	}, func(f *fixture) {
		r.fixture = f
		_, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &lambda{Name: "calls"}})
		wantError(t, "by a call", err, kinesinv1.Reason_REASON_IN_USE, "in the other mode: p-bills-normal has 3 messages")
		r.start()
		r.put("bills", `{"format":2}`)
		f.time.Advance(time.Minute)
		r.wantTold("bills waiting")
		f.note(func() { left = false })
		f.time.Advance(10 * time.Second)
		r.wantTold("bills created")
		r.stop()
	})
}
