package sdk

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// The modes of a lambda.
const (
	// ModeManaged has workers of Kinesin run its tasks. It is the default.
	ModeManaged = "managed"
	// ModeDeliver has its tasks put on a queue of the server's (SQS) when they are due, for consumers that
	// need no Kinesin: the body is the payload as it is. What happens there is not Kinesin's: there are no
	// attempts, no timeout and no backoff, and delivery is at least once. A server without such a queue
	// refuses it with ErrUnsupported.
	ModeDeliver = "deliver"
)

// LambdaInfo is a lambda's settings. A zero field means the server's default
// when a lambda is created, and "as it is" when one is updated.
type LambdaInfo struct {
	Name        string
	Mode        string        // ModeManaged or ModeDeliver; cannot change
	Priorities  []string      // highest first; cannot change
	Shards      int           // per priority; only grow
	MaxAttempts int           // this and the next three: not of ModeDeliver
	Timeout     time.Duration // of one attempt
	BackoffMin  time.Duration
	BackoffMax  time.Duration
	Retention   time.Duration // how long ended tasks are kept
	Created     time.Time     // read only
	Deleting    bool          // read only
	ShardsFrom  time.Time     // when Shards came, or come, into force for new tasks; zero: they never grew. Read only
	Registered  bool          // read only: it came by a registration, as Terraform writes them, and goes with it
	Withdrawn   bool          // read only: it came by a registration that is gone, and goes when its tasks have ended; it still takes new ones
	// RegistrationRefused is why the registration of its name is not taken, in words for people: then the
	// lambda stays as it is. Empty when it is taken, or there is none. Read only.
	RegistrationRefused string
}

// CreateLambda creates a lambda. One that exists with the same settings is fine and reported
// as existed; with other settings it is refused with ErrExists.
func (c *Client) CreateLambda(ctx context.Context, l LambdaInfo) (created LambdaInfo, existed bool, err error) {
	response, err := call(ctx, c, "create lambda", c.backend.Lambdas.CreateLambda, &kinesinv1.CreateLambdaRequest{Lambda: l.wire()})
	if err != nil {
		return LambdaInfo{}, false, err
	}
	return lambdaInfoOf(response.Lambda), response.Existed, nil
}

// GetLambda reads a lambda's settings.
func (c *Client) GetLambda(ctx context.Context, name string) (LambdaInfo, error) {
	response, err := call(ctx, c, "get lambda", c.backend.Lambdas.GetLambda, &kinesinv1.GetLambdaRequest{Name: name})
	if err != nil {
		return LambdaInfo{}, err
	}
	return lambdaInfoOf(response.Lambda), nil
}

// ListLambdas reads all lambdas.
func (c *Client) ListLambdas(ctx context.Context) ([]LambdaInfo, error) {
	response, err := call(ctx, c, "list lambdas", c.backend.Lambdas.ListLambdas, &kinesinv1.ListLambdasRequest{})
	if err != nil {
		return nil, err
	}
	all := make([]LambdaInfo, len(response.Lambdas))
	for i, l := range response.Lambdas {
		all[i] = lambdaInfoOf(l)
	}
	return all, nil
}

// UpdateLambda changes the settings that are not zero. Shards only grow, and more of them come into force a
// few minutes later, for new tasks without a key: see LambdaInfo.ShardsFrom.
func (c *Client) UpdateLambda(ctx context.Context, l LambdaInfo) (LambdaInfo, error) {
	response, err := call(ctx, c, "update lambda", c.backend.Lambdas.UpdateLambda, &kinesinv1.UpdateLambdaRequest{Lambda: l.wire()})
	if err != nil {
		return LambdaInfo{}, err
	}
	return lambdaInfoOf(response.Lambda), nil
}

// DeleteLambda deletes a lambda, unless it is registered (ErrRegistered). While it has live tasks, or tasks
// that were accepted may still be in the inbound queue, that is refused with ErrInUse, unless they are to be
// dropped with it; then it returns how many were so far, also with an error, not counting those that come out
// of the inbound queue. It makes as many calls as that takes, until ctx ends; the lambda takes no tasks
// meanwhile. After an error of dropping it may take two minutes until it does again; to delete it again goes
// on.
func (c *Client) DeleteLambda(ctx context.Context, name string, dropTasks bool) (dropped int64, err error) {
	for begun := false; ; begun = true {
		response, err := c.goOnDeleting(ctx, name, dropTasks, begun)
		dropped += response.GetDropped()
		if err != nil || !response.GetMore() {
			return dropped, err
		}
	}
}

// goOnDeleting has the server do a share of the work; begun says that it did one before.
func (c *Client) goOnDeleting(ctx context.Context, name string, dropTasks, begun bool) (response *kinesinv1.DeleteLambdaResponse, err error) {
	err = c.retry(ctx, "delete lambda", func(ctx context.Context) (err error) {
		response, err = once(ctx, c.cfg.clock, c.cfg.callTimeout, c.backend.Lambdas.DeleteLambda,
			&kinesinv1.DeleteLambdaRequest{Name: name, DropTasks: dropTasks, GoesOn: true})
		if begun && errors.Is(err, ErrUnknownLambda) {
			return nil // an earlier try did it, and its answer was lost
		}
		begun = true
		return err
	})
	return response, err
}

func (l *LambdaInfo) wire() *kinesinv1.Lambda {
	return &kinesinv1.Lambda{
		Name: l.Name, Mode: l.Mode, Priorities: l.Priorities, Shards: uint32(max(l.Shards, 0)), MaxAttempts: uint32(max(l.MaxAttempts, 0)),
		TimeoutMicros: l.Timeout.Microseconds(), BackoffMinMicros: l.BackoffMin.Microseconds(), BackoffMaxMicros: l.BackoffMax.Microseconds(),
		RetentionMicros: l.Retention.Microseconds(),
	}
}

func lambdaInfoOf(w *kinesinv1.Lambda) LambdaInfo {
	micros := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return LambdaInfo{
		Name: w.GetName(), Mode: w.GetMode(), Priorities: w.GetPriorities(), Shards: int(w.GetShards()), MaxAttempts: int(w.GetMaxAttempts()),
		Timeout: micros(w.GetTimeoutMicros()), BackoffMin: micros(w.GetBackoffMinMicros()), BackoffMax: micros(w.GetBackoffMaxMicros()),
		Retention: micros(w.GetRetentionMicros()), Created: timeOf(w.GetCreatedMicros()), Deleting: w.GetDeleting(), ShardsFrom: timeOf(w.GetShardsFromMicros()), Registered: w.GetRegistered(),
		Withdrawn: w.GetWithdrawn(), RegistrationRefused: w.GetRegistrationRefused(),
	}
}
