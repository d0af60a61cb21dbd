package sqsclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// policyWords says what the policy of a queue does that Protect sets.
const policyWords = "one that denies requests without TLS and from other accounts"

const policyAttribute = string(types.QueueAttributeNamePolicy)

// Unprotected returns the existing queues that have no policy. It skips those of services that do not say how
// a queue is encrypted, which AWS does: such emulators keep no policies either, so nobody could set one.
func Unprotected(ctx context.Context, api SetupAPI, specs []QueueSpec) ([]Difference, error) {
	var all []Difference
	err := eachUnprotected(ctx, api, specs, func(spec *QueueSpec, _ string) error {
		all = append(all, Difference{Queue: spec.Name, Attribute: policyAttribute, Want: policyWords})
		return nil
	})
	return all, err
}

// Protect gives a policy to existing queues that have none, and returns which. It leaves every other
// policy as it is, which is the choice of an operator or of Terraform.
//
// The policy denies what no caller of Kinesin does: requests without TLS, and those of other accounts. It
// does not name roles, as that of the Terraform modules does, since who makes a queue here does not know
// which roles servers have: a wrong name would keep them from their queues.
func Protect(ctx context.Context, api SetupAPI, specs []QueueSpec) ([]Difference, error) {
	var all []Difference
	err := eachUnprotected(ctx, api, specs, func(spec *QueueSpec, arn string) error {
		policy, err := policyOf(arn)
		if err != nil {
			return fmt.Errorf("SQS queue %s: %w", spec.Name, err)
		}
		url, err := find(ctx, api, spec.Name)
		if err != nil {
			return err
		}
		if _, err = api.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{policyAttribute: policy}}); err != nil {
			return named("SetQueueAttributes", spec.Name, err)
		}
		all = append(all, Difference{Queue: spec.Name, Attribute: policyAttribute, Want: policyWords})
		return nil
	})
	return all, err
}

func eachUnprotected(ctx context.Context, api SetupAPI, specs []QueueSpec, f func(spec *QueueSpec, arn string) error) error {
	for i := range specs {
		have, err := Describe(ctx, api, specs[i].Name)
		if err != nil {
			return err
		}
		_, managed := have[string(types.QueueAttributeNameSqsManagedSseEnabled)]
		_, own := have[string(types.QueueAttributeNameKmsMasterKeyId)]
		if !managed && !own || have[policyAttribute] != "" {
			continue
		}
		if err := f(&specs[i], have[string(types.QueueAttributeNameQueueArn)]); err != nil {
			return err
		}
	}
	return nil
}

// policy is the form of SQS's attribute.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid       string
	Effect    string
	Principal string
	Action    string
	Resource  string
	Condition map[string]map[string]string
}

// policyOf returns the policy of a queue. Calls that AWS makes as itself are of no account and stay as they
// were: nothing allows them, and SQS's own work on a queue is not to fail.
func policyOf(arn string) (string, error) {
	parts := strings.Split(arn, ":") // arn:aws:sqs:REGION:ACCOUNT:NAME
	if len(parts) != 6 || parts[4] == "" {
		return "", fmt.Errorf("its ARN is %q: want one with an account", arn)
	}
	deny := func(sid string, condition map[string]map[string]string) statement {
		return statement{Sid: sid, Effect: "Deny", Principal: "*", Action: "sqs:*", Resource: arn, Condition: condition}
	}
	text, err := json.Marshal(policy{Version: "2012-10-17", Statement: []statement{
		deny("OnlyOverTLS", map[string]map[string]string{"Bool": {"aws:SecureTransport": "false"}}),
		deny("OnlyThisAccount", map[string]map[string]string{
			"Bool":            {"aws:PrincipalIsAWSService": "false"},
			"StringNotEquals": {"aws:PrincipalAccount": parts[4]},
		}),
	}})
	return string(text), err
}
