package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// Mode says who runs the tasks of a lambda.
type Mode string

// The modes of lambdas.
const (
	// ModeManaged means that workers of the SDK run the tasks. It is the default.
	ModeManaged Mode = "managed"
	// ModeDeliver means that each task is a message, which the server puts on an SQS queue when it is due.
	// The body is the payload; consumers need no Kinesin. Delivery is at least once, and Kinesin does not
	// follow the message: there are no attempts, timeouts or backoffs. A server without SQS returns
	// sdk.ErrUnsupported.
	ModeDeliver Mode = "deliver"
)

// Lambda holds a lambda's settings. A zero field means the server's default when a lambda is created, and
// "no change" when it is updated, where LambdaUpdateOptions.Reset names what gets its default again.
type Lambda struct {
	Name       string
	Mode       Mode     // empty: ModeManaged; cannot change
	FIFO       bool     // of ModeDeliver: its queues are FIFO queues; cannot change
	Priorities []string // highest first; cannot change
	// PriorityWeights say how starts are shared out while tasks of several priorities wait: in proportion to
	// the weights, each 1 to 1000. A priority that is not named has weight 1. Empty is strict, the highest
	// priority first. Not for ModeDeliver.
	PriorityWeights map[string]int
	Shards          int           // per priority; can only grow
	MaxAttempts     int           // this and the next three do not apply to ModeDeliver
	Timeout         time.Duration // of one attempt
	BackoffMin      time.Duration
	BackoffMax      time.Duration
	Retention       time.Duration // how long ended tasks are kept
	// KeyRetention is how long a key is held after its task ended in success or delivered; zero: Retention.
	KeyRetention time.Duration
	// PoisonBound is how many attempts in a row may be lost with their workers before a task is dead; zero:
	// 3. Not for ModeDeliver.
	PoisonBound int
	// StartWithin is how long after its due time a task expires that has not started, unless it has a
	// StartBefore of its own; zero: never. Not for ModeDeliver.
	StartWithin time.Duration
	// LimitKeyConcurrency is how many tasks of one limit key run at once, at most 100,000, and LimitKeyRate
	// how many of them start per second, 0.001 to 1,000,000; zero: any number. Not for ModeDeliver.
	LimitKeyConcurrency int
	LimitKeyRate        float64
	// RetryShare is how many retries may start for each first start, 0.01 to 10, so that a failing downstream
	// sees no storm; zero: any number. Not for ModeDeliver.
	RetryShare float64
	// Breaker pauses the lambda while its tasks fail. An update changes it as a whole. Not for ModeDeliver.
	Breaker Breaker

	// Target is what servers call for each task, in place of workers; nil: none. Not for ModeDeliver.
	Target *Target
	// TargetHeaders are those of the calls of an http target, each "name: value" with the name in small letters, at
	// most 16. TargetSecrets sign these calls as Standard Webhooks says: each is "whsec_" and the base64 of 24 to 64
	// bytes; there are two while one is rotated. No answer has them. A target for another host needs new ones.
	TargetHeaders, TargetSecrets []string

	// The fields below are read only.

	TargetHeaderNames []string // of TargetHeaders, in order
	TargetSecretCount int

	Created    time.Time
	Version    uint64 // rises with each change
	Deleting   bool
	ShardsFrom time.Time // from when on new tasks use Shards; zero if they never grew
	Registered bool      // a registration (by Terraform) defines it
	Withdrawn  bool      // its registration is gone: it is deleted when its tasks have ended; until then it takes new ones
	// RegistrationRefused says why the server refuses the registration of this name and leaves the lambda
	// unchanged. It is empty when there is no registration, or when it is accepted.
	RegistrationRefused string
	// Live has live figures. Only Lambdas.Live sets it.
	Live *LambdaStats
}

// Breaker is a circuit breaker: when too many attempts of a lambda fail, the server pauses it by a gate until probes
// succeed.
type Breaker struct {
	Failures float64       // share of the attempts that ended within Window at which it pauses, 0.01 to 1; zero: never
	Window   time.Duration // 10 s to 1 h; zero: 1 min
}

// Target is what servers call for each task of a lambda.
type Target struct {
	// URL is an http or https URL, or the ARN of an AWS Lambda function. {key} and {tag.NAME} in a URL stand for
	// those of the task.
	URL    string
	Method string // of an http target: POST, PUT, PATCH, DELETE or GET; empty: POST
	Slots  int    // how many calls each server makes at a time, up to 10,000; zero: 100
	Async  bool   // of a function: success is that AWS Lambda has the event, and not that the function ran
}

// Lambdas has the calls about the settings of lambdas.
type Lambdas struct{ c *calls }

// Create creates a lambda. duplicate reports that there was one with the same settings. It returns ErrExists if there is
// one with other settings.
func (s Lambdas) Create(ctx context.Context, l Lambda) (created Lambda, duplicate bool, err error) {
	r, err := call(ctx, s.c, "create lambda", s.c.Lambdas.CreateLambda, &kinesinv1.CreateLambdaRequest{Lambda: settable(wirecopy.To[kinesinv1.Lambda](&l))})
	return wirecopy.From[Lambda](r.GetLambda()), r.GetDuplicate(), err
}

// Declared is a lambda as a program declares it: an sdk.Lambda.
type Declared interface {
	Name() string
	Defaults() sdk.Item
}

// Ensure creates a lambda if it does not exist. It does not change one that exists. A setting that is zero is taken
// from the options of NewLambda: MaxAttempts, Timeout, Backoff, and Priority, which becomes the only priority of the
// lambda unless the server would give it that one anyway (high, normal or low).
func (s Lambdas) Ensure(ctx context.Context, declared Declared, settings Lambda) error {
	_, err := s.Get(ctx, declared.Name())
	if !errors.Is(err, sdk.ErrUnknownLambda) {
		return err
	}
	settings.Name = declared.Name()
	settings.complete(declared.Defaults())
	if _, _, err = s.Create(ctx, settings); errors.Is(err, sdk.ErrExists) {
		return nil // another caller created it meanwhile
	}
	return err
}

// complete sets the settings that are zero to those of an item.
func (l *Lambda) complete(item sdk.Item) {
	if len(l.Priorities) == 0 && item.Priority != "" && !slices.Contains(task.PrioritiesDefault(), item.Priority) {
		l.Priorities = []string{item.Priority}
	}
	if l.Mode == ModeDeliver {
		return // it has no attempts
	}
	l.MaxAttempts = cmp.Or(l.MaxAttempts, item.MaxAttempts)
	l.Timeout = cmp.Or(l.Timeout, item.Timeout)
	if l.BackoffMin == 0 && l.BackoffMax == 0 {
		l.BackoffMin, l.BackoffMax = item.BackoffMin, item.BackoffMax
	}
}

// Get returns a lambda's settings.
func (s Lambdas) Get(ctx context.Context, name string) (Lambda, error) {
	r, err := call(ctx, s.c, "get lambda", s.c.Lambdas.GetLambda, &kinesinv1.GetLambdaRequest{Name: name})
	return wirecopy.From[Lambda](r.GetLambda()), err
}

// LambdaLiveOptions are the options of Lambdas.Live.
type LambdaLiveOptions struct {
	// Count also tells how many tasks are due, and the states of tasks where the store does not count these by
	// itself: both take reading tasks, up to 20,000 rows where reads cost money.
	Count bool
}

// Live is Get with live figures in Lambda.Live; nil if the caller may not read the whole lambda, or the server is
// older.
func (s Lambdas) Live(ctx context.Context, name string, o LambdaLiveOptions) (Lambda, error) {
	r, err := callSet(ctx, s.c, "get lambda", s.c.Lambdas.GetLambda, &kinesinv1.GetLambdaRequest{Name: name, Live: true, Count: o.Count})
	return wirecopy.From[Lambda](r.GetLambda()), err
}

// List returns all lambdas.
func (s Lambdas) List(ctx context.Context) ([]Lambda, error) {
	r, err := call(ctx, s.c, "list lambdas", s.c.Lambdas.ListLambdas, &kinesinv1.ListLambdasRequest{})
	return wirecopy.All[Lambda](r.GetLambdas()), err
}

// LambdaUpdateOptions are the options of Lambdas.Update.
type LambdaUpdateOptions struct {
	// Reset names settings that get their defaults again, as JSON has them: max_attempts, timeout, backoff_min,
	// backoff_max, retention, key_retention, poison_bound, start_within, priority_weights, limit_key_concurrency,
	// limit_key_rate, retry_share, breaker, target, target_headers, target_secrets.
	Reset []string
}

// Update changes the settings that are not zero, and resets those of o.Reset. Shards can only grow; new ones are used a
// few minutes later (Lambda.ShardsFrom), by new tasks without a key.
func (s Lambdas) Update(ctx context.Context, l Lambda, o LambdaUpdateOptions) (Lambda, error) {
	request := &kinesinv1.UpdateLambdaRequest{Lambda: settable(wirecopy.To[kinesinv1.Lambda](&l))}
	if err := api.SetMask(request, o.Reset...); err != nil {
		return Lambda{}, fmt.Errorf("update lambda %s: %w", l.Name, err)
	}
	r, err := call(ctx, s.c, "update lambda", s.c.Lambdas.UpdateLambda, request)
	return wirecopy.From[Lambda](r.GetLambda()), err
}

// LambdaDeleteOptions are the options of Lambdas.Delete.
type LambdaDeleteOptions struct {
	DropTasks bool // drop its live tasks instead of refusing
}

// Delete deletes a lambda. It returns ErrRegistered if the lambda is registered, and ErrInUse while it has live tasks,
// or may have some in the inbound queue, unless DropTasks is set. Then it drops them, in as many calls as that takes,
// and returns how many it has dropped, even with an error; tasks that leave the inbound queue later are dropped too,
// and not counted. The lambda accepts no tasks meanwhile. After an error it accepts tasks again two minutes later;
// another call of Delete continues.
func (s Lambdas) Delete(ctx context.Context, name string, o LambdaDeleteOptions) (dropped int64, err error) {
	for begun := false; ; begun = true {
		response, err := s.deleteSome(ctx, name, o.DropTasks, begun)
		dropped += response.GetDropped()
		if err != nil || !response.GetMore() {
			return dropped, err
		}
	}
}

// deleteSome makes one call of a deletion, which drops some tasks. begun says that it is not the first.
func (s Lambdas) deleteSome(ctx context.Context, name string, dropTasks, begun bool) (*kinesinv1.DeleteLambdaResponse, error) {
	return call(ctx, s.c, "delete lambda", func(ctx context.Context, r *kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
		response, err := s.c.Lambdas.DeleteLambda(ctx, r)
		if begun && errors.Is(api.FromWire(err), sdk.ErrUnknownLambda) {
			return response, nil // an earlier try deleted it, and its answer was lost
		}
		begun = true
		return response, err
	}, &kinesinv1.DeleteLambdaRequest{Name: name, DropTasks: dropTasks, GoesOn: true})
}
