package sdk

import (
	"context"
	"iter"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// Rejected is a message of the inbound queue, or one task of a message, that a server could not accept and
// set aside.
type Rejected struct {
	Name     string // derived from its contents
	Reason   string // undecodable, newer_version, not_ours, unknown_lambda, invalid, too_large, stale
	Text     string // what was wrong and what is allowed
	At       time.Time
	Accepted time.Time // when the id was issued; zero if unknown
	ID       ID        // of the task; empty if there is none
	Lambda   string
	Bytes    int64 // kept
	Retries  int   // failed retries

	Item *Item  // set by GetRejected if the task could be read; its due time is in ID only
	Body []byte // set by GetRejected if it could not
}

const rejectedPerPage = 1000

// Rejected lists all that is set aside, in the order of names, page by page as the loop goes on. An error
// ends it.
func (c *Client) Rejected(ctx context.Context) iter.Seq2[Rejected, error] {
	return func(yield func(Rejected, error) bool) {
		request := &kinesinv1.ListRejectedRequest{Limit: rejectedPerPage}
		for {
			response, err := call(ctx, c, "list rejected", c.backend.inbound.ListRejected, request)
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

// GetRejected returns one, with its contents. If only its payload cannot be decoded, it returns the rest and
// the error.
func (c *Client) GetRejected(ctx context.Context, name string) (Rejected, error) {
	response, err := call(ctx, c, "get rejected", c.backend.inbound.GetRejected, &kinesinv1.GetRejectedRequest{Name: name})
	if err != nil {
		return Rejected{}, err
	}
	r := rejectedOf(response.Rejected)
	if r.Item != nil {
		r.Item.Payload, err = c.decodeRead(ctx, r.Lambda, r.Item.Key, r.ID, r.Item.Payload)
	}
	return r, err
}

// RetryResult is the result of one retry.
type RetryResult struct {
	ID  ID    // of the task, which is durable now; empty for a message with several tasks
	Err error // why it is still set aside
}

// RetryRejected accepts up to 100 again and returns a result for each, in order. A stale one may have run
// already; then it runs twice. The error is about the call as a whole.
func (c *Client) RetryRejected(ctx context.Context, names ...string) ([]RetryResult, error) {
	response, err := call(ctx, c, "retry rejected", c.backend.inbound.RetryRejected, &kinesinv1.RetryRejectedRequest{Names: names})
	if err != nil {
		return nil, err
	}
	results := make([]RetryResult, len(response.Results))
	for i, r := range response.Results {
		results[i] = RetryResult{ID: ID(r.Id), Err: api.ErrorOf(r.Problem)}
	}
	return results, nil
}

// DeleteRejected deletes up to 100 and returns an error or nil for each, in order. The second error is about
// the call as a whole.
func (c *Client) DeleteRejected(ctx context.Context, names ...string) ([]error, error) {
	response, err := call(ctx, c, "delete rejected", c.backend.inbound.DeleteRejected, &kinesinv1.DeleteRejectedRequest{Names: names})
	if err != nil {
		return nil, err
	}
	results := make([]error, len(response.Results))
	for i, r := range response.Results {
		results[i] = api.ErrorOf(r.Problem)
	}
	return results, nil
}

// InboundKey returns the secret that package sqsinbound needs to send to the inbound queue. It returns
// ErrUnsupported if the server has no such queue.
func (c *Client) InboundKey(ctx context.Context) (string, error) {
	response, err := call(ctx, c, "inbound key", c.backend.inbound.Key, &kinesinv1.KeyRequest{})
	if err != nil {
		return "", err
	}
	return response.Key, nil
}

func rejectedOf(w *kinesinv1.Rejected) Rejected {
	r := Rejected{
		Name: w.Name, Reason: w.Reason, Text: w.Text, At: timeOf(w.Rejected), Accepted: timeOf(w.Accepted),
		ID: ID(w.Id), Lambda: w.Lambda, Bytes: w.Bytes, Retries: int(w.Retries), Body: w.Body,
	}
	if i := w.Item; i != nil {
		r.Item = &Item{
			Lambda: i.Lambda, Payload: i.Payload, Priority: i.Priority, Collection: i.Collection, Key: i.Key, LimitKey: i.LimitKey,
			MaxAttempts: int(i.MaxAttempts), Timeout: task.Micros(i.Timeout),
			BackoffMin: task.Micros(i.BackoffMin), BackoffMax: task.Micros(i.BackoffMax),
			Traceparent: i.Traceparent, Tags: i.Tags, StartBefore: timeOf(i.StartBefore),
		}
	}
	return r
}
