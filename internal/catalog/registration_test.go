package catalog_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/quota"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func registration(t *testing.T, value string) catalog.Registration {
	t.Helper()
	r, err := catalog.ParseRegistration(store.Control{Kind: catalog.RegistrationKind, Name: "mail", Version: 1, Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestQuotasOfARegistration(t *testing.T) {
	r := registration(t, `{"format":1,"priorities":["now","later"],"quotas":{"rate":100,"burst":10,"admit":500,"concurrency":9,"recovery":40,"by_priority":{"now":{"concurrency":4},"later":{"rate":0.5,"burst":3}},"admit_by_identity":{"crm":50,"app":7}}}`)
	want := []quota.Limit{{Rate: 100, Burst: 10, Admit: 500, Concurrency: 9, Recovery: 40}, {Priority: "later", Class: 1, Rate: 0.5, Burst: 3}, {Priority: "now", Concurrency: 4}, {Identity: "app", Admit: 7}, {Identity: "crm", Admit: 50}}
	if !slices.Equal(r.Quotas, want) {
		t.Errorf("%+v, want %+v", r.Quotas, want)
	}
	if none := registration(t, `{"format":1,"quotas":{}}`).Quotas; none == nil || len(none) != 0 {
		t.Errorf("no quotas: %#v", none)
	}
	if silent := registration(t, `{"format":1}`).Quotas; silent != nil {
		t.Errorf("nothing said of quotas: %#v", silent)
	}
}

func TestParseRegistration(t *testing.T) {
	r := registration(t, `{"format":1,"mode":"managed","priorities":["now","later"],"shards":3,"timeout_us":60000000,"backoff_min_us":1000,"backoff_max_us":5000000,"max_attempts":4,"retention_us":3600000000,"key_retention_us":60000000,"poison_bound":5,"start_within_us":30000000,"priority_weights":{"now":8},"limit_key_concurrency":7,"limit_key_rate":1.5,"retry_share":0.2,"breaker_failures":0.5}`)
	want := task.Lambda{
		KeyRetention: time.Minute, PoisonBound: 5, StartWithin: 30 * time.Second, PriorityWeights: []uint16{8, 1},
		LimitKeyConcurrency: 7, LimitKeyRate: 1.5, RetryShare: 0.2, Breaker: task.Breaker{Failures: 0.5, Window: time.Minute},
		Name: "mail", Priorities: []string{"now", "later"}, Shards: 3, MaxAttempts: 4, Timeout: time.Minute,
		BackoffMin: time.Millisecond, BackoffMax: 5 * time.Second, Retention: time.Hour,
	}
	if got := r.Lambda; !slices.Equal(got.Priorities, want.Priorities) || got.Timeout != want.Timeout || got.BackoffMin != want.BackoffMin ||
		got.BackoffMax != want.BackoffMax || got.Retention != want.Retention || got.Shards != want.Shards || got.MaxAttempts != want.MaxAttempts ||
		got.KeyRetention != want.KeyRetention || got.PoisonBound != want.PoisonBound || got.StartWithin != want.StartWithin ||
		!slices.Equal(got.PriorityWeights, want.PriorityWeights) || got.RetryShare != want.RetryShare || got.Breaker != want.Breaker {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if other := registration(t, `{"format":1}`); other.Sum == r.Sum || other.Sum == "" || other.Shards != 0 { // the server says
		t.Errorf("got %+v", other)
	}
	for value, word := range map[string]string{
		`{"format":2}`:                                                "update the servers",
		`{"format":1,"weight":7}`:                                     `unknown field "weight", which this program does not know; update the servers`,
		`{"format":1,"mode":"later"}`:                                 "want managed or deliver",
		`{"format":1,"mode":"deliver","max_attempts":3}`:              "not for mode deliver",
		`{"format":1,"shards":70000}`:                                 "corrupt",
		`{"format":1,"priorities":["a","a"]}`:                         "named twice",
		`{"format":1,"mode":"deliver","poison_bound":3}`:              "not for mode deliver",
		`{"format":1,"mode":"deliver","start_within_us":3000000}`:     "not for mode deliver",
		`{"format":1,"mode":"deliver","priority_weights":{"low":3}}`:  "not for mode deliver",
		`{"format":1,"priority_weights":{"urgent":3}}`:                `"urgent" is no priority of the lambda, which has high, normal, low`,
		`{"format":1,"priority_weights":{"low":0}}`:                   `weight of priority "low" 0: want 1 to 1000`,
		`{"format":1,"quotas":{"rate":-1}}`:                           "rate -1: want 0.001 to 1000000",
		`{"format":1,"mode":"deliver","quotas":{"concurrency":5}}`:    "concurrency is not for mode deliver",
		`{"format":1,"quotas":{"burst":5}}`:                           "burst 5: there is no rate",
		`{"format":1,"quotas":{"fast":5}}`:                            `unknown field "fast", which this program does not know; update the servers`,
		`{"format":1,"quotas":{"by_priority":{"urgent":{"rate":1}}}}`: `"urgent" is no priority of the lambda, which has high, normal, low`,
		`{"format":1,"quotas":{"admit_by_identity":{"":5}}}`:          "names an identity that is empty",
		`{"format":1,"poison_bound":1}`:                               "poison bound 1: want 2 to 1000",
		`{"format":1,"start_within_us":-1}`:                           "start within",
		`{"format":1,"retention_us":-1}`:                              "retention",
		`{"format":1,"retention_us":9223372036854775807}`:             "retention",
		`{"format":1,"mode":"deliver","retry_share":0.2}`:             "not for mode deliver",
		`{"format":1,"mode":"deliver","breaker_failures":0.2}`:        "not for mode deliver",
		`{"format":1,"mode":"deliver","limit_key_rate":2}`:            "not for mode deliver",
		`{"format":1,"limit_key_concurrency":-1}`:                     "limit key concurrency -1: want 1 to 100000",
		`{"format":1,"retry_share":11}`:                               "retry share 11: want 0.01 to 10",
		`{"format":1,"breaker_failures":0.5,"breaker_window_us":1}`:   "breaker window 1µs: want 10s to 1h0m0s",
		`{"format":1,"breaker_window_us":60000000}`:                   "the lambda has no breaker",
		`[]`: "corrupt",
	} {
		_, err := catalog.ParseRegistration(store.Control{Name: "mail", Value: []byte(value)})
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q", value, err, word)
		}
	}
}

// TestRegister has a lambda made and changed by registrations and by calls.
func TestRegister(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	s := store.New(mem.New(), store.Config{Clock: c})
	lambdas := catalog.New(s, c, slog.New(slog.DiscardHandler))
	first, second := registration(t, `{"format":1,"shards":3,"max_attempts":3}`), registration(t, `{"format":1,"shards":3,"max_attempts":5,"priority_weights":{"high":4}}`)

	made, created, err := lambdas.Register(t.Context(), first)
	if err != nil || !created || made.MaxAttempts != 3 || made.Ref == 0 || made.Registration != first.Sum {
		t.Fatalf("created %+v %v, %v", made, created, err)
	}
	if _, existed, err := lambdas.Create(t.Context(), first.Lambda); err != nil || !existed {
		t.Errorf("the same by a call: existed %v, %v", existed, err)
	}
	changed, err := lambdas.Update(t.Context(), "mail", func(l *task.Lambda) error { l.MaxAttempts = 9; return nil })
	if err != nil || changed.Registration != first.Sum {
		t.Fatalf("a change by a call: %+v, %v", changed, err)
	}
	again, created, err := lambdas.Register(t.Context(), second)
	if err != nil || created || again.MaxAttempts != 5 || !slices.Equal(again.PriorityWeights, []uint16{4, 1, 1}) || again.Registration != second.Sum || again.Ref != made.Ref || again.Created != made.Created {
		t.Errorf("changed %+v %v, %v", again, created, err)
	}
	for _, value := range []string{`{"format":1,"mode":"deliver"}`, `{"format":1,"shards":2}`, `{"format":1,"priorities":["normal"]}`} {
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
	lambdas := catalog.New(s, c, slog.New(slog.DiscardHandler))
	made, _, err := lambdas.Create(t.Context(), task.Lambda{Name: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	same := registration(t, `{"format":1}`)
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
	lambdas := catalog.New(s, c, slog.New(slog.DiscardHandler))
	for what, back := range map[string]string{"the same": `{"format":1,"shards":3}`, "changed": `{"format":1,"shards":4,"max_attempts":5}`} {
		made, _, err := lambdas.Register(t.Context(), registration(t, `{"format":1,"shards":3}`))
		if err != nil {
			t.Fatal(err)
		}
		deleting, err := lambdas.Update(t.Context(), "mail", func(l *task.Lambda) error { l.Deleting = true; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := lambdas.Register(t.Context(), registration(t, `{"format":1,"shards":2}`)); !errors.Is(err, catalog.ErrFixed) {
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
	r := registration(t, `{"format":1,"shards":3}`)
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
