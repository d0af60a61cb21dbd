package inbound_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	before = `{"format":2,"priorities":["x","y"]}` // and destroyed
	after  = `{"format":2,"priorities":["z"]}`     // and not what a lambda of before can become
)

// outgrow has lambda idle be made, and its registration come back at once with other priorities.
func (f *registering) outgrow() (made *catalog.Entry) {
	f.t.Helper()
	f.put("idle", before)
	f.time.Advance(10 * time.Second)
	f.wantTold("idle created")
	made, err := f.Catalog.Lambda("idle")
	if err != nil {
		f.t.Fatal(err)
	}
	f.put("idle", after)
	return made
}

// wantIdle checks which of its registrations lambda idle is made of.
func (f *registering) wantIdle(priorities string) *catalog.Entry {
	f.t.Helper()
	if err := f.Catalog.Refresh(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	l, err := f.Catalog.Lambda("idle")
	if err != nil {
		f.t.Fatal(err)
	}
	if l.Deleting || strings.Join(l.Priorities, ",") != priorities {
		f.t.Errorf("%+v, want priorities %s", l, priorities)
	}
	return l
}

// wantShown checks what get and list say of the registration of a lambda's name.
func (f *registering) wantShown(name string, registered bool, refused ...string) {
	f.t.Helper()
	got, err := f.GetLambda(f.ctx, &kinesinv1.GetLambdaRequest{Name: name})
	if err != nil {
		f.t.Errorf("get: %v", err)
		return
	}
	all, err := f.ListLambdas(f.ctx, &kinesinv1.ListLambdasRequest{})
	if err != nil {
		f.t.Errorf("list: %v", err)
		return
	}
	at := slices.IndexFunc(all.Lambdas, func(l *lambda) bool { return l.Name == name })
	for _, l := range []*lambda{got.Lambda, all.Lambdas[at]} {
		if l.Registered != registered || l.Withdrawn || (l.RegistrationRefused == "") != (len(refused) == 0) {
			f.t.Errorf("%v, want refused %q", l, refused)
		}
		for _, word := range refused {
			if !strings.Contains(l.RegistrationRefused, word) {
				f.t.Errorf("%v, want %q", l, word)
			}
		}
	}
}

// TestALambdaMakesWayForItsRegistration is a lambda that is destroyed and comes back within seconds with
// other priorities.
func TestALambdaMakesWayForItsRegistration(t *testing.T) {
	runRegister(t, func(f *registering) {
		made := f.outgrow()
		f.time.Advance(10 * time.Second)
		f.wantTold("idle refused")
		f.wantStates(map[string]int{"refused": 1})
		f.wantShown("idle", true, "fixed at creation", "wants mode managed, priorities z", "has mode managed, priorities x,y", "put the registration back")
		f.time.Advance(40 * time.Second)
		if l := f.wantIdle("x,y"); l.Ref != made.Ref {
			t.Error("deleted before a minute was over")
		}
		f.time.Advance(time.Minute)
		f.wantTold("idle deleted", "idle created")
		f.wantStates(map[string]int{"taken": 1})
		if l := f.wantIdle("z"); l.Ref == made.Ref {
			t.Error("the same reference")
		}
		f.wantShown("idle", true)
		f.accept(&kinesinv1.ScheduleItem{Lambda: "idle", Priority: "z", Delay: time.Minute.Microseconds()})
	})
}

// TestALambdaWithTasksMakesNoWay has tasks end, or be given up, before it does.
func TestALambdaWithTasksMakesNoWay(t *testing.T) {
	for name, end := range map[string]func(f *registering, id string){
		"ended": func(f *registering, id string) { f.cancel(id) },
		"dropped": func(f *registering, _ string) {
			f.during(10*time.Second, func() {
				got, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "idle", DropTasks: true})
				if err != nil || got.Dropped != 1 {
					f.t.Errorf("%v, %v", got, err)
				}
			})
		},
		"wanted again": func(f *registering, _ string) { f.put("idle", before) },
	} {
		t.Run(name, func(t *testing.T) {
			runRegister(t, func(f *registering) {
				made := f.outgrow()
				id := f.accept(&kinesinv1.ScheduleItem{Lambda: "idle", Priority: "x", Delay: time.Hour.Microseconds()})
				f.time.Advance(10 * time.Minute)
				f.note(func() {
					if last := f.errs[len(f.errs)-1]; !strings.Contains(last.Error(), "still there: lambda idle has live tasks") {
						t.Errorf("told %v", f.errs)
					}
				})
				f.wantTold("idle refused", "idle refused") // and what keeps it, once
				f.wantStates(map[string]int{"refused": 1})
				if l := f.wantIdle("x,y"); l.Ref != made.Ref {
					t.Error("another lambda")
				}
				end(f, id)
				f.time.Advance(2 * time.Minute)
				f.wantStates(map[string]int{"taken": 1})
				if name == "wanted again" {
					f.wantTold("idle well")
					f.wantIdle("x,y")
					if got := f.get(id); got.Task == nil || got.Task.State != task.Scheduled.String() {
						t.Errorf("its task: %v", got)
					}
					return
				}
				f.wantIdle("z")
			})
		})
	}
}

// TestALambdaMakesNoWayForOneThatCannotBe keeps what there is while queues of the next are missing.
func TestALambdaMakesNoWayForOneThatCannotBe(t *testing.T) {
	runRegister(t, func(f *registering) {
		made := f.outgrow()
		f.note(func() { f.missing = []string{"p-idle-z"} })
		f.time.Advance(10 * time.Minute)
		f.note(func() {
			if last := f.errs[len(f.errs)-1]; !strings.Contains(last.Error(), "still there: queues are not there yet: p-idle-z") {
				t.Errorf("told %v", f.errs)
			}
		})
		f.wantTold("idle refused", "idle refused")
		if l := f.wantIdle("x,y"); l.Ref != made.Ref || l.Version != made.Version {
			t.Errorf("it was touched: %+v", l)
		}
		f.note(func() { f.missing = nil })
		f.time.Advance(2 * time.Minute)
		f.wantTold("idle deleted", "idle created")
		f.wantIdle("z")
	})
}

// TestWhatIsScheduledWhileALambdaMakesWayIsNotLost schedules at every half second around the deletion.
func TestWhatIsScheduledWhileALambdaMakesWayIsNotLost(t *testing.T) {
	kept, refused, taken := 0, 0, 0
	for after := 55 * time.Second; after < 80*time.Second; after += 500 * time.Millisecond {
		runRegister(t, func(f *registering) {
			made := f.outgrow()
			f.time.Advance(after)
			priority := "x"
			if l, err := f.Catalog.Lambda("idle"); err == nil && l.Ref != made.Ref {
				priority = "z"
			}
			r := f.schedule(&kinesinv1.ScheduleItem{Lambda: "idle", Priority: priority, Delay: time.Hour.Microseconds()})[0]
			f.time.Advance(5 * time.Minute)
			if r.Problem != nil {
				refused++
				f.wantIdle("z")
				return
			}
			got := f.get(r.Id)
			if got.Task == nil || got.Task.State != task.Scheduled.String() {
				t.Errorf("after %v: accepted, and now %v", after, got)
			}
			if l := f.wantIdle(map[string]string{"x": "x,y", "z": "z"}[priority]); l.Ref == made.Ref {
				kept++
			} else {
				taken++
			}
		})
	}
	if kept == 0 || refused == 0 || taken == 0 {
		t.Errorf("%d kept the lambda, %d were refused, %d came to the next: want some of each", kept, refused, taken)
	}
}

// TestTheFirstRegistrationComesBackWhileItsLambdaMakesWay has it be as before at every second of the
// deletion.
func TestTheFirstRegistrationComesBackWhileItsLambdaMakesWay(t *testing.T) {
	for after := 55 * time.Second; after < 75*time.Second; after += time.Second {
		runRegister(t, func(f *registering) {
			f.outgrow()
			f.time.Advance(after)
			made, err := f.Catalog.Lambda("idle")
			f.put("idle", before)
			f.time.Advance(20 * time.Second)
			switch {
			case err == nil && slices.Equal(made.Priorities, []string{"z"}): // too late: it is the next one's turn to make way
				f.wantIdle("z")
				f.wantStates(map[string]int{"refused": 1})
				f.time.Advance(2 * time.Minute)
			case err == nil && !made.Deleting:
				if l := f.wantIdle("x,y"); l.Ref != made.Ref {
					t.Errorf("%v: another lambda", after)
				}
			}
			f.wantIdle("x,y")
			f.wantStates(map[string]int{"taken": 1})
		})
	}
}

// TestAServerIsKilledWhileALambdaMakesWay has another server find the lambda half deleted.
func TestAServerIsKilledWhileALambdaMakesWay(t *testing.T) {
	for name, c := range map[string]struct {
		back string
		want string
	}{"as it was": {after, "z"}, "with the first registration back": {before, "x,y"}} {
		t.Run(name, func(t *testing.T) {
			runRegister(t, func(f *registering) {
				f.outgrow()
				f.stop()
				if _, err := f.Catalog.Update(f.ctx, "idle", func(l *task.Lambda) error { l.Deleting = true; return nil }); err != nil {
					t.Fatal(err)
				}
				f.put("idle", c.back)
				f.start()
				f.time.Advance(2 * time.Minute)
				f.wantIdle(c.want)
			})
		})
	}
}

// TestSeveralServersHaveALambdaMakeWay has servers whose rounds are a while apart, so that one deletes what
// another makes anew.
func TestSeveralServersHaveALambdaMakeWay(t *testing.T) {
	for _, apart := range []time.Duration{10 * time.Millisecond, time.Second, 2500 * time.Millisecond, 4 * time.Second} {
		t.Run(apart.String(), func(t *testing.T) {
			const servers = 3
			var config settings
			runWith(t, func(_ *fixture, c *settings) { c.Shared = true; config = *c }, func(f *fixture) {
				var told []string
				for range servers {
					c := config
					c.Catalog = catalog.New(f.store, f.clock, slog.New(slog.DiscardHandler), catalog.Limits{})
					c.Registered = func(_ context.Context, _, outcome string, err error) {
						f.note(func() { told = append(told, fmt.Sprint(outcome, " ", err)) })
					}
					defer f.begin(c.Catalog.Run, newServing(c).Register)()
					f.time.Advance(apart)
				}
				r := &registering{fixture: f}
				r.put("idle", before)
				f.time.Advance(10 * time.Second)
				made := r.wantIdle("x,y")
				r.put("idle", after)
				f.time.Advance(2 * time.Minute)
				next := r.wantIdle("z")
				f.note(func() { told = nil })
				f.time.Advance(10 * time.Minute)
				if l := r.wantIdle("z"); l.Ref != next.Ref || l.Version != next.Version || l.Ref == made.Ref {
					t.Errorf("%+v, then %+v, then %+v", made, next, l)
				}
				f.note(func() {
					if len(told) != 0 {
						t.Errorf("told %q", told)
					}
				})
			})
		})
	}
}

// TestALambdaOfACallMakesNoWay: servers delete only what they made.
func TestALambdaOfACallMakesNoWay(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("mail", `{"format":2,"shards":1}`)
		f.time.Advance(time.Hour)
		f.wantTold("mail refused")
		if l, err := f.Catalog.Lambda("mail"); err != nil || l.Ref != f.lambda.Ref {
			t.Errorf("%+v, %v", l, err)
		}
		f.wantShown("mail", false, "fixed at creation", "delete it, and it is created anew")
		f.during(10*time.Second, func() {
			if _, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail"}); err != nil {
				t.Error(err)
			}
		})
		f.time.Advance(10 * time.Second)
		f.wantTold("mail created")
		f.wantShown("mail", true)
	})
}

// TestManyLambdasMakeNoWayAtOnce holds them as if their registrations were gone.
func TestManyLambdasMakeNoWayAtOnce(t *testing.T) {
	runRegister(t, func(f *registering) {
		names := f.many(12)
		for _, name := range names[:7] {
			f.put(name, `{"format":2,"priorities":["one"]}`)
		}
		f.time.Advance(9 * time.Minute)
		f.wantStates(map[string]int{"taken": 5, "refused": 7})
		f.note(func() {
			if !slices.Contains(f.told, "held") || slices.Contains(f.told, names[0]+" deleted") {
				t.Errorf("told %q", f.told)
			}
		})
		f.time.Advance(5 * time.Minute)
		f.wantStates(map[string]int{"taken": 12})
	})
}

// unreadable makes the registrations of these names unreadable.
func (f *registering) unreadable(names ...string) {
	f.rows.mu.Lock()
	defer f.rows.mu.Unlock()
	f.rows.unreadable = map[string]error{}
	for _, name := range names {
		f.rows.unreadable[name] = fmt.Errorf("%w: control row registration %q has format 2", store.ErrVersion, name)
	}
}

func (w *watched) why(kind, name string) error {
	if kind != catalog.RegistrationKind {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unreadable[name]
}

func (w *watched) Control(ctx context.Context, kind, name string) (store.Control, error) {
	if err := w.why(kind, name); err != nil {
		return store.Control{}, err
	}
	return w.Store.Control(ctx, kind, name)
}

func (w *watched) ControlsOmitted(ctx context.Context, kind string) ([]store.Control, map[string]error, error) {
	rows, _, err := w.Store.ControlsOmitted(ctx, kind)
	rows = slices.DeleteFunc(rows, func(c store.Control) bool { return w.why(kind, c.Name) != nil })
	w.mu.Lock()
	defer w.mu.Unlock()
	return rows, maps.Clone(w.unreadable), err
}

// TestARegistrationThatCannotBeReadIsRefused, of a lambda and of none.
func TestARegistrationThatCannotBeReadIsRefused(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("idle", before)
		f.put("mail", `{"format":2,"shards":2}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("idle created", "mail changed")
		f.put("none", before)
		f.unreadable("idle", "none")
		f.time.Advance(time.Hour)
		f.wantTold("idle refused", "none refused") // once, not with every round
		f.wantStates(map[string]int{"taken": 1, "refused": 2})
		f.wantShown("mail", true)
		f.wantShown("idle", true, "newer version", "format 2")
		f.wantIdle("x,y")
		_, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "idle", DropTasks: true})
		if !errors.Is(err, api.ErrRegistered) || !strings.Contains(err.Error(), "forget idle") || !strings.Contains(err.Error(), "format 2") {
			t.Errorf("deleted: %v, want ErrRegistered", err)
		}
		if _, err := f.UpdateLambda(f.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: &lambda{Name: "idle", MaxAttempts: 3}})); err != nil {
			t.Errorf("update: %v", err)
		}
		f.unreadable()
		f.time.Advance(10 * time.Second)
		f.wantTold("idle well", "none created")
		f.wantStates(map[string]int{"taken": 3})
	})
}
