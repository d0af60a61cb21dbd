package sqsclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
)

// emulator is a service that keeps neither policies nor encryption, as ElasticMQ.
type emulator struct {
	sqsclient.SetupAPI

	t *testing.T
}

func (e *emulator) GetQueueAttributes(ctx context.Context, in *sqs.GetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	out, err := e.SetupAPI.GetQueueAttributes(ctx, in, options...)
	if err == nil {
		delete(out.Attributes, string(types.QueueAttributeNameSqsManagedSseEnabled))
		delete(out.Attributes, string(types.QueueAttributeNamePolicy))
	}
	return out, err
}

func (e *emulator) SetQueueAttributes(_ context.Context, in *sqs.SetQueueAttributesInput, _ ...func(*sqs.Options)) (*sqs.SetQueueAttributesOutput, error) {
	e.t.Errorf("attributes were set: %v", in.Attributes)
	return nil, errors.ErrUnsupported
}

func policyText(t *testing.T, api sqsclient.SetupAPI, queue string) string {
	t.Helper()
	have, err := sqsclient.Describe(t.Context(), api, queue)
	if err != nil {
		t.Fatal(err)
	}
	return have[string(types.QueueAttributeNamePolicy)]
}

func TestQueuesWithoutAPolicyGetOne(t *testing.T) {
	service := fakesqs.New(fakesqs.Config{})
	specs := []sqsclient.QueueSpec{
		{Name: "p-inbound-dlq", MessageRetentionSeconds: 345600, ManagedSSE: true},
		{Name: "p-inbound", MessageRetentionSeconds: 345600, ManagedSSE: true, DeadLetterQueue: "p-inbound-dlq", MaxReceiveCount: 3},
		{Name: "p-own", MessageRetentionSeconds: 345600, ManagedSSE: true},
	}
	if _, err := sqsclient.Create(t.Context(), service, specs); err != nil {
		t.Fatal(err)
	}
	out, err := service.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &specs[2].Name})
	if err != nil {
		t.Fatal(err)
	}
	const own = `{"Version":"2012-10-17","Statement":[]}`
	attributes := map[string]string{string(types.QueueAttributeNamePolicy): own}
	if _, err := service.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: out.QueueUrl, Attributes: attributes}); err != nil {
		t.Fatal(err)
	}
	missing := append(slices.Clone(specs), sqsclient.QueueSpec{Name: "p-nowhere"})

	open, err := sqsclient.Unprotected(t.Context(), service, missing)
	if err != nil || len(open) != 2 || open[1].String() != "SQS queue p-inbound: Policy is not set, want one that denies requests without TLS and from other accounts" {
		t.Errorf("%v, %v", open, err)
	}
	if policyText(t, service, "p-inbound") != "" {
		t.Error("it was set by a look")
	}
	set, err := sqsclient.Protect(t.Context(), service, missing)
	if err != nil || !slices.Equal(set, open) {
		t.Errorf("set %v, want %v; %v", set, open, err)
	}
	if got := policyText(t, service, "p-own"); got != own {
		t.Errorf("the operator's own: %s", got)
	}
	if again, err := sqsclient.Protect(t.Context(), service, missing); err != nil || len(again) != 0 {
		t.Errorf("again: %v, %v", again, err)
	}
	if left, err := sqsclient.Check(t.Context(), service, specs); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestAnEmulatorWithoutPoliciesIsLeftAlone(t *testing.T) {
	service := &emulator{fakesqs.New(fakesqs.Config{}), t}
	specs := []sqsclient.QueueSpec{{Name: "p-inbound", MessageRetentionSeconds: 345600, ManagedSSE: true}}
	if _, err := sqsclient.Create(t.Context(), service, specs); err != nil {
		t.Fatal(err)
	}
	open, err := sqsclient.Unprotected(t.Context(), service, specs)
	set, protectErr := sqsclient.Protect(t.Context(), service, specs)
	if err := errors.Join(err, protectErr); err != nil || len(open)+len(set) != 0 {
		t.Errorf("%v, %v, %v", open, set, err)
	}
}

// request is what a condition of a policy is about. A key that the request does not have is not there.
type request map[string]string

// denies evaluates a policy for a request as the reference of IAM says: the conditions of a statement all
// have to hold; Bool does not for a missing key, and StringNotEquals does.
func denies(t *testing.T, text, queue string, r request) bool {
	t.Helper()
	var p struct {
		Statement []struct {
			Effect, Principal, Action, Resource string
			Condition                           map[string]map[string]string
		}
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil || len(p.Statement) == 0 {
		t.Fatalf("%s: %v", text, err)
	}
	denied := false
	for _, s := range p.Statement {
		if s.Effect != "Deny" || s.Principal != "*" || s.Action != "sqs:*" || !strings.HasSuffix(s.Resource, ":"+queue) {
			t.Fatalf("%+v", s)
		}
		all := true
		for operator, keys := range s.Condition {
			for key, want := range keys {
				have, found := r[key]
				switch operator {
				case "Bool":
					all = all && found && have == want
				case "StringNotEquals":
					all = all && have != want
				default:
					t.Fatalf("a condition %s is not known here", operator)
				}
			}
		}
		denied = denied || all
	}
	return denied
}

func TestWhomAQueuePolicyDenies(t *testing.T) {
	service := fakesqs.New(fakesqs.Config{})
	specs := []sqsclient.QueueSpec{{Name: "p-mail-normal", MessageRetentionSeconds: 345600, ManagedSSE: true}}
	if _, err := sqsclient.Create(t.Context(), service, specs); err != nil {
		t.Fatal(err)
	}
	if _, err := sqsclient.Protect(t.Context(), service, specs); err != nil {
		t.Fatal(err)
	}
	const tls, byAWS, account = "aws:SecureTransport", "aws:PrincipalIsAWSService", "aws:PrincipalAccount"
	for name, c := range map[string]struct {
		request request
		denied  bool
	}{
		"a role of the account": {request{tls: "true", byAWS: "false", account: "000000000000"}, false},
		"the same without TLS":  {request{tls: "false", byAWS: "false", account: "000000000000"}, true},
		"another account":       {request{tls: "true", byAWS: "false", account: "444455556666"}, true},
		"a service of AWS":      {request{tls: "true", byAWS: "true"}, false},
	} {
		if got := denies(t, policyText(t, service, "p-mail-normal"), "p-mail-normal", c.request); got != c.denied {
			t.Errorf("%s: denied is %v", name, got)
		}
	}
}
