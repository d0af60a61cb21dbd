package sdk

import (
	"context"
	"iter"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// Rejected is what a server took out of its inbound buffer and could not take in: a message, or one task of a
// message.
type Rejected struct {
	Name     string // made of its contents
	Reason   string // undecodable, newer_version, not_ours, unknown_lambda, invalid, too_large, stale
	Text     string // what was wrong and what is allowed
	At       time.Time
	Accepted time.Time // when the id was issued; zero where it is not known
	ID       ID        // of the task; empty where there is none
	Lambda   string
	Bytes    int64 // of what is kept
	Retries  int   // that failed

	Item *Item  // only of GetRejected, where it could be read; without when it is due, which its ID says
	Body []byte // only of GetRejected, where it could not
}

const rejectedPerPage = 1000

// ListRejected reads all that is set aside, in order of the names.
func (c *Client) ListRejected(ctx context.Context) ([]Rejected, error) {
	var all []Rejected
	for r, err := range c.Rejected(ctx) {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Rejected walks over all that is set aside, in order of the names. It ends with an error, if there is one.
func (c *Client) Rejected(ctx context.Context) iter.Seq2[Rejected, error] {
	return func(yield func(Rejected, error) bool) {
		request := &kinesinv1.ListRejectedRequest{Limit: rejectedPerPage}
		for {
			response, err := call(ctx, c, "list rejected", c.backend.Inbound.ListRejected, request)
			if err != nil {
				yield(Rejected{}, err)
				return
			}
			for _, r := range response.Rejected {
				request.After = r.Name
				if !yield(rejectedOf(r), nil) {
					return
				}
			}
			if !response.More || len(response.Rejected) == 0 {
				return
			}
		}
	}
}

// GetRejected reads one, with what is kept of it.
func (c *Client) GetRejected(ctx context.Context, name string) (Rejected, error) {
	response, err := call(ctx, c, "get rejected", c.backend.Inbound.GetRejected, &kinesinv1.GetRejectedRequest{Name: name})
	if err != nil {
		return Rejected{}, err
	}
	return rejectedOf(response.Rejected), nil
}

// RetryResult is what became of a retry.
type RetryResult struct {
	ID  ID    // of the task, which is durable now; empty for a message of several
	Err error // it is set aside still
}

// RetryRejected takes up to 100 in once more, with an answer for each, in order. What is stale may have run
// already, and runs again. The error is about the call as a whole.
func (c *Client) RetryRejected(ctx context.Context, names ...string) ([]RetryResult, error) {
	response, err := call(ctx, c, "retry rejected", c.backend.Inbound.RetryRejected, &kinesinv1.RetryRejectedRequest{Names: names})
	if err != nil {
		return nil, err
	}
	results := make([]RetryResult, len(response.Results))
	for i, r := range response.Results {
		results[i] = RetryResult{ID: ID(r.Id), Err: api.ErrorOf(r.Problem)}
	}
	return results, nil
}

// DeleteRejected forgets up to 100 for good, with an answer for each, in order. The error is about the call
// as a whole.
func (c *Client) DeleteRejected(ctx context.Context, names ...string) ([]error, error) {
	response, err := call(ctx, c, "delete rejected", c.backend.Inbound.DeleteRejected, &kinesinv1.DeleteRejectedRequest{Names: names})
	if err != nil {
		return nil, err
	}
	results := make([]error, len(response.Results))
	for i, r := range response.Results {
		results[i] = api.ErrorOf(r.Problem)
	}
	return results, nil
}

// InboundKey is the secret of those who send to the inbound queue themselves, with package sqsinbound.
// ErrUnsupported from a server that has no such queue.
func (c *Client) InboundKey(ctx context.Context) (string, error) {
	response, err := call(ctx, c, "inbound key", c.backend.Inbound.Key, &kinesinv1.KeyRequest{})
	if err != nil {
		return "", err
	}
	return response.Key, nil
}

func rejectedOf(w *kinesinv1.Rejected) Rejected {
	r := Rejected{
		Name: w.Name, Reason: w.Reason, Text: w.Text, At: timeOf(w.RejectedMicros), Accepted: timeOf(w.AcceptedMicros),
		ID: ID(w.Id), Lambda: w.Lambda, Bytes: w.Bytes, Retries: int(w.Retries), Body: w.Body,
	}
	if i := w.Item; i != nil {
		r.Item = &Item{
			Lambda: i.Lambda, Payload: i.Payload, Priority: i.Priority, Collection: i.Collection, Key: i.Key,
			MaxAttempts: int(i.MaxAttempts), Timeout: time.Duration(i.TimeoutMicros) * time.Microsecond,
			BackoffMin: time.Duration(i.BackoffMinMicros) * time.Microsecond, BackoffMax: time.Duration(i.BackoffMaxMicros) * time.Microsecond,
			Traceparent: i.Traceparent,
		}
	}
	return r
}
