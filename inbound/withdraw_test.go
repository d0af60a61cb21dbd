package inbound_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// begin runs something that ends with the context, and returns how to end it.
func (f *fixture) begin(runs ...func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, len(runs))
	for _, run := range runs {
		go func() { ended <- run(ctx) }()
	}
	synctest.Wait()
	return func() {
		cancel()
		for range runs {
			if err := <-ended; err != nil {
				f.t.Error(err)
			}
		}
	}
}

// TestSeveralServersDeleteAWithdrawnLambda has servers whose rounds are a while apart, so that one begins
// while another waits.
func TestSeveralServersDeleteAWithdrawnLambda(t *testing.T) {
	for _, servers := range []int{2, 3} {
		for _, apart := range []time.Duration{10 * time.Millisecond, time.Second, 2500 * time.Millisecond, 4 * time.Second} {
			t.Run(fmt.Sprintf("%d/%v", servers, apart), func(t *testing.T) { withServers(t, servers, apart) })
		}
	}
}

func withServers(t *testing.T, servers int, apart time.Duration) {
	t.Helper()
	var config settings
	runWith(t, func(_ *fixture, c *settings) { c.Shared, config = true, *c }, func(f *fixture) {
		told := make([][]string, servers)
		for i := range servers {
			c := config
			c.Shared = true
			c.Catalog = catalog.New(f.store, f.clock, slog.New(slog.DiscardHandler), catalog.Limits{})
			c.Registered = func(_ context.Context, lambda, outcome string, err error) {
				if err != nil {
					outcome += ": " + err.Error()
				}
				f.note(func() { told[i] = append(told[i], lambda+" "+outcome) })
			}
			defer f.begin(c.Catalog.Run, newServing(c).Register)()
			f.time.Advance(apart)
		}
		r := &registering{fixture: f}
		r.put("idle", `{"format":2}`)
		f.time.Advance(10 * time.Second)
		f.note(func() { clear(told) })
		r.withdraw("idle")
		f.time.Advance(90 * time.Second)
		if err := f.Catalog.Refresh(f.ctx); err != nil {
			t.Fatal(err)
		}
		if l, err := f.Catalog.Lambda("idle"); !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("still there: %+v, %v", l, err)
		}
		f.time.Advance(10 * time.Minute)
		f.note(func() {
			all := slices.Concat(told...)
			if len(all) == 0 || slices.ContainsFunc(all, func(s string) bool { return s != "idle deleted" }) {
				t.Errorf("told %q", told)
			}
			for i := range told {
				if len(told[i]) > 1 {
					t.Errorf("server %d told %q", i, told[i])
				}
			}
		})
		r.put("idle", `{"format":2}`)
		f.time.Advance(10 * time.Second)
		if p := f.schedule(&kinesinv1.ScheduleItem{Lambda: "idle"})[0].Problem; p != nil {
			t.Errorf("registered again: %v", p)
		}
	})
}

// TestARegistrationComesBackWhileItsLambdaIsDeleted has it come back at every second of the deletion.
func TestARegistrationComesBackWhileItsLambdaIsDeleted(t *testing.T) {
	for after := 55 * time.Second; after < 75*time.Second; after += time.Second {
		runRegister(t, func(f *registering) {
			f.put("idle", `{"format":2}`)
			f.time.Advance(10 * time.Second)
			f.withdraw("idle")
			f.time.Advance(after)
			f.put("idle", `{"format":2,"max_attempts":4}`)
			f.time.Advance(20 * time.Second)
			l, err := f.Catalog.Lambda("idle")
			if err != nil || l.Deleting || l.MaxAttempts != 4 {
				t.Errorf("%v: %+v, %v", after, l, err)
			}
			f.note(func() {
				if slices.ContainsFunc(f.told, func(s string) bool { return strings.Contains(s, "kept") || strings.Contains(s, "refused") }) {
					t.Errorf("%v: told %q %v", after, f.told, f.errs)
				}
			})
		})
	}
}

// TestAServerIsKilledWhileItDeletesAWithdrawnLambda has another server find the lambda half deleted.
func TestAServerIsKilledWhileItDeletesAWithdrawnLambda(t *testing.T) {
	for name, test := range map[string]func(f *registering){
		"registered again": func(f *registering) {
			f.put("idle", `{"format":2}`)
			f.start()
			f.time.Advance(10 * time.Second)
			f.wantTold("idle changed")
			if p := f.schedule(&kinesinv1.ScheduleItem{Lambda: "idle"})[0].Problem; p != nil {
				f.t.Error(p)
			}
		},
		"withdrawn as before": func(f *registering) {
			f.start()
			f.time.Advance(2 * time.Minute)
			f.wantTold("idle deleted")
		},
		"deleted by a call": func(f *registering) {
			f.start()
			f.during(10*time.Second, func() {
				if _, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "idle"}); err != nil {
					f.t.Error(err)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			runRegister(t, func(f *registering) {
				f.put("idle", `{"format":2}`)
				f.time.Advance(10 * time.Second)
				f.wantTold("idle created")
				f.withdraw("idle")
				f.stop()
				if _, err := f.Catalog.Update(f.ctx, "idle", func(l *task.Lambda) error { l.Deleting = true; return nil }); err != nil {
					t.Fatal(err)
				}
				test(f)
			})
		})
	}
}

// TestAStopWhileAWithdrawnLambdaIsDeleted takes the deletion back.
func TestAStopWhileAWithdrawnLambdaIsDeleted(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("idle", `{"format":2}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("idle created")
		f.withdraw("idle")
		f.untilDeleting("idle")
		f.stop()
		f.wantTold()
		if l, err := f.Catalog.Lambda("idle"); err != nil || l.Deleting {
			t.Errorf("%+v, %v", l, err)
		}
		f.start()
	})
}

func (f *registering) untilDeleting(lambda string) {
	f.t.Helper()
	for range 120 {
		if l, err := f.Catalog.Lambda(lambda); err == nil && l.Deleting {
			return
		}
		f.time.Advance(time.Second)
	}
	f.t.Fatalf("%s is not deleted", lambda)
}

// many registers n lambdas and returns their names.
func (f *registering) many(n int) (names []string) {
	f.t.Helper()
	for i := range n {
		names = append(names, fmt.Sprintf("lambda-%02d", i))
		f.put(names[i], `{"format":2}`)
	}
	f.time.Advance(10 * time.Second)
	f.note(func() { f.told, f.errs = nil, nil })
	return names
}

func (f *registering) withdrawAll(names []string) {
	for _, name := range names {
		f.withdraw(name)
	}
}

// left returns how many of those lambdas exist.
func (f *registering) left(names []string) (n int) {
	for _, name := range names {
		if _, err := f.Catalog.Lambda(name); err == nil {
			n++
		}
	}
	return n
}

// TestWithdrawalsDoNotDelayOthers has many lambdas to delete, which takes seconds for each.
func TestWithdrawalsDoNotDelayOthers(t *testing.T) {
	runRegister(t, func(f *registering) {
		names := f.many(80)
		f.withdrawAll(names[:39])
		f.untilDeleting(names[0])
		f.put("new", `{"format":2}`)
		f.time.Advance(6 * time.Second)
		f.note(func() {
			if !slices.Contains(f.told, "new created") {
				t.Errorf("told %q, want that the new one was created", f.told)
			}
		})
		f.time.Advance(5 * time.Minute)
		if n := f.left(names); n != 41 {
			t.Errorf("%d are left, want 41", n)
		}
		if n := f.left(names[:39]); n != 0 {
			t.Errorf("%d of the withdrawn are left", n)
		}
	})
}

// TestMostRegistrationsAreGoneAtOnce is a table that was emptied, or restored without them.
func TestMostRegistrationsAreGoneAtOnce(t *testing.T) {
	runRegister(t, func(f *registering) {
		names := f.many(12)
		f.withdrawAll(names[:4])
		f.time.Advance(20 * time.Second)
		f.withdrawAll(names[4:7])
		f.time.Advance(9 * time.Minute)
		f.note(func() {
			if len(f.errs) != 1 || f.errs[0] == nil || !strings.Contains(f.errs[0].Error(), "7 of 12") {
				t.Errorf("told %v", f.errs)
			}
		})
		f.wantTold("held") // once, and early
		if n := f.left(names); n != 12 {
			t.Errorf("%d are left after 9 min, want all", n)
		}
		for _, name := range names[:7] {
			f.put(name, `{"format":2}`)
		}
		f.time.Advance(10 * time.Minute)
		f.wantTold()

		f.withdrawAll(names[:7])
		f.time.Advance(12 * time.Minute)
		if n := f.left(names); n != 5 {
			t.Errorf("%d are left, want 5", n)
		}
		f.note(func() { f.told, f.errs = nil, nil })
		f.withdrawAll(names[7:]) // few enough to be meant
		f.time.Advance(2 * time.Minute)
		if n := f.left(names); n != 0 {
			t.Errorf("%d are left, want none", n)
		}
	})
}

// TestALambdaMadeAgainIsNotWithdrawn has the name of a withdrawn lambda taken by a call while others are
// deleted before it.
func TestALambdaMadeAgainIsNotWithdrawn(t *testing.T) {
	runRegister(t, func(f *registering) {
		names := f.many(4)
		f.withdrawAll(names)
		f.untilDeleting(names[0])
		last := names[3]
		f.during(7*time.Second, func() {
			if _, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: last}); err != nil {
				t.Error(err)
			}
			if _, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &lambda{Name: last}}); err != nil {
				t.Error(err)
			}
		})
		f.time.Advance(2 * time.Minute)
		f.wantTold(names[0]+" deleted", names[1]+" deleted", names[2]+" deleted")
		if l, err := f.Catalog.Lambda(last); err != nil || l.Deleting {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

// TestALambdaIsKeptForOneTask looks no further than to the first task, round after round.
func TestALambdaIsKeptForOneTask(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("idle", `{"format":2,"shards":64}`)
		f.time.Advance(10 * time.Second)
		for range 200 { // some in every few shards
			f.accept(&kinesinv1.ScheduleItem{Lambda: "idle", Priority: "high", Delay: time.Hour.Microseconds()})
		}
		f.withdraw("idle")
		f.time.Advance(50 * time.Second)
		f.note(func() { f.told, f.errs = nil, nil })
		before := f.rows.scanned()
		f.time.Advance(5 * time.Minute)
		f.wantTold("idle kept")
		if n := f.rows.scanned() - before; n > 5*2*8 {
			t.Errorf("%d scans in 5 min", n)
		}
	})
}
