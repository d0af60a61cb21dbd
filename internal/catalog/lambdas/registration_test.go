package lambdas_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func registration(t *testing.T, value string) catalog.Registration {
	t.Helper()
	r, err := lambdas.ParseRegistration(store.Control{Kind: catalog.RegistrationKind, Name: "mail", Version: 1, Value: []byte(value)})
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	return r
}

func TestQuotasOfARegistration(t *testing.T) {
	r := registration(t, `{"format":2,"priorities":["now","later"],"quotas":[{"identity":"crm","admit":50},{"priority":"now","concurrency":4},{"rate":100,"burst":10,"admit":500,"concurrency":9,"recovery":40},{"identity":"app","admit":7},{"priority":"later","rate":0.5,"burst":3}]}`)
	want := []catalog.Limit{{Rate: 100, Burst: 10, Admit: 500, Concurrency: 9, Recovery: 40}, {Priority: "later", Class: 1, Rate: 0.5, Burst: 3}, {Priority: "now", Concurrency: 4}, {Identity: "app", Admit: 7}, {Identity: "crm", Admit: 50}}
	if !slices.Equal(r.Quotas, want) {
		t.Errorf("%+v, want %+v", r.Quotas, want)
	}
	if none := registration(t, `{"format":2,"quotas":[]}`).Quotas; none == nil || len(none) != 0 {
		t.Errorf("no quotas: %#v", none)
	}
	if silent := registration(t, `{"format":2}`).Quotas; silent != nil {
		t.Errorf("nothing said of quotas: %#v", silent)
	}
}

func TestParseRegistration(t *testing.T) {
	r := registration(t, `{"format":2,"mode":"managed","priorities":["now","later"],"shards":3,"timeout":"1m","backoff_min":"1ms","backoff_max":"5s","max_attempts":4,"retention":"1h","key_retention":"60s","poison_bound":5,"start_within":"30s","priority_weights":{"now":8},"limit_key_concurrency":7,"limit_key_rate":1.5,"retry_share":0.2,"breaker":{"failures":0.5},`+
		`"crons":{"nightly":{"schedule":"30 2 * * *","jitter":"1.5s","payload_text":"x"}},"objective":{"within":"5s","objective":99}}`)
	want := task.Lambda{
		KeyRetention: time.Minute, PoisonBound: 5, StartWithin: 30 * time.Second, PriorityWeights: []uint16{8, 1},
		LimitKeyConcurrency: 7, LimitKeyRate: 1.5, RetryShare: 0.2, Breaker: task.Breaker{Failures: 0.5, Window: time.Minute},
		Name: "mail", Priorities: []string{"now", "later"}, Shards: 3, MaxAttempts: 4, Timeout: time.Minute,
		BackoffMin: time.Millisecond, BackoffMax: 5 * time.Second, Retention: time.Hour,
	}
	if !reflect.DeepEqual(r.Lambda, want) {
		t.Errorf("got %+v, want %+v", r.Lambda, want)
	}
	if c := (&kinesinv1.Cron{Name: "nightly", Schedule: "30 2 * * *", Jitter: 1_500_000, Payload: []byte("x")}); !proto.Equal(r.Crons["nightly"], c) {
		t.Errorf("got %v, want %v", r.Crons, c)
	}
	if o := (&kinesinv1.SetObjectiveRequest{Within: 5_000_000, Objective: 99}); !proto.Equal(r.Objective, o) {
		t.Errorf("got %v, want %v", r.Objective, o)
	}
	if other := registration(t, `{"format":2}`); other.Sum == r.Sum || other.Sum == "" || other.Shards != 0 { // the server says
		t.Errorf("got %+v", other)
	}
	for value, word := range map[string]string{
		`{"format":3}`:                                               "it has format 3, this program knows 2; update the servers",
		`{"format":1}`:                                               "it has format 1, this program knows 2",
		`{"format":2,"weight":7}`:                                    `unknown field "weight"`,
		`{"format":2,"name":"other"}`:                                `unknown field "name"`,
		`{"format":2,"timeout_us":60000000}`:                         "if the Terraform modules are newer than the servers, update the servers first",
		`{"format":2,"mode":"later"}`:                                "want managed or deliver",
		`{"format":2,"mode":"deliver","max_attempts":3}`:             "not for mode deliver",
		`{"format":2,"shards":70000}`:                                "shards 70000: want 1 to 1024",
		`{"format":2,"priorities":["a","a"]}`:                        "named twice",
		`{"format":2,"mode":"deliver","poison_bound":3}`:             "not for mode deliver",
		`{"format":2,"mode":"deliver","start_within":"3s"}`:          "not for mode deliver",
		`{"format":2,"mode":"deliver","priority_weights":{"low":3}}`: "not for mode deliver",
		`{"format":2,"mode":"deliver","retry_share":0.2}`:            "not for mode deliver",
		`{"format":2,"mode":"deliver","breaker":{"failures":0.2}}`:   "not for mode deliver",
		`{"format":2,"mode":"deliver","limit_key_rate":2}`:           "not for mode deliver",
		`{"format":2,"priority_weights":{"urgent":3}}`:               `"urgent" is no priority of the lambda, which has high, normal, low`,
		`{"format":2,"priority_weights":{"low":0}}`:                  `weight of priority "low" 0: want 1 to 1000`,
		`{"format":2,"poison_bound":1}`:                              "poison bound 1: want 2 to 1000",
		`{"format":2,"start_within":"-1s"}`:                          "start_within",
		`{"format":2,"limit_key_concurrency":-1}`:                    "limit key concurrency -1: want 1 to 100000",
		`{"format":2,"retry_share":11}`:                              "retry share 11: want 0.01 to 10",
		`{"format":2,"breaker":{"failures":0.5,"window":"1us"}}`:     "breaker window 1µs: want 10s to 1h0m0s",
		`{"format":2,"breaker":{"window":"1m"}}`:                     "the lambda has no breaker",

		`{"format":2,"quotas":{"rate":1}}`:                                       "corrupt",
		`{"format":2,"quotas":[` + strings.Repeat("{},", 100) + `{}]}`:           "quotas: 101 of them",
		`{"format":2,"quotas":[{"rate":-1}]}`:                                    "rate -1: want 0.001 to 1000000",
		`{"format":2,"mode":"deliver","quotas":[{"concurrency":5}]}`:             "concurrency is not for mode deliver",
		`{"format":2,"quotas":[{"burst":5}]}`:                                    "burst 5: there is no rate",
		`{"format":2,"quotas":[{"fast":5}]}`:                                     `quotas[0]: unknown field "fast"`,
		`{"format":2,"quotas":[{"priority":"urgent","rate":1}]}`:                 `"urgent"`,
		`{"format":2,"quotas":[{"rate":5},{"identity":"","admit":5}]}`:           "is there twice",
		`{"format":2,"quotas":[{"priority":"low","rate":5,"managed_by":"set"}]}`: `unknown field "managed_by"`,

		`{"format":2,"crons":{"x":{"schedule":"@daily","every":1}}}`:       `cron "x": unknown field "every"`,
		`{"format":2,"crons":{"x":{"schedule":"@daily","lambda":"mail"}}}`: `unknown field "lambda"`,
		`{"format":2,"crons":{"x":{}}}`:                                    `no field "schedule"`,
		`{"format":2,"objective":{"within":"5s"}}`:                         `objective: the body has no field "objective"`,

		`{"format":2,"timeout":"1 day"}`: `"1 day" is no duration`,
		`[]`:                             "corrupt",
	} {
		_, err := lambdas.ParseRegistration(store.Control{Name: "mail", Value: []byte(value)})
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q", value, err, word)
		}
	}
}

// TestDigestOfARegistration has registrations that the Terraform module writes, each of which means something else.
func TestDigestOfARegistration(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		`{"format":2}`,
		`{"format":2,"mode":"managed","priorities":["high","normal","low"],"quotas":[],"shards":4}`,
		`{"format":2,"mode":"deliver","objective":{"objective":99,"within":"5s"},"priorities":["high","normal","low"],"quotas":[{"priority":"low","rate":0.1}],"shards":4}`,
		`{"backoff_max":"0.7s","backoff_min":"0.001s","breaker":{"failures":0.5,"window":"12.5s"},"crons":{"nightly":{"catch_up":"all","catch_up_max":5,"catch_up_within":"3600.1s","collection":"c","end":"2028-01-31T09:00:00Z","payload_text":"{\"at\": \"{{nominal}}\"}","priority":"low","schedule":"30 2 * * *","start":"2027-01-31T09:00:00+01:00","tags":{"kind_us":"night"},"zone":"Europe/Berlin"},"sync":{"failures_max":3,"fold":"both","gap":"skip","jitter":"0.3s","overlap":"queue","schedule":"@every 90s"},"zero":{"jitter":"0s","schedule":"@daily"}},"format":2,"key_retention":"61.1s","limit_key_concurrency":5,"limit_key_rate":1.5,"max_attempts":7,"mode":"managed","objective":{"objective":99.9,"window":"168h","within":"0.57s"},"poison_bound":5,"priorities":["high","normal","low"],"priority_weights":{"high":8,"low":1},"quotas":[{"admit":3.3,"burst":10,"concurrency":4,"rate":100,"recovery":40},{"concurrency":4,"priority":"high"},{"burst":3,"priority":"low","rate":0.5},{"admit":0.1,"identity":"app"},{"admit":50,"identity":"crm"}],"retention":"157680000s","retry_share":0.2,"shards":4,"start_within":"1.000001s","timeout":"0.3s"}`,
	} {
		r := registration(t, text)
		if other := seen[r.Sum]; other != "" {
			t.Errorf("%s means the same as %s", text, other)
		}
		seen[r.Sum] = text
	}
	reordered := `{"quotas":[{"identity":"crm","admit":50},{"priority":"low","rate":1},{"rate":5}],"timeout":"1m","format":2}`
	if one, two := registration(t, reordered), registration(t, `{"format":2,"timeout":"60s","quotas":[{"rate":5},{"priority":"low","rate":1},{"identity":"crm","admit":50}]}`); one.Sum != two.Sum {
		t.Errorf("in another order %s means something else", reordered)
	}
}

func FuzzParseRegistration(f *testing.F) {
	for _, text := range []string{
		"", "{}", `{"format":1}`, `{"format":3}`, `{"format":2,"mode":"deliver","priorities":["a","b"],"shards":3}`,
		`{"format":2,"quotas":[{"rate":1}],"crons":{"a":{"schedule":"@daily","payload":{}}},"objective":{"within":"1s","objective":9}}`,
		`{"format":2,"more":1}`, `{"format":2,"priorities":[` + strings.Repeat(`"",`, 10_000) + `""]}`, strings.Repeat("[", 10_001), "null", `{"format":2}{}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var r catalog.Registration
		var err error
		alloctest.AtMost(t, uint64(64<<10+64*len(value)), func() {
			r, err = lambdas.ParseRegistration(store.Control{Kind: catalog.RegistrationKind, Name: "mail", Value: value})
		})
		switch {
		case err != nil && !errors.Is(err, task.ErrInvalid) && !errors.Is(err, store.ErrCorrupt):
			t.Errorf("refused with %v", err)
		case err == nil && (r.Validate() != nil && r.Shards != 0 || r.Name != "mail" || r.Sum == ""):
			t.Errorf("accepted: %+v", r)
		}
	})
}
