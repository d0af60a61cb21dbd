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

	RetryShare *float64 `json:"retry_share,omitempty" jsonschema:"how many retries may start for each first start, 0.01 to 10; 0: any number"`
	Breaker    *breaker `json:"breaker,omitempty" jsonschema:"pauses the lambda by itself while most attempts fail; {} takes it away"`

	PriorityWeights map[string]uint32 `json:"priority_weights,omitzero" jsonschema:"how starts are shared out between priorities that wait, each 1 to 1000 (1 when not named); {} is strict, the highest first"`

	LimitKeyConcurrency int32   `json:"limit_key_concurrency,omitempty" jsonschema:"how many tasks of one limit key run at once; any number when not set; -1 takes the limit away"`
	LimitKeyRate        float64 `json:"limit_key_rate,omitempty" jsonschema:"how many tasks of one limit key start per second; any number when not set; -1 takes the limit away"`
}

type breaker struct {
	Failures float64  `json:"failures,omitempty" jsonschema:"share of attempts that fail at which it opens, 0.01 to 1"`
	Window   duration `json:"window,omitzero" jsonschema:"over which they are counted, 10s to 1h; 1m when not set"`
}

type lambdaRequest struct {
	Name       string   `json:"name"`
	Mode       string   `json:"mode,omitempty" jsonschema:"managed (also when not set) or deliver; cannot change"`
	Priorities []string `json:"priorities,omitempty" jsonschema:"highest first; cannot change"`

	settings
}

type lambdaView struct {
	lambdaRequest

	Created             moment `json:"created,omitzero"`
	Version             uint64 `json:"version,omitempty"`
	Deleting            bool   `json:"deleting,omitempty"`
	Registered          bool   `json:"registered,omitempty" jsonschema:"a registration (by Terraform) defines it"`
	Withdrawn           bool   `json:"withdrawn,omitempty" jsonschema:"its registration is gone: it is deleted when its tasks have ended"`
	RegistrationRefused string `json:"registration_refused,omitempty" jsonschema:"why the registration of its name is refused"`
	ShardsFrom          moment `json:"shards_from,omitzero" jsonschema:"from when on new tasks use shards"`

	Live *lambdaStatistics `json:"live,omitempty" jsonschema:"live figures, where one lambda is read with live=true, for who may read it whole"`
}

type lambdaList struct {
	Lambdas []lambdaView `json:"lambdas"`
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

func (b *breaker) wire() *kinesinv1.Breaker {
	if b == nil {
		return nil
	}
	return &kinesinv1.Breaker{Failures: b.Failures, Window: b.Window.micros()}
}

// brakesOf returns the retry share and the breaker of a lambda, nil where there is none.
func brakesOf(l *kinesinv1.Lambda) (share *float64, b *breaker) {
	if l.GetRetryShare() > 0 {
		share = new(l.GetRetryShare())
	}
	if l.GetBreaker() != nil {
		b = &breaker{l.GetBreaker().GetFailures(), durationOf(l.GetBreaker().GetWindow())}
	}
	return share, b
}

// weights returns the weights as the wire has them, where 0 for the priority without a name is strict.
func (s *settings) weights() map[string]uint32 {
	if s.PriorityWeights != nil && len(s.PriorityWeights) == 0 {
		return map[string]uint32{"": 0}
	}
	return s.PriorityWeights
}

func lambdaViewOf(l *kinesinv1.Lambda) lambdaView {
	share, b := brakesOf(l)
	return lambdaView{
		lambdaRequest: lambdaRequest{
			Name: l.GetName(), Mode: l.GetMode(), Priorities: l.GetPriorities(),
			settings: settings{
				Shards: l.GetShards(), MaxAttempts: l.GetMaxAttempts(), Timeout: durationOf(l.GetTimeout()),
				BackoffMin: durationOf(l.GetBackoffMin()), BackoffMax: durationOf(l.GetBackoffMax()), Retention: durationOf(l.GetRetention()),
				KeyRetention: durationOf(l.GetKeyRetention()), PoisonBound: ordinal(l.GetPoisonBound()), StartWithin: durationOf(l.GetStartWithin()),
				PriorityWeights: l.GetPriorityWeights(), LimitKeyConcurrency: l.GetLimitKeyConcurrency(), LimitKeyRate: l.GetLimitKeyRate(),
				RetryShare: share, Breaker: b,
			},
		},
		Created: moment(l.GetCreated()), Version: l.GetVersion(), Deleting: l.GetDeleting(), Registered: l.GetRegistered(), Withdrawn: l.GetWithdrawn(),
		RegistrationRefused: l.GetRegistrationRefused(), ShardsFrom: moment(l.GetShardsFrom()),
	}
}

func createLambda(c *call, r *lambdaRequest) (int, *lambdaView, error) {
	wire := r.wire(r.Name)
	wire.Mode, wire.Priorities = r.Mode, r.Priorities
	response, err := c.Lambdas.CreateLambda(c.r.Context(), &kinesinv1.CreateLambdaRequest{Lambda: wire})
	return answer(created(!response.GetExisted()), response.GetLambda(), err, lambdaViewOf)
}

func listLambdas(c *call, _ *none) (int, *lambdaList, error) {
	response, err := c.Lambdas.ListLambdas(c.r.Context(), &kinesinv1.ListLambdasRequest{})
	return http.StatusOK, &lambdaList{Lambdas: viewsOf(response.GetLambdas(), lambdaViewOf)}, err
}

func getLambda(c *call, _ *none) (int, *lambdaView, error) {
	live, err := c.flag("live")
	if err != nil {
		return 0, nil, err
	}
	count, err := c.flag("count")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Lambdas.GetLambda(c.r.Context(), &kinesinv1.GetLambdaRequest{Name: c.vars["lambda"], Live: live || count, Count: count})
	if err != nil {
		return 0, nil, err
	}
	v := lambdaViewOf(response.GetLambda())
	if figures := response.GetLambda().GetLive(); figures != nil {
		of := lambdaStatisticsOf(figures)
		v.Live = &of
	}
	return http.StatusOK, &v, nil
}

func updateLambda(c *call, r *settings) (int, *lambdaView, error) {
	response, err := c.Lambdas.UpdateLambda(c.r.Context(), &kinesinv1.UpdateLambdaRequest{Lambda: r.wire(c.vars["lambda"])})
	return answer(http.StatusOK, response.GetLambda(), err, lambdaViewOf)
}

type lambdaDeleted struct {
	Dropped int64 `json:"dropped" jsonschema:"live tasks that this call dropped"`
	More    bool  `json:"more" jsonschema:"it is not deleted yet, and takes no tasks: call again, within two minutes"`
}

// deleteLambda answers 202 when there is more to do than fits into a call.
func deleteLambda(c *call, _ *none) (int, *lambdaDeleted, error) {
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
	return status, &lambdaDeleted{response.GetDropped(), response.GetMore()}, nil
}
