package sdk

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// The modes of a lambda.
const (
	// ModeManaged means that workers of the SDK run the tasks. It is the default.
	ModeManaged = "managed"
	// ModeDeliver means that each task is a message, which the server puts on an SQS queue when it is due.
	// The body is the payload; consumers need no Kinesin. Delivery is at least once, and Kinesin does not
	// follow the message: there are no attempts, timeouts or backoffs. A server without SQS returns
	// ErrUnsupported.
	ModeDeliver = "deliver"
)

// LambdaInfo holds a lambda's settings. A zero field means the server's default when a lambda is created, and
// "no change" when it is updated.
type LambdaInfo struct {
	Name       string
	Mode       string   // ModeManaged or ModeDeliver; cannot change
	Priorities []string // highest first; cannot change
	// PriorityWeights say how starts are shared out while tasks of several priorities wait: in proportion to
	// the weights, each 1 to 1000. A priority that is not named has weight 1. nil is strict, the highest
	// priority first; so is an empty map, with which an update takes the weights away. Not for ModeDeliver.
	PriorityWeights map[string]int
	Shards          int           // per priority; can only grow
	MaxAttempts     int           // this and the next three do not apply to ModeDeliver
	Timeout         time.Duration // of one attempt
	BackoffMin      time.Duration
	BackoffMax      time.Duration
	Retention       time.Duration // how long ended tasks are kept
	// KeyRetention is how long a key is held after its task ended in success or delivered; zero: Retention.
	// An update with a negative value unsets it, as it does StartWithin.
	KeyRetention time.Duration
	// PoisonBound is how many attempts in a row may be lost with their workers before a task is dead; zero:
	// 3. Not for ModeDeliver.
	PoisonBound int
	// StartWithin is how long after its due time a task expires that has not started, unless it has a
	// StartBefore of its own; zero: never. Not for ModeDeliver.
	StartWithin time.Duration
	// LimitKeyConcurrency is how many tasks of one limit key run at once, at most 100,000, and LimitKeyRate
	// how many of them start per second, 0.001 to 1,000,000; zero: any number. An update with a negative
	// value takes a limit away. Not for ModeDeliver.
	LimitKeyConcurrency int
	LimitKeyRate        float64
	// RetryShare is how many retries may start for each first start, 0.01 to 10, so that a failing downstream
	// sees no storm; zero: any number. An update with a negative value unsets it. Not for ModeDeliver.
	RetryShare float64
	// BreakerFailures makes a circuit breaker: when this share of the attempts that ended within
	// BreakerWindow has failed, 0.01 to 1, the server pauses the lambda by a gate until probes succeed; zero:
	// never. BreakerWindow is 10 s to 1 h; zero: 1 min. An update with negative BreakerFailures takes the
	// breaker away. Not for ModeDeliver.
	BreakerFailures float64
	BreakerWindow   time.Duration

	// The fields below are read only.

	Created    time.Time
	Deleting   bool
	ShardsFrom time.Time // from when on new tasks use Shards; zero if they never grew
	Registered bool      // a registration (by Terraform) defines it
	Withdrawn  bool      // its registration is gone: it is deleted when its tasks have ended; until then it takes new ones
	// RegistrationRefused says why the server refuses the registration of this name and leaves the lambda
	// unchanged. It is empty when there is no registration, or when it is accepted.
	RegistrationRefused string
	// Live has live figures. Only GetLambdaLive sets it.
	Live *LambdaStats
}

// CreateLambda creates a lambda. existed reports that there was one with the same settings. It returns
// ErrExists if there is one with other settings.
func (c *Client) CreateLambda(ctx context.Context, l LambdaInfo) (created LambdaInfo, existed bool, err error) {
	response, err := call(ctx, c, "create lambda", c.backend.lambdas.CreateLambda, &kinesinv1.CreateLambdaRequest{Lambda: l.wire()})
	if err != nil {
		return LambdaInfo{}, false, err
	}
	return lambdaInfoOf(response.Lambda), response.Existed, nil
}

// GetLambda returns a lambda's settings.
func (c *Client) GetLambda(ctx context.Context, name string) (LambdaInfo, error) {
	response, err := call(ctx, c, "get lambda", c.backend.lambdas.GetLambda, &kinesinv1.GetLambdaRequest{Name: name})
	if err != nil {
		return LambdaInfo{}, err
	}
	return lambdaInfoOf(response.Lambda), nil
}

// ListLambdas returns all lambdas.
func (c *Client) ListLambdas(ctx context.Context) ([]LambdaInfo, error) {
	response, err := call(ctx, c, "list lambdas", c.backend.lambdas.ListLambdas, &kinesinv1.ListLambdasRequest{})
	if err != nil {
		return nil, err
	}
	return listOf(response.GetLambdas(), lambdaInfoOf), nil
}

// UpdateLambda changes the settings that are not zero. Shards can only grow; new ones are used a few minutes
// later (LambdaInfo.ShardsFrom), by new tasks without a key.
func (c *Client) UpdateLambda(ctx context.Context, l LambdaInfo) (LambdaInfo, error) {
	response, err := call(ctx, c, "update lambda", c.backend.lambdas.UpdateLambda, &kinesinv1.UpdateLambdaRequest{Lambda: l.wire()})
	if err != nil {
		return LambdaInfo{}, err
	}
	return lambdaInfoOf(response.Lambda), nil
}

// DeleteLambda deletes a lambda. It returns ErrRegistered if the lambda is registered, and ErrInUse while it
// has live tasks, or may have some in the inbound queue, unless dropTasks is set. Then it drops them, in as
// many calls as that takes, and returns how many it has dropped, even with an error; tasks that leave the
// inbound queue later are dropped too, and not counted. The lambda accepts no tasks meanwhile. After an error
// it accepts tasks again two minutes later; another call of DeleteLambda continues.
func (c *Client) DeleteLambda(ctx context.Context, name string, dropTasks bool) (dropped int64, err error) {
	for begun := false; ; begun = true {
		response, err := c.deleteSome(ctx, name, dropTasks, begun)
		dropped += response.GetDropped()
		if err != nil || !response.GetMore() {
			return dropped, err
		}
	}
}

// deleteSome makes one call of a deletion, which drops some tasks. begun says that it is not the first.
func (c *Client) deleteSome(ctx context.Context, name string, dropTasks, begun bool) (response *kinesinv1.DeleteLambdaResponse, err error) {
	err = c.retry(ctx, "delete lambda", func(ctx context.Context) (err error) {
		response, err = once(ctx, c.cfg.Clock, c.cfg.CallTimeout, c.backend.lambdas.DeleteLambda,
			&kinesinv1.DeleteLambdaRequest{Name: name, DropTasks: dropTasks, GoesOn: true})
		if begun && errors.Is(err, ErrUnknownLambda) {
			return nil // an earlier try deleted it, and its answer was lost
		}
		begun = true
		return err
	})
	return response, err
}

func (l *LambdaInfo) wire() *kinesinv1.Lambda {
	return &kinesinv1.Lambda{
		Name: l.Name, Mode: l.Mode, Priorities: l.Priorities, Shards: uint32(max(l.Shards, 0)), MaxAttempts: uint32(max(l.MaxAttempts, 0)),
		Timeout: l.Timeout.Microseconds(), BackoffMin: l.BackoffMin.Microseconds(), BackoffMax: l.BackoffMax.Microseconds(),
		Retention: l.Retention.Microseconds(), KeyRetention: l.KeyRetention.Microseconds(),
		PoisonBound: uint32(max(l.PoisonBound, 0)), StartWithin: l.StartWithin.Microseconds(),
		PriorityWeights:     wireWeights(l.PriorityWeights),
		LimitKeyConcurrency: int32(min(max(l.LimitKeyConcurrency, -1), math.MaxInt32)), LimitKeyRate: l.LimitKeyRate,
		RetryShare: l.RetryShare, Breaker: l.wireBreaker(),
	}
}

// wireBreaker returns the breaker as the wire has it, where one of zeros is none any more.
func (l *LambdaInfo) wireBreaker() *kinesinv1.Breaker {
	if l.BreakerFailures == 0 && l.BreakerWindow == 0 {
		return nil
	}
	return &kinesinv1.Breaker{Failures: max(l.BreakerFailures, 0), Window: l.BreakerWindow.Microseconds()}
}

// wireWeights returns weights as the wire has them, where 0 for the priority without a name is strict.
func wireWeights(weights map[string]int) map[string]uint32 {
	if weights == nil {
		return nil
	}
	if len(weights) == 0 {
		return map[string]uint32{"": 0}
	}
	wire := make(map[string]uint32, len(weights))
	for name, weight := range weights {
		wire[name] = uint32(min(max(weight, 0), math.MaxUint32)) // the server refuses what is out of bounds
	}
	return wire
}

func weightsOf(wire map[string]uint32) map[string]int {
	if len(wire) == 0 {
		return nil
	}
	weights := make(map[string]int, len(wire))
	for name, weight := range wire {
		weights[name] = int(weight)
	}
	return weights
}

func lambdaInfoOf(w *kinesinv1.Lambda) LambdaInfo {
	return LambdaInfo{
		Name: w.GetName(), Mode: w.GetMode(), Priorities: w.GetPriorities(), Shards: int(w.GetShards()), MaxAttempts: int(w.GetMaxAttempts()),
		Timeout: task.Micros(w.GetTimeout()), BackoffMin: task.Micros(w.GetBackoffMin()), BackoffMax: task.Micros(w.GetBackoffMax()),
		Retention: task.Micros(w.GetRetention()), Created: timeOf(w.GetCreated()), Deleting: w.GetDeleting(), ShardsFrom: timeOf(w.GetShardsFrom()), Registered: w.GetRegistered(),
		KeyRetention: task.Micros(w.GetKeyRetention()), PoisonBound: int(w.GetPoisonBound()), StartWithin: task.Micros(w.GetStartWithin()),
		PriorityWeights: weightsOf(w.GetPriorityWeights()), Withdrawn: w.GetWithdrawn(), RegistrationRefused: w.GetRegistrationRefused(),
		LimitKeyConcurrency: int(w.GetLimitKeyConcurrency()), LimitKeyRate: w.GetLimitKeyRate(),
		RetryShare: w.GetRetryShare(), BreakerFailures: w.GetBreaker().GetFailures(), BreakerWindow: task.Micros(w.GetBreaker().GetWindow()),
	}
}
