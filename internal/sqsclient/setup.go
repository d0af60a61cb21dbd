package sqsclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// SetupAPI has the calls of the AWS SDK that create, check and align queues; *sqs.Client has them.
type SetupAPI interface {
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	GetQueueAttributes(ctx context.Context, in *sqs.GetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	SetQueueAttributes(ctx context.Context, in *sqs.SetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.SetQueueAttributesOutput, error)
	CreateQueue(ctx context.Context, in *sqs.CreateQueueInput, options ...func(*sqs.Options)) (*sqs.CreateQueueOutput, error)
}

// DLQSuffix ends the name of a queue's own dead-letter queue, before FIFOSuffix.
const DLQSuffix = "-dlq"

// FIFOSuffix ends the name of a FIFO queue.
const FIFOSuffix = ".fifo"

// IsFIFO reports whether a queue, by its name or URL, is a FIFO queue.
func IsFIFO(queue string) bool { return strings.HasSuffix(queue, FIFOSuffix) }

// DLQName returns the name of a queue's own dead-letter queue, which is a FIFO queue if that one is.
func DLQName(queue string) string {
	if name, is := strings.CutSuffix(queue, FIFOSuffix); is {
		return name + DLQSuffix + FIFOSuffix
	}
	return queue + DLQSuffix
}

// QueueSpec are the attributes that a queue must have. Setup creates them, checks compare them, and Terraform
// has the same.
type QueueSpec struct {
	Name string `json:"name"`
	// VisibilityTimeoutSeconds is 0 where the consumer chooses it: SQS's default then, and not compared.
	VisibilityTimeoutSeconds int  `json:"visibility_timeout_seconds,omitempty"`
	MessageRetentionSeconds  int  `json:"message_retention_seconds"`
	ManagedSSE               bool `json:"sqs_managed_sse"`
	// DeadLetterQueue is the name of the queue that gets messages received MaxReceiveCount times; both are
	// unset where there is none.
	DeadLetterQueue string `json:"dead_letter_queue,omitempty"`
	MaxReceiveCount int    `json:"max_receive_count,omitempty"`
}

// Difference is one difference between a queue and its spec.
type Difference struct {
	Queue     string `json:"queue"`
	Attribute string `json:"attribute,omitempty"` // empty when the queue itself is missing
	Have      string `json:"have,omitempty"`
	Want      string `json:"want,omitempty"`
}

// String returns the difference in a sentence.
func (d Difference) String() string {
	if d.Attribute == "" {
		return fmt.Sprintf("SQS queue %s is missing", d.Queue)
	}
	const unset = "not set"
	return fmt.Sprintf("SQS queue %s: %s is %s, want %s", d.Queue, d.Attribute, cmp.Or(d.Have, unset), cmp.Or(d.Want, unset))
}

// Create creates the queues that are missing and returns their names. It leaves the others as they are. When
// it may not create one, the error names all that are missing.
func Create(ctx context.Context, api SetupAPI, specs []QueueSpec) (created []string, err error) {
	arns := map[string]string{}
	for i := range specs {
		spec := &specs[i]
		have, err := Describe(ctx, api, spec.Name)
		if err != nil {
			return created, err
		}
		if have == nil {
			if err := create(ctx, api, spec, arns); err != nil {
				return created, fmt.Errorf("make SQS queue %s (missing: %s): %w", spec.Name, strings.Join(missing(ctx, api, specs[i:]), ", "), err)
			}
			created = append(created, spec.Name)
			if !IsDeadLetterQueue(specs, spec.Name) {
				continue
			}
			if have, err = Describe(ctx, api, spec.Name); err != nil {
				return created, err
			}
		}
		arns[spec.Name] = have[string(types.QueueAttributeNameQueueArn)]
	}
	return created, nil
}

// IsDeadLetterQueue reports whether a queue is the dead-letter queue of one of the specs.
func IsDeadLetterQueue(specs []QueueSpec, name string) bool {
	return slices.ContainsFunc(specs, func(s QueueSpec) bool { return s.DeadLetterQueue == name })
}

// missing returns the names of the queues that do not exist. It skips those that it cannot look up.
func missing(ctx context.Context, api SetupAPI, specs []QueueSpec) []string {
	var names []string
	for i := range specs {
		if url, err := find(ctx, api, specs[i].Name); err == nil && url == "" {
			names = append(names, specs[i].Name)
		}
	}
	return names
}

func create(ctx context.Context, api SetupAPI, spec *QueueSpec, arns map[string]string) error {
	_, err := api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &spec.Name, Attributes: spec.attributes(arns)})
	if _, found := errors.AsType[*types.QueueDeletedRecently](err); found {
		return errors.New("a queue of that name was deleted within the last minute; SQS makes it again after 60 seconds")
	}
	return err
}

// find returns the URL of a queue; empty when it does not exist.
func find(ctx context.Context, api SetupAPI, name string) (url string, err error) {
	out, err := api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if IsMissing(err) {
		return "", nil
	} else if err != nil {
		return "", named("GetQueueUrl", name, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

// Describe returns all attributes of a queue; nil when it does not exist.
func Describe(ctx context.Context, api SetupAPI, name string) (attributes map[string]string, err error) {
	url, err := find(ctx, api, name)
	if err != nil || url == "" {
		return nil, err
	}
	out, err := api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, named("GetQueueAttributes", name, err)
	}
	if out.Attributes == nil {
		return map[string]string{}, nil
	}
	return out.Attributes, nil
}

// redrivePolicy is the form of SQS's attribute. The count may be a number or text.
type redrivePolicy struct {
	DeadLetterTargetArn string      `json:"deadLetterTargetArn"`
	MaxReceiveCount     json.Number `json:"maxReceiveCount"`
}

// RedriveText returns the redrive policy among a queue's attributes in words: empty when there is none, and
// as it stands when it cannot be parsed.
func RedriveText(attributes map[string]string) string {
	policy := attributes[string(types.QueueAttributeNameRedrivePolicy)]
	if policy == "" {
		return ""
	}
	var r redrivePolicy
	if err := json.Unmarshal([]byte(policy), &r); err != nil {
		return policy
	}
	name := r.DeadLetterTargetArn[strings.LastIndexByte(r.DeadLetterTargetArn, ':')+1:]
	return fmt.Sprintf("to %s after %s receives", name, r.MaxReceiveCount)
}

func (s *QueueSpec) attributes(arns map[string]string) map[string]string {
	a := map[string]string{
		string(types.QueueAttributeNameMessageRetentionPeriod): strconv.Itoa(s.MessageRetentionSeconds),
		string(types.QueueAttributeNameSqsManagedSseEnabled):   strconv.FormatBool(s.ManagedSSE),
	}
	if IsFIFO(s.Name) {
		a[string(types.QueueAttributeNameFifoQueue)] = "true"
	}
	if s.VisibilityTimeoutSeconds > 0 {
		a[string(types.QueueAttributeNameVisibilityTimeout)] = strconv.Itoa(s.VisibilityTimeoutSeconds)
	}
	if s.DeadLetterQueue != "" {
		text, err := json.Marshal(redrivePolicy{arns[s.DeadLetterQueue], json.Number(strconv.Itoa(s.MaxReceiveCount))})
		if err == nil {
			a[string(types.QueueAttributeNameRedrivePolicy)] = string(text)
		}
	}
	return a
}

// Check returns how the queues differ from their specs. It changes nothing.
func Check(ctx context.Context, api SetupAPI, specs []QueueSpec) ([]Difference, error) {
	var all []Difference
	for i := range specs {
		have, err := Describe(ctx, api, specs[i].Name)
		if err != nil {
			return all, err
		}
		if have == nil {
			all = append(all, Difference{Queue: specs[i].Name})
			continue
		}
		all = append(all, specs[i].compare(have)...)
	}
	return all, nil
}

// compare skips attributes that the service does not return: AWS returns all, emulators do not.
func (s *QueueSpec) compare(have map[string]string) []Difference {
	var all []Difference
	note := func(name types.QueueAttributeName, want string) {
		if value, told := have[string(name)]; told && value != want {
			all = append(all, Difference{Queue: s.Name, Attribute: string(name), Have: value, Want: want})
		}
	}
	note(types.QueueAttributeNameMessageRetentionPeriod, strconv.Itoa(s.MessageRetentionSeconds))
	if s.VisibilityTimeoutSeconds > 0 {
		note(types.QueueAttributeNameVisibilityTimeout, strconv.Itoa(s.VisibilityTimeoutSeconds))
	}
	if s.ManagedSSE && have[string(types.QueueAttributeNameKmsMasterKeyId)] == "" { // the user's own key is as good
		note(types.QueueAttributeNameSqsManagedSseEnabled, "true")
	}
	redrive := Difference{Queue: s.Name, Attribute: string(types.QueueAttributeNameRedrivePolicy), Have: RedriveText(have)}
	if s.DeadLetterQueue != "" {
		redrive.Want = fmt.Sprintf("to %s after %d receives", s.DeadLetterQueue, s.MaxReceiveCount)
	}
	// Where none is wanted, only one that a deliver lambda left is wrong; the operator's own may stay.
	if redrive.Have != redrive.Want && (redrive.Want != "" || strings.HasPrefix(redrive.Have, "to "+DLQName(s.Name)+" ")) {
		all = append(all, redrive)
	}
	return all
}

// Align changes the attributes of existing queues that differ from their specs, and returns what it changed.
func Align(ctx context.Context, api SetupAPI, specs []QueueSpec) ([]Difference, error) {
	differences, err := Check(ctx, api, specs)
	if err != nil {
		return nil, err
	}
	var changed []Difference
	for i := range specs {
		var wrong []Difference
		for _, d := range differences {
			if d.Queue == specs[i].Name && d.Attribute != "" {
				wrong = append(wrong, d)
			}
		}
		if len(wrong) == 0 {
			continue
		}
		if err := align(ctx, api, &specs[i], wrong); err != nil {
			return changed, err
		}
		changed = append(changed, wrong...)
	}
	return changed, nil
}

func align(ctx context.Context, api SetupAPI, spec *QueueSpec, differences []Difference) error {
	url, err := find(ctx, api, spec.Name)
	if err != nil {
		return err
	}
	arns := map[string]string{}
	if spec.DeadLetterQueue != "" {
		dlq, err := Describe(ctx, api, spec.DeadLetterQueue)
		if err != nil {
			return err
		}
		arns[spec.DeadLetterQueue] = dlq[string(types.QueueAttributeNameQueueArn)]
	}
	attributes, changed := spec.attributes(arns), map[string]string{}
	for _, d := range differences {
		changed[d.Attribute] = attributes[d.Attribute]
	}
	_, err = api.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: changed})
	if err != nil {
		return named("SetQueueAttributes", spec.Name, err)
	}
	return nil
}

// Count returns an attribute that is a number; 0 when there is none.
func Count(attributes map[string]string, name types.QueueAttributeName) int {
	n, err := strconv.Atoi(attributes[string(name)])
	if err != nil {
		return 0
	}
	return max(n, 0)
}

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
