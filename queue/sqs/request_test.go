package sqs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

// TestWhatIsSaidOfAMissingQueue checks the error for a lambda that Terraform registered, and for one that a
// call created.
func TestWhatIsSaidOfAMissingQueue(t *testing.T) {
	t.Parallel()
	all := &lambdas{}
	all.add(task.Lambda{Name: "receipts", Ref: 1, Priorities: []string{"normal"}})
	all.add(task.Lambda{Name: "mail", Ref: 2, Priorities: []string{"normal"}})
	d := sqs.New(fakesqs.New(fakesqs.Config{}), sqs.Config{
		Prefix: "kin", Codec: sqs.StoreCodec, Clock: clock.Real(), Lambda: all.get, Lambdas: all.list, Registered: func(lambda string) bool { return lambda == "receipts" },
	})
	defer d.Close()
	for ref, c := range map[uint32]struct {
		want []string
		not  string
	}{
		1: {[]string{"kin-receipts-normal", "apply its module call", "kinesin lambda delete receipts --drop"}, "aws setup"},
		2: {[]string{"kin-mail-normal", "kinesin aws setup"}, "Terraform"},
	} {
		_, err := d.Depth(t.Context(), queue.Name{Lambda: ref})
		if !errors.Is(err, sqs.ErrNoQueue) || !errors.Is(err, queue.ErrMissing) {
			t.Fatalf("lambda %d: %v", ref, err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("lambda %d: %v, want %q", ref, err, want)
			}
		}
		if strings.Contains(err.Error(), c.not) {
			t.Errorf("lambda %d: %v, which says %q", ref, err, c.not)
		}
	}
}

// TestAServiceThatDoesNotAnswer checks that temporary errors of provisioning are queue.ErrUnreachable.
func TestAServiceThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   awsfake.Fault
		passing bool
	}{
		"no answer": {awsfake.LostRequest, true}, "failed": {awsfake.Refused, true}, "throttled": {awsfake.Throttled, true}, "denied": {awsfake.Denied, false},
	} {
		all := &lambdas{}
		for _, call := range []string{"GetQueueUrl", "CreateQueue"} {
			service := fakesqs.New(fakesqs.Config{})
			d := sqs.New(service, sqs.Config{Prefix: "kin", Codec: sqs.StoreCodec, Clock: clock.Real(), Lambda: all.get, Lambdas: all.list})
			service.Faults.Odds(call, c.fault, 1)
			err := d.Provision(t.Context(), task.Lambda{Name: "mail", Priorities: []string{"normal"}})
			if err == nil || errors.Is(err, queue.ErrUnreachable) != c.passing {
				t.Errorf("%s of %s: %v", name, call, err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
