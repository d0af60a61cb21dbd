package inbound_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// registering is a fixture whose Register runs, and what it told.
type registering struct {
	*fixture

	told []string
	errs []error
	stop func()
}

func runRegister(t *testing.T, test func(f *registering)) {
	t.Helper()
	r := &registering{}
	runWith(t, func(_ *fixture, c *inbound.Config) {
		c.Shared = true
		c.Hooks.Registered = func(_ context.Context, lambda, outcome string, err error) {
			r.note(func() { r.told, r.errs = append(r.told, strings.TrimSpace(lambda+" "+outcome)), append(r.errs, err) })
		}
	}, func(f *fixture) {
		r.fixture = f
		r.start()
		test(r)
		r.stop()
	})
}

// start and stop are those of a process that registers.
func (f *registering) start() {
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.Register(ctx) }()
	synctest.Wait()
	f.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	}
}

// put writes a registration as Terraform does: always as version 1.
func (f *registering) put(name, value string) {
	f.t.Helper()
	row := store.Control{Kind: catalog.RegistrationKind, Name: name, Version: 1, Value: []byte(value)}
	f.withdraw(name)
	if err := f.store.PutControl(f.ctx, row); err != nil {
		f.t.Fatal(err)
	}
}

func (f *registering) withdraw(name string) {
	f.t.Helper()
	if err := f.store.DeleteControl(f.ctx, store.Control{Kind: catalog.RegistrationKind, Name: name, Version: 1}); err != nil && !errors.Is(err, store.ErrConflict) {
		f.t.Fatal(err)
	}
}

// wantTold checks what was told since it was last asked.
func (f *registering) wantTold(want ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.told, want) {
		f.t.Errorf("told %q %v, want %q", f.told, f.errs, want)
	}
	f.told, f.errs = nil, nil
}

func TestRegistrationsBecomeLambdas(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("bills", `{"format":1,"priorities":["one"],"max_attempts":3}`)
		f.put("mail", `{"format":1,"shards":2}`) // of which there is one already
		f.time.Advance(10 * time.Second)
		f.wantTold("bills created", "mail changed")
		bills, err := f.Catalog.Lambda("bills")
		if err != nil || bills.MaxAttempts != 3 {
			t.Fatalf("%+v, %v", bills, err)
		}
		if mail, err := f.Catalog.Lambda("mail"); err != nil || mail.Ref != f.lambda.Ref {
			t.Errorf("%+v, %v", mail, err)
		}
		f.put("bills", `{"format":1,"priorities":["one"],"max_attempts":4}`)
		f.put("mail", `{"format":1,"shards":3}`)
		f.time.Advance(time.Minute)
		f.wantTold("bills changed", "mail refused") // once, not with every round
		if mail, err := f.Catalog.Lambda("mail"); err != nil || mail.Shards != 2 {
			t.Errorf("%+v, %v", mail, err)
		}
		if bills, err = f.Catalog.Lambda("bills"); err != nil || bills.MaxAttempts != 4 {
			t.Errorf("%+v, %v", bills, err)
		}
	})
}

func TestAChangeByACallStaysUntilTheRegistrationChanges(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("mail", `{"format":1,"shards":2}`)
		f.time.Advance(10 * time.Second)
		if _, err := f.Catalog.Update(f.ctx, "mail", func(l *task.Lambda) error { l.MaxAttempts = 77; return nil }); err != nil {
			t.Fatal(err)
		}
		f.time.Advance(time.Minute)
		f.wantTold("mail changed")
		if mail, err := f.Catalog.Lambda("mail"); err != nil || mail.MaxAttempts != 77 {
			t.Errorf("%+v, %v", mail, err)
		}
	})
}

func TestAWithdrawnLambdaIsDeletedWithoutTasksAndKeptWithThem(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("mail", `{"format":1,"shards":2}`)
		f.put("idle", `{"format":1}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("idle created", "mail changed")
		f.accept(in(5 * time.Minute))
		f.withdraw("mail")
		f.withdraw("idle")
		f.time.Advance(50 * time.Second)
		f.wantTold() // it may come back
		f.time.Advance(time.Minute)
		f.wantTold("idle deleted", "mail kept")
		if _, err := f.Catalog.Lambda("idle"); !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("idle: %v", err)
		}
		f.put("mail", `{"format":1,"shards":2}`)
		f.time.Advance(5 * time.Minute)
		f.wantTold() // the same as ever, and no more to be deleted
		f.accept(in(time.Minute))
	})
}

func TestALambdaOfACallIsNotWithdrawn(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.time.Advance(time.Hour)
		f.wantTold()
		if _, err := f.Catalog.Lambda("mail"); err != nil {
			t.Error(err)
		}
	})
}

func TestRegistrationsThatCannotBeRead(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("mail", `{"format":1,"shards":2}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("mail changed")
		f.driver.FailReads(20)
		f.time.Advance(10 * time.Minute)
		f.wantTold("unread")
		if _, err := f.Catalog.Lambda("mail"); err != nil {
			t.Error(err)
		}
	})
}

func TestARegistrationWaitsForItsQueues(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.note(func() { f.missing = []string{"p-bills-one", "p-bills-two"} })
		f.put("bills", `{"format":1}`)
		f.time.Advance(time.Minute)
		f.mu.Lock()
		errs := slices.Clone(f.errs)
		f.mu.Unlock()
		f.wantTold("bills waiting") // once, not with every round
		if len(errs) != 1 || errs[0] == nil || !strings.Contains(errs[0].Error(), "p-bills-one, p-bills-two") {
			t.Errorf("told %v, want the queues that are missing", errs)
		}
		if _, err := f.Catalog.Lambda("bills"); !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("there before its queues: %v", err)
		}
		f.put("mail", `{"format":1,"shards":3}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("mail refused") // queues would not help it
		f.withdraw("mail")
		f.note(func() { f.missing = nil })
		f.time.Advance(10 * time.Second)
		f.wantTold("bills created")
	})
}

// TestWhereNobodyElseIsOverTheStoreNobodyRegisters: no other process can have put a registration there.
func TestWhereNobodyElseIsOverTheStoreNobodyRegisters(t *testing.T) {
	run(t, func(f *fixture) {
		r := &registering{fixture: f}
		r.start()
		r.put("bills", `{"format":1}`)
		f.time.Advance(time.Minute)
		if _, err := f.Catalog.Lambda("bills"); !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("registered: %v", err)
		}
		r.stop()
	})
}

func TestARegisteredLambdaIsNotDeletedByACall(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("mail", `{"format":1,"shards":2}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("mail changed")
		if got, err := f.GetLambda(f.ctx, &kinesinv1.GetLambdaRequest{Name: "mail"}); err != nil || !got.Lambda.Registered {
			t.Errorf("get says %+v, %v", got, err)
		}
		for _, drop := range []bool{false, true} {
			_, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail", DropTasks: drop})
			if !errors.Is(err, api.ErrRegistered) || !strings.Contains(err.Error(), "Terraform") {
				t.Errorf("deleted with drop %t: %v, want ErrRegistered", drop, err)
			}
		}
		f.accept(in(time.Hour))
		f.withdraw("mail")
		f.during(time.Minute, func() {
			if _, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail", DropTasks: true}); err != nil {
				t.Errorf("after its registration is gone: %v", err)
			}
		})
		if _, err := f.Catalog.Lambda("mail"); !errors.Is(err, catalog.ErrUnknown) {
			t.Error(err)
		}
	})
}

// TestRegistrationsSurviveRestarts has another process see the same registrations: nothing is made or changed again, what is
// refused is told again, and what was withdrawn in between goes.
func TestRegistrationsSurviveRestarts(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("mail", `{"format":1,"shards":2}`)
		f.put("bills", `{"format":1}`)
		f.put("wrong", `{"format":1,"shards":0,"mode":"both"}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("bills created", "mail changed", "wrong refused")
		f.stop()
		f.start()
		f.time.Advance(time.Minute)
		f.wantTold("wrong refused")
		f.stop()
		f.withdraw("bills")
		f.start()
		f.time.Advance(2 * time.Minute)
		f.wantTold("wrong refused", "bills deleted")
	})
}
