package server

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakelambda"
	"github.com/kinesin-io/kinesin/task"
)

const account = "arn:aws:lambda:eu-west-1:123456789012:function:"

// functions is a stand-in of AWS Lambda, which the settings of AWS name.
func functions(t *testing.T) *fakelambda.Lambda {
	t.Helper()
	fake := fakelambda.New()
	srv := receiver(t, fake.ServeHTTP)
	t.Cleanup(fake.Wait)
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_ENDPOINT_URL_LAMBDA": srv.URL,
	} {
		t.Setenv(name, value)
	}
	return fake
}

// TestTheServerInvokesFunctions has each fault strike once, and the task end well after it.
func TestTheServerInvokesFunctions(t *testing.T) {
	fake := functions(t)
	fake.Function(account+"mail", func(_ context.Context, i fakelambda.Invocation) ([]byte, error) {
		if string(i.Payload) == `"bad"` {
			return nil, &fakelambda.FunctionError{Type: "KinesinFatal", Message: "no such user", Handled: true}
		}
		return i.Payload, nil
	})
	r := serve(t, Config{TargetsFunctions: []string{account + "mail"}})
	create := func(l *kinesinv1.Lambda) error {
		_, err := r.lambdas().CreateLambda(t.Context(), &kinesinv1.CreateLambdaRequest{Lambda: l})
		return err
	}
	if err := create(&kinesinv1.Lambda{
		Name: "mail", Target: &kinesinv1.Target{Url: account + "mail"}, BackoffMin: 1000, BackoffMax: 2000, Timeout: (500 * time.Millisecond).Microseconds(),
	}); err != nil {
		t.Fatal(err)
	}
	if got := r.ends(r.now("mail", `{"n":1}`)[0], "success"); string(got.Result) != `{"n":1}` {
		t.Errorf("%v", got)
	}
	if got := r.ends(r.now("mail", `"bad"`)[0], "fatal_failure"); !strings.Contains(got.Attempts[0].Error, "no such user") {
		t.Errorf("%v", got)
	}
	fake.RetryAfterSeconds = 1
	for _, c := range []struct {
		fault   awsfake.Fault
		outcome string // of the attempt that it strikes
	}{
		{awsfake.Throttled, "snoozed"},
		{awsfake.Refused, "retriable_failure"},
		{awsfake.LostRequest, "retriable_failure"},
		{awsfake.LostAnswer, "retriable_failure"},
		{awsfake.Stalled, "retriable_failure"}, // by its timeout,
	} {
		fake.Faults.Next(fakelambda.Invoke, c.fault, 1)
		got := r.ends(r.now("mail", "7")[0], "success")
		struck := got.Attempts[0]
		for _, a := range got.Attempts { // in whichever order they are shown
			if a.Number == 1 {
				struck = a
			}
		}
		if len(got.Attempts) != 2 || struck.Outcome != c.outcome || string(got.Result) != "7" {
			t.Errorf("%s: %v, want %s and then success", c.fault, got, c.outcome)
		}
	}
	r.wantMetric(`kinesin_target_calls_total{class="2xx",lambda="mail"}`, "7") // one by a function that failed
	r.wantMetric(`kinesin_target_calls_total{class="none",lambda="mail"}`, "3")

	ran := make(chan string, 1)
	fake.Function(account+"mail", func(_ context.Context, i fakelambda.Invocation) ([]byte, error) {
		ran <- string(i.Payload)
		return []byte("1"), nil
	})
	if err := create(&kinesinv1.Lambda{Name: "event", Target: &kinesinv1.Target{Url: account + "mail", Async: true}}); err != nil {
		t.Fatal(err)
	}
	if got := r.ends(r.now("event", "8")[0], "success"); got.Result != nil || <-ran != "8" {
		t.Errorf("%v", got)
	}

	other := &kinesinv1.Target{Url: account + "pay"}
	refusal := create(&kinesinv1.Lambda{Name: "pay", Target: other})
	_, changed := r.lambdas().UpdateLambda(t.Context(), &kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "mail", Target: other}, Fields: []string{"target"}})
	for _, err := range []error{refusal, changed} {
		if err == nil || !strings.Contains(err.Error(), "may invoke only "+account+"mail (serve --targets-functions)") {
			t.Errorf("another function: %v", err)
		}
	}

	r = serve(t, Config{}) // which takes the settings of AWS when it invokes
	if err := create(&kinesinv1.Lambda{Name: "mail", Target: &kinesinv1.Target{Url: account + "mail"}}); err != nil {
		t.Fatal(err)
	}
	r.ends(r.now("mail", "9")[0], "success")
}

// A server that wants tokens invokes the functions that it is told, one without authentication all. Neither wants settings of
// AWS before.
func TestWhichFunctionsAreInvoked(t *testing.T) {
	t.Parallel()
	pay := &task.Target{URL: account + "pay"}
	for says, c := range map[string]Config{
		"": {},
		"no functions (serve --targets-functions)":             {AuthTokenFile: "tokens"},
		"only " + account + "mail (serve --targets-functions)": {TargetsFunctions: []string{account + "mail"}},
		"only " + account + "p (serve --targets-functions)":    {TargetsFunctions: []string{account + "p"}, PolicyFile: "policy"},
	} {
		if err := c.checkTarget(pay); (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if err := (Config{TargetsFunctions: []string{"mail"}}).Validate(); err == nil || !strings.Contains(err.Error(), "ARN of functions") {
		t.Errorf("%v", err)
	}
}
