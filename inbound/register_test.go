package inbound_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// registering is a fixture whose Register runs, with the outcomes that it reported.
type registering struct {
	*fixture

	told   []string
	errs   []error
	states map[string]int
	stop   func()
}

func runRegister(t *testing.T, test func(f *registering)) {
	t.Helper()
	r := &registering{}
	runWith(t, func(_ *fixture, c *settings) {
		c.Shared = true
		c.Registered = func(_ context.Context, lambda, outcome string, err error) {
			r.note(func() { r.told, r.errs = append(r.told, strings.TrimSpace(lambda+" "+outcome)), append(r.errs, err) })
		}
		c.Registrations = func(states map[string]int) { r.note(func() { r.states = maps.Clone(states) }) }
		c.Unregister = func(lambda string) string { return "forget " + lambda }
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

// wantTold checks the outcomes that were reported since the last call.
func (f *registering) wantTold(want ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.told, want) {
		f.t.Errorf("told %q %v, want %q", f.told, f.errs, want)
	}
	f.told, f.errs = nil, nil
}

// wantStates checks how many registrations are in each state.
func (f *registering) wantStates(want map[string]int) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.states, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(f.states, want) {
		f.t.Errorf("states %v, want %v", f.states, want)
	}
}

func TestRegistrationsBecomeLambdas(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("bills", `{"format":2,"priorities":["one"],"max_attempts":3}`)
		f.put("mail", `{"format":2,"shards":2}`) // of which there is one already
		f.time.Advance(10 * time.Second)
		f.wantTold("bills created", "mail changed")
		bills, err := f.Catalog.Lambda("bills")
		if err != nil || bills.MaxAttempts != 3 {
			t.Fatalf("%+v, %v", bills, err)
		}
		if mail, err := f.Catalog.Lambda("mail"); err != nil || mail.Ref != f.lambda.Ref {
			t.Errorf("%+v, %v", mail, err)
		}
		f.put("bills", `{"format":2,"priorities":["one"],"max_attempts":4}`)
		f.put("mail", `{"format":2,"shards":1}`)
		f.time.Advance(time.Minute)
		f.wantTold("bills changed", "mail refused") // once, not with every round
		f.wantStates(map[string]int{"taken": 1, "refused": 1})
		if mail, err := f.Catalog.Lambda("mail"); err != nil || mail.Shards != 2 {
			t.Errorf("%+v, %v", mail, err)
		}
		if bills, err = f.Catalog.Lambda("bills"); err != nil || bills.MaxAttempts != 4 {
			t.Errorf("%+v, %v", bills, err)
		}
		f.put("mail", `{"format":2,"shards":2}`)
		f.time.Advance(time.Minute)
		f.wantTold("mail well") // once
		f.wantStates(map[string]int{"taken": 2})
	})
}

// A registration beyond a bound is refused, once, and taken when there is room.
func TestARegistrationBeyondABoundIsRefused(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.Catalog.Bounds.Lambdas = 1 // there is mail
		f.put("bills", `{"format":2}`)
		f.time.Advance(time.Minute)
		if len(f.errs) != 1 || !strings.Contains(f.errs[0].Error(), "--lambdas-max") {
			t.Errorf("%v", f.errs)
		}
		f.wantTold("bills refused")
		f.Catalog.Bounds.Lambdas = 2
		f.time.Advance(time.Minute)
		f.wantTold("bills created")
	})
}

func TestAChangeByACallStaysUntilTheRegistrationChanges(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("mail", `{"format":2,"shards":2}`)
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
		f.put("mail", `{"format":2,"shards":2}`)
		f.put("idle", `{"format":2}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("idle created", "mail changed")
		f.accept(in(5 * time.Minute))
		f.withdraw("mail")
		f.withdraw("idle")
		f.time.Advance(50 * time.Second)
		f.wantTold() // it may come back
		f.time.Advance(time.Minute)
		f.wantTold("mail kept", "idle deleted")
		f.wantStates(map[string]int{"kept": 1})
		f.time.Advance(10 * time.Second)
		f.wantStates(map[string]int{"kept": 1}) // also in rounds that do not look at it
		f.accept(in(6 * time.Minute))           // nothing is lost
		f.wantWithdrawn("mail", true)
		if _, err := f.Catalog.Lambda("idle"); !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("idle: %v", err)
		}
		f.put("mail", `{"format":2,"shards":2}`)
		f.time.Advance(5 * time.Minute)
		f.wantTold("mail well") // the same as ever, and no more to be deleted
		f.wantStates(map[string]int{"taken": 1})
		f.wantWithdrawn("mail", false)
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
		f.put("mail", `{"format":2,"shards":2}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("mail changed")
		f.driver.FailReads(20)
		f.time.Advance(10 * time.Second)
		f.wantTold("unread")
		f.wantStates(map[string]int{"taken": 1, "unread": 1})
		f.time.Advance(10 * time.Minute)
		f.wantTold("well")
		f.wantStates(map[string]int{"taken": 1})
		if _, err := f.Catalog.Lambda("mail"); err != nil {
			t.Error(err)
		}
	})
}

func TestARegistrationWaitsForItsQueues(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.note(func() { f.missing = []string{"p-bills-one", "p-bills-two"} })
		f.put("bills", `{"format":2}`)
		f.time.Advance(time.Minute)
		f.mu.Lock()
		errs := slices.Clone(f.errs)
		f.mu.Unlock()
		f.wantTold("bills waiting") // once, not with every round
		f.wantStates(map[string]int{"waiting": 1})
		if len(errs) != 1 || errs[0] == nil || !strings.Contains(errs[0].Error(), "p-bills-one, p-bills-two") {
			t.Errorf("told %v, want the queues that are missing", errs)
		}
		if _, err := f.Catalog.Lambda("bills"); !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("there before its queues: %v", err)
		}
		f.put("mail", `{"format":2,"shards":1}`)
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
		r.put("bills", `{"format":2}`)
		f.time.Advance(time.Minute)
		if _, err := f.Catalog.Lambda("bills"); !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("registered: %v", err)
		}
		r.stop()
	})
}

func TestARegisteredLambdaIsNotDeletedByACall(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("mail", `{"format":2,"shards":2}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("mail changed")
		if got, err := f.GetLambda(f.ctx, &kinesinv1.GetLambdaRequest{Name: "mail"}); err != nil || !got.Lambda.Registered {
			t.Errorf("get says %+v, %v", got, err)
		}
		for _, drop := range []bool{false, true} {
			_, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail", DropTasks: drop})
			if !errors.Is(err, api.ErrRegistered) || !strings.Contains(err.Error(), "Terraform") || !strings.Contains(err.Error(), "forget mail") {
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

// TestRegistrationsSurviveRestarts has another process see the same registrations: nothing is made or changed
// again, what is refused is told again, and what was withdrawn in between goes.
func TestRegistrationsSurviveRestarts(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("mail", `{"format":2,"shards":2}`)
		f.put("bills", `{"format":2}`)
		f.put("wrong", `{"format":2,"shards":0,"mode":"both"}`)
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

// wantWithdrawn checks what callers see of a registered lambda.
func (f *registering) wantWithdrawn(name string, want bool) {
	f.t.Helper()
	got, err := f.GetLambda(f.ctx, &kinesinv1.GetLambdaRequest{Name: name})
	if err != nil || !got.Lambda.Registered || got.Lambda.Withdrawn != want {
		f.t.Errorf("get says %+v, %v, want withdrawn %t", got, err, want)
	}
	all, err := f.ListLambdas(f.ctx, &kinesinv1.ListLambdasRequest{})
	if err != nil || len(all.Lambdas) != 1 || !all.Lambdas[0].Registered || all.Lambdas[0].Withdrawn != want {
		f.t.Errorf("list says %+v, %v, want withdrawn %t", all, err, want)
	}
}

// TestARefusedRegistrationThatWasTakenOutIsToldAgain has the same mistake made twice.
func TestARefusedRegistrationThatWasTakenOutIsToldAgain(t *testing.T) {
	runRegister(t, func(f *registering) {
		for range 2 {
			f.put("bills", `{"format":2,"mode":"both"}`)
			f.time.Advance(10 * time.Second)
			f.wantTold("bills refused")
			f.wantStates(map[string]int{"refused": 1})
			f.withdraw("bills")
			f.time.Advance(10 * time.Second)
			f.wantTold()
			f.wantStates(nil)
		}
	})
}

// wantRefused checks that the last outcome names both lambdas.
func (f *registering) wantRefused(name, because string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.told) - 1
	if last < 0 || f.told[last] != name+" refused" || f.errs[last] == nil || !strings.Contains(f.errs[last].Error(), "lambda "+name+": its queue would be one of lambda "+because) {
		f.t.Errorf("told %q %v, want %s refused because of %s", f.told, f.errs, name, because)
	}
}

const (
	ordersEU = `{"format":2,"priorities":["high"]}`    // of lambda orders-eu
	orders   = `{"format":2,"priorities":["eu-high"]}` // of lambda orders
)

// TestTheFirstTakenKeepsAQueuesName has two registrations that want a queue of one name, the later one the
// first by name.
func TestTheFirstTakenKeepsAQueuesName(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("orders-eu", ordersEU)
		f.time.Advance(10 * time.Second)
		f.wantTold("orders-eu created")
		f.put("orders", orders)
		f.time.Advance(time.Minute)
		f.wantRefused("orders", "orders-eu")
		f.wantTold("orders refused")
		f.put("orders-eu", `{"format":2,"priorities":["high"],"max_attempts":3}`)
		f.time.Advance(time.Minute)
		f.wantTold("orders-eu changed")
		f.stop()
		f.start() // another process
		f.time.Advance(time.Minute)
		f.wantTold("orders refused")
		f.withdraw("orders-eu")
		f.time.Advance(3 * time.Minute)
		f.wantTold("orders-eu deleted", "orders created")
	})
}

// TestTheFirstByNameGetsAQueuesName has none of two be taken yet; also when only the other one's queues are
// all there.
func TestTheFirstByNameGetsAQueuesName(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.note(func() { f.missing = []string{"p-orders-low"} })
		f.put("orders-eu", ordersEU)
		f.put("orders", orders)
		f.time.Advance(10 * time.Second)
		f.wantRefused("orders-eu", "orders")
		f.wantTold("orders waiting", "orders-eu refused")
		f.time.Advance(10 * time.Second)
		f.wantTold("orders waiting") // for its queues now
		f.note(func() { f.missing = nil })
		f.time.Advance(time.Minute)
		f.wantTold("orders created")
		f.wantStates(map[string]int{"taken": 1, "refused": 1})
	})
}

// TestWhoIsSlowToTakeAContestedNameIsFirst has a process that saw only one of two registrations make its
// lambda while another process sees both.
func TestWhoIsSlowToTakeAContestedNameIsFirst(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("orders-eu", ordersEU)
		f.put("orders", orders)
		f.time.Advance(10 * time.Second)
		want, err := lambdas.ParseRegistration(store.Control{Kind: catalog.RegistrationKind, Name: "orders-eu", Version: 1, Value: []byte(ordersEU)})
		if err != nil {
			t.Fatal(err)
		}
		if _, created, err := f.Catalog.Register(f.ctx, want); err != nil || !created {
			t.Fatalf("created %t, %v", created, err)
		}
		f.time.Advance(time.Minute)
		f.wantRefused("orders", "orders-eu")
		f.wantTold("orders waiting", "orders-eu refused", "orders-eu well", "orders refused")
	})
}

// TestARegistrationThatCannotBeDoesNotStandInAnothersWay has the first by name be refused for a reason of its
// own.
func TestARegistrationThatCannotBeDoesNotStandInAnothersWay(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("a-b", `{"format":2,"priorities":["c"]}`)
		f.time.Advance(10 * time.Second)
		f.put("a", `{"format":2,"priorities":["b-c","d-e"]}`)
		f.put("a-d", `{"format":2,"priorities":["e"]}`)
		f.time.Advance(10 * time.Second)
		f.wantTold("a-b created", "a refused", "a-d created")
	})
}

// TestCreatingARegisteredLambdaMakesNoQueues has a call give the settings that the lambda has.
func TestCreatingARegisteredLambdaMakesNoQueues(t *testing.T) {
	runRegister(t, func(f *registering) {
		f.put("bills", `{"format":2}`)
		f.time.Advance(10 * time.Second)
		f.withdraw("bills")
		got, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "bills"}})
		if err != nil || !got.Duplicate || !got.Lambda.Withdrawn {
			t.Errorf("create says %+v, %v", got, err)
		}
		if _, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "calls"}}); err != nil {
			t.Error(err)
		}
		f.note(func() {
			if !slices.Equal(f.made, []string{"calls"}) {
				t.Errorf("queues of %q were asked for", f.made)
			}
		})
	})
}
