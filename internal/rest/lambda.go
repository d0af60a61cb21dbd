package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// settings are those of a lambda that can change. One that is not set keeps its default when the lambda is
// created, and its value when it is changed.
type settings struct {
	Shards       uint32   `json:"shards,omitempty" jsonschema:"partitions of each priority; can only grow"`
	MaxAttempts  uint32   `json:"max_attempts,omitempty"`
	Timeout      duration `json:"timeout,omitzero" jsonschema:"of one attempt"`
	BackoffMin   duration `json:"backoff_min,omitzero"`
	BackoffMax   duration `json:"backoff_max,omitzero"`
	Retention    duration `json:"retention,omitzero" jsonschema:"how long ended tasks are kept"`
	KeyRetention duration `json:"key_retention,omitzero" jsonschema:"how long a key is held after success or delivered; retention when not set"`
	PoisonBound  ordinal  `json:"poison_bound,omitempty" jsonschema:"attempts in a row that are lost with their worker before a task is dead"`
	StartWithin  duration `json:"start_within,omitzero" jsonschema:"a task that did not start so long after its due time ends as expired"`

	RetryShare *float64         `json:"retry_share,omitempty" jsonschema:"how many retries may start for each first start, 0.01 to 10; 0: any number"`
	Breaker    *breakerSettings `json:"breaker,omitempty" jsonschema:"pauses the lambda by itself while most attempts fail; {} takes it away"`

	PriorityWeights map[string]uint32 `json:"priority_weights,omitzero" jsonschema:"how starts are shared out between priorities that wait, each 1 to 1000 (1 when not named); {} is strict, the highest first"`

	LimitKeyConcurrency int32   `json:"limit_key_concurrency,omitempty" jsonschema:"how many tasks of one limit key run at once; any number when not set; -1 takes the limit away"`
	LimitKeyRate        float64 `json:"limit_key_rate,omitempty" jsonschema:"how many tasks of one limit key start per second; any number when not set; -1 takes the limit away"`
}

type breakerSettings struct {
	Failures float64  `json:"failures,omitempty" jsonschema:"share of attempts that fail at which it opens, 0.01 to 1"`
	Window   duration `json:"window,omitzero" jsonschema:"over which they are counted, 10s to 1h; 1m when not set"`
}

type lambdaRequest struct {
	Name       string   `json:"name"`
	Mode       string   `json:"mode,omitempty" jsonschema:"managed (also when not set) or deliver; cannot change"`
	Priorities []string `json:"priorities,omitempty" jsonschema:"highest first; cannot change"`

	settings
}

func (s *settings) wire(name string) *kinesinv1.Lambda {
	return &kinesinv1.Lambda{
		Name: name, Shards: s.Shards, MaxAttempts: s.MaxAttempts, Timeout: s.Timeout.micros(),
		BackoffMin: s.BackoffMin.micros(), BackoffMax: s.BackoffMax.micros(), Retention: s.Retention.micros(),
		KeyRetention: s.KeyRetention.micros(), PoisonBound: s.PoisonBound.uint32(), StartWithin: s.StartWithin.micros(),
		PriorityWeights: s.weights(), LimitKeyConcurrency: s.LimitKeyConcurrency, LimitKeyRate: s.LimitKeyRate,
		RetryShare: s.retryShare(), Breaker: s.Breaker.wire(),
	}
}

// retryShare returns the share as the wire has it, where a negative one takes it away.
func (s *settings) retryShare() float64 {
	switch {
	case s.RetryShare == nil:
		return 0
	case *s.RetryShare == 0:
		return -1
	}
	return *s.RetryShare
}

func (b *breakerSettings) wire() *kinesinv1.Breaker {
	if b == nil {
		return nil
	}
	return &kinesinv1.Breaker{Failures: b.Failures, Window: b.Window.micros()}
}

// weights returns the weights as the wire has them, where 0 for the priority without a name is strict.
func (s *settings) weights() map[string]uint32 {
	if s.PriorityWeights != nil && len(s.PriorityWeights) == 0 {
		return map[string]uint32{"": 0}
	}
	return s.PriorityWeights
}

func createLambda(c *call, r *lambdaRequest) (int, *kinesinv1.Lambda, error) {
	wire := r.wire(r.Name)
	wire.Mode, wire.Priorities = r.Mode, r.Priorities
	response, err := c.Lambdas.CreateLambda(c.r.Context(), &kinesinv1.CreateLambdaRequest{Lambda: wire})
	return created(!response.GetExisted()), response.GetLambda(), err
}

func listLambdas(c *call, _ *none) (int, *kinesinv1.ListLambdasResponse, error) {
	response, err := c.Lambdas.ListLambdas(c.r.Context(), &kinesinv1.ListLambdasRequest{})
	return http.StatusOK, response, err
}

func getLambda(c *call, _ *none) (int, *kinesinv1.Lambda, error) {
	live, err := c.flag("live")
	if err != nil {
		return 0, nil, err
	}
	count, err := c.flag("count")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Lambdas.GetLambda(c.r.Context(), &kinesinv1.GetLambdaRequest{Name: c.vars["lambda"], Live: live || count, Count: count})
	return http.StatusOK, response.GetLambda(), err
}

func updateLambda(c *call, r *settings) (int, *kinesinv1.Lambda, error) {
	response, err := c.Lambdas.UpdateLambda(c.r.Context(), &kinesinv1.UpdateLambdaRequest{Lambda: r.wire(c.vars["lambda"])})
	return http.StatusOK, response.GetLambda(), err
}

// deleteLambda answers 202 when there is more to do than fits into a call.
func deleteLambda(c *call, _ *none) (int, *kinesinv1.DeleteLambdaResponse, error) {
	drop, err := c.flag("drop_tasks")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Lambdas.DeleteLambda(c.r.Context(), &kinesinv1.DeleteLambdaRequest{Name: c.vars["lambda"], DropTasks: drop, GoesOn: drop})
	if err != nil {
		return 0, nil, err
	}
	status := http.StatusOK
	if response.GetMore() {
		status = http.StatusAccepted
	}
	return status, response, nil
}
