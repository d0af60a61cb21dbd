package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	queueNameMax = 80 // characters; SQS's own bound
	dlqSuffix    = "-dlq"
	// inboundName is the part of a name after the prefix that is not a lambda's.
	inboundName = "inbound"

	// managedRetention is how long a message that only Kinesin reads may lie. The store knows better: it
	// sends again.
	managedRetention = 4 * 24 * time.Hour
	// deliverRetention is the longest that SQS keeps a message: what a consumer has not read by then is gone.
	deliverRetention = 14 * 24 * time.Hour
	// DeliverReceivesMax is how often a delivered message is received before it goes to the dead-letter
	// queue.
	DeliverReceivesMax = 10
)

// QueueSpec is one SQS queue as it should be: what setup makes, checks compare and Terraform has.
type QueueSpec struct {
	Name string `json:"name"`
	// VisibilityTimeoutSeconds is 0 where it is the consumer's to choose: SQS's default then, and not
	// compared.
	VisibilityTimeoutSeconds int  `json:"visibility_timeout_seconds,omitempty"`
	MessageRetentionSeconds  int  `json:"message_retention_seconds"`
	ManagedSSE               bool `json:"sqs_managed_sse"`
	// DeadLetterQueue is the name of the queue to which a message goes that was received MaxReceiveCount
	// times; both are unset where there is none.
	DeadLetterQueue string `json:"dead_letter_queue,omitempty"`
	MaxReceiveCount int    `json:"max_receive_count,omitempty"`
}

var prefixForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,20}$`)

// CheckPrefix refuses a prefix that is not 1 to 20 of a–z, A–Z, 0–9, "_" and "-".
func CheckPrefix(prefix string) error {
	if !prefixForm.MatchString(prefix) {
		return fmt.Errorf("%w AWS prefix %q: want 1 to 20 characters of a-z, A-Z, 0-9, '_' and '-'", task.ErrInvalid, prefix)
	}
	return nil
}

// QueueName is the name of the queue of one priority of a lambda.
func QueueName(prefix, lambda, priority string) string { return prefix + "-" + lambda + "-" + priority }

// Queues are the queues of a lambda, in the order in which they can be made.
func Queues(prefix string, l task.Lambda) []QueueSpec {
	specs := make([]QueueSpec, 0, 2*len(l.Priorities))
	for _, priority := range l.Priorities {
		name := QueueName(prefix, l.Name, priority)
		if l.Mode != task.Deliver {
			specs = append(specs, QueueSpec{
				Name: name, VisibilityTimeoutSeconds: seconds(VisibilityDefault),
				MessageRetentionSeconds: seconds(managedRetention), ManagedSSE: true,
			})
			continue
		}
		specs = append(specs,
			QueueSpec{Name: name + dlqSuffix, MessageRetentionSeconds: seconds(deliverRetention), ManagedSSE: true},
			QueueSpec{
				Name: name, MessageRetentionSeconds: seconds(deliverRetention), ManagedSSE: true,
				DeadLetterQueue: name + dlqSuffix, MaxReceiveCount: DeliverReceivesMax,
			})
	}
	return specs
}

func seconds(d time.Duration) int { return int(d / time.Second) }

// queueName is the name of a lane's queue, and what it is for.
func (d *Driver) queueName(key laneKey) (name string, use task.Mode, err error) {
	l, found := d.Lambda(key.lambda)
	if !found || int(key.priority) >= len(l.Priorities) {
		return "", 0, fmt.Errorf("%w: no lambda with reference %08x and priority %d is known here", ErrNoQueue, key.lambda, key.priority)
	}
	return QueueName(d.Prefix, l.Name, l.Priorities[key.priority]), l.Mode, nil
}

// CheckLambda implements queue.Provisioner.
func (d *Driver) CheckLambda(l task.Lambda, planned ...task.Lambda) error {
	var errs []error
	taken := map[string]string{
		d.Prefix + "-" + inboundName:             "that of the inbound buffer",
		d.Prefix + "-" + inboundName + dlqSuffix: "that of the inbound buffer",
	}
	for _, other := range slices.Concat(d.Lambdas(), planned) {
		if other.Name == l.Name {
			continue
		}
		for _, q := range Queues(d.Prefix, other) {
			taken[q.Name] = "one of lambda " + other.Name
		}
	}
	for _, q := range Queues(d.Prefix, l) {
		if len(q.Name) > queueNameMax {
			errs = append(errs, fmt.Errorf("%w lambda %s: its SQS queue would be named %s, which has %d characters and may have %d; "+
				"shorten the lambda's name, its priorities or the AWS prefix", task.ErrInvalid, l.Name, q.Name, len(q.Name), queueNameMax))
		}
		if whose := taken[q.Name]; whose != "" {
			errs = append(errs, fmt.Errorf("%w lambda %s: its SQS queue %s would be %s; choose another name", task.ErrInvalid, l.Name, q.Name, whose))
		}
		taken[q.Name] = "another one of its own"
	}
	return errors.Join(errs...)
}

// Create makes the queues that are missing, and returns their names. Those that are there stay as they are.
// When one may not be made it says which are missing.
func Create(ctx context.Context, api API, specs []QueueSpec) (made []string, err error) {
	arns := map[string]string{}
	for i := range specs {
		spec := &specs[i]
		there, err := find(ctx, api, spec.Name)
		if err != nil {
			return made, err
		}
		if there == "" {
			if there, err = create(ctx, api, spec, arns); err != nil {
				return made, fmt.Errorf("make SQS queue %s (missing: %s): %w", spec.Name, strings.Join(missing(ctx, api, specs[i:]), ", "), err)
			}
			made = append(made, spec.Name)
		}
		if isDeadLetterQueue(specs, spec.Name) {
			attributes, err := attributesOf(ctx, api, spec.Name, there)
			if err != nil {
				return made, err
			}
			arns[spec.Name] = attributes[string(types.QueueAttributeNameQueueArn)]
		}
	}
	return made, nil
}

func isDeadLetterQueue(specs []QueueSpec, name string) bool {
	return slices.ContainsFunc(specs, func(s QueueSpec) bool { return s.DeadLetterQueue == name })
}

// missing are the names of the queues that are not there, as far as can be told.
func missing(ctx context.Context, api API, specs []QueueSpec) []string {
	var names []string
	for i := range specs {
		if url, err := find(ctx, api, specs[i].Name); err == nil && url == "" {
			names = append(names, specs[i].Name)
		}
	}
	return names
}

// ErrNoQueue says that an SQS queue is not there.
var ErrNoQueue = fmt.Errorf("%w in SQS", queue.ErrMissing)

// explain gives an error of a request the seam's word for it, and says what to do about it. One that its
// caller gave up says nothing of SQS.
func explain(err error) error {
	switch {
	case sqsclient.IsMissing(err):
		return fmt.Errorf("%w: %w; `kinesin lambda create` makes the queues of a lambda when it may, `kinesin aws setup` those of all", ErrNoQueue, err)
	case sqsclient.IsPassing(err):
		return fmt.Errorf("%w: %w", queue.ErrUnreachable, err)
	}
	return err
}

// explain is explain, but for a missing queue of a lambda that was registered: setup would be in the way of
// who makes those.
func (d *Driver) explain(name string, err error) error {
	if d.Registered == nil || !sqsclient.IsMissing(err) {
		return explain(err)
	}
	isOf := func(l task.Lambda) bool {
		return d.Registered(l.Name) && slices.ContainsFunc(Queues(d.Prefix, l), func(q QueueSpec) bool { return q.Name == name })
	}
	all := d.Lambdas()
	i := slices.IndexFunc(all, isOf)
	if i < 0 {
		return explain(err)
	}
	return fmt.Errorf("%w: %w; Terraform makes those of lambda %s: apply its module call, or put it back and apply; "+
		"to give the lambda up instead: `kinesin lambda delete %s --drop`", ErrNoQueue, err, all[i].Name, all[i].Name)
}

// explained is explain of a request that is not the client's.
func explained(name, action string, err error) error {
	if sqsclient.IsMissing(err) {
		return explain(fmt.Errorf("SQS queue %s %w", name, sqsclient.ErrMissing))
	}
	return explain(fmt.Errorf("%s of SQS queue %s: %w", action, name, err))
}

// find is the address of a queue; empty when it is not there.
func find(ctx context.Context, api API, name string) (url string, err error) {
	out, err := api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if sqsclient.IsMissing(err) {
		return "", nil
	} else if err != nil {
		return "", explained(name, "GetQueueUrl", err)
	}
	return aws.ToString(out.QueueUrl), nil
}

func create(ctx context.Context, api API, spec *QueueSpec, arns map[string]string) (url string, err error) {
	out, err := api.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &spec.Name, Attributes: spec.attributes(arns)})
	var deleted *types.QueueDeletedRecently
	switch {
	case errors.As(err, &deleted):
		return "", errors.New("a queue of that name was deleted within the last minute; SQS makes it again after 60 seconds")
	case err != nil:
		return "", explain(err)
	}
	return aws.ToString(out.QueueUrl), nil
}

func attributesOf(ctx context.Context, api API, name, url string) (map[string]string, error) {
	out, err := api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, explained(name, "GetQueueAttributes", err)
	}
	return out.Attributes, nil
}

// redrive is the form of SQS's attribute. Its count was text once, and may come as either.
type redrive struct {
	DeadLetterTargetArn string      `json:"deadLetterTargetArn"`
	MaxReceiveCount     json.Number `json:"maxReceiveCount"`
}

func (s *QueueSpec) attributes(arns map[string]string) map[string]string {
	a := map[string]string{
		string(types.QueueAttributeNameMessageRetentionPeriod): strconv.Itoa(s.MessageRetentionSeconds),
		string(types.QueueAttributeNameSqsManagedSseEnabled):   strconv.FormatBool(s.ManagedSSE),
	}
	if s.VisibilityTimeoutSeconds > 0 {
		a[string(types.QueueAttributeNameVisibilityTimeout)] = strconv.Itoa(s.VisibilityTimeoutSeconds)
	}
	if s.DeadLetterQueue != "" {
		text, err := json.Marshal(redrive{arns[s.DeadLetterQueue], json.Number(strconv.Itoa(s.MaxReceiveCount))})
		if err == nil {
			a[string(types.QueueAttributeNameRedrivePolicy)] = string(text)
		}
	}
	return a
}

// Difference is one thing about a queue that is not as it should be.
type Difference struct {
	Queue     string `json:"queue"`
	Attribute string `json:"attribute,omitempty"` // empty when the queue itself is missing
	Have      string `json:"have,omitempty"`
	Want      string `json:"want,omitempty"`
}

func (d Difference) String() string {
	if d.Attribute == "" {
		return fmt.Sprintf("SQS queue %s is missing", d.Queue)
	}
	return fmt.Sprintf("SQS queue %s: %s is %s, want %s", d.Queue, d.Attribute, cmpOrNone(d.Have), cmpOrNone(d.Want))
}

func cmpOrNone(text string) string {
	if text == "" {
		return "not set"
	}
	return text
}

// Check says what is missing or different of the queues. It changes nothing.
func Check(ctx context.Context, api API, specs []QueueSpec) ([]Difference, error) {
	var all []Difference
	for i := range specs {
		spec := &specs[i]
		url, err := find(ctx, api, spec.Name)
		if err != nil {
			return all, err
		}
		if url == "" {
			all = append(all, Difference{Queue: spec.Name})
			continue
		}
		have, err := attributesOf(ctx, api, spec.Name, url)
		if err != nil {
			return all, err
		}
		all = append(all, spec.compare(have)...)
	}
	return all, nil
}

// compare leaves out what the service does not tell: AWS tells everything, emulators do not have everything.
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
	if s.ManagedSSE && have[string(types.QueueAttributeNameKmsMasterKeyId)] == "" { // a key of the user's own is as good
		note(types.QueueAttributeNameSqsManagedSseEnabled, "true")
	}
	switch policy := redriveText(have[string(types.QueueAttributeNameRedrivePolicy)]); {
	case s.DeadLetterQueue != "":
		if want := fmt.Sprintf("to %s after %d receives", s.DeadLetterQueue, s.MaxReceiveCount); policy != want {
			all = append(all, Difference{Queue: s.Name, Attribute: string(types.QueueAttributeNameRedrivePolicy), Have: policy, Want: want})
		}
	case strings.HasPrefix(policy, "to "+s.Name+dlqSuffix+" "): // left by a deliver lambda; one of the operator's own may stay
		all = append(all, Difference{Queue: s.Name, Attribute: string(types.QueueAttributeNameRedrivePolicy), Have: policy})
	}
	return all
}

// redriveText says what a policy does; the policy itself when it cannot be read.
func redriveText(policy string) string {
	if policy == "" {
		return ""
	}
	var r redrive
	if err := json.Unmarshal([]byte(policy), &r); err != nil {
		return policy
	}
	name := r.DeadLetterTargetArn[strings.LastIndexByte(r.DeadLetterTargetArn, ':')+1:]
	return fmt.Sprintf("to %s after %s receives", name, r.MaxReceiveCount)
}

// Align sets what is different about queues that are there, as setup does; it returns what it changed.
func Align(ctx context.Context, api API, specs []QueueSpec) ([]Difference, error) {
	differences, err := Check(ctx, api, specs)
	if err != nil {
		return nil, err
	}
	var changed []Difference
	for i := range specs {
		spec := &specs[i]
		theirs := ofQueue(differences, spec.Name)
		if len(theirs) == 0 {
			continue
		}
		if err := align(ctx, api, spec, theirs); err != nil {
			return changed, err
		}
		changed = append(changed, theirs...)
	}
	return changed, nil
}

// ofQueue are the differences of attributes of one queue.
func ofQueue(all []Difference, name string) []Difference {
	var theirs []Difference
	for _, d := range all {
		if d.Queue == name && d.Attribute != "" {
			theirs = append(theirs, d)
		}
	}
	return theirs
}

func align(ctx context.Context, api API, spec *QueueSpec, differences []Difference) error {
	url, err := find(ctx, api, spec.Name)
	if err != nil {
		return err
	}
	arns := map[string]string{}
	if spec.DeadLetterQueue != "" {
		dlq, err := find(ctx, api, spec.DeadLetterQueue)
		if err != nil {
			return err
		}
		attributes, err := attributesOf(ctx, api, spec.DeadLetterQueue, dlq)
		if err != nil {
			return err
		}
		arns[spec.DeadLetterQueue] = attributes[string(types.QueueAttributeNameQueueArn)]
	}
	attributes, changed := spec.attributes(arns), map[string]string{}
	for _, d := range differences {
		changed[d.Attribute] = attributes[d.Attribute]
	}
	_, err = api.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: changed})
	if err != nil {
		return explained(spec.Name, "SetQueueAttributes", err)
	}
	return nil
}
