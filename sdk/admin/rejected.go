package admin

import (
	"context"
	"iter"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
)

// RejectedMessage is a message of the inbound queue, or one task of a message, that a server could not accept and
// set aside.
type RejectedMessage struct {
	Name     string    // derived from its contents
	Reason   string    // undecodable, newer_version, not_ours, unknown_lambda, invalid, too_large, stale
	Text     string    // what was wrong and what is allowed
	Rejected time.Time // when it was set aside
	Accepted time.Time // when the id was issued; zero if unknown
	ID       sdk.ID    // of the task; empty if there is none
	Lambda   string
	Bytes    int64 // kept
	Retries  int   // failed retries

	Item *sdk.Item // set by Rejected.Get if the task could be read; its due time is in ID only
	Body []byte    // set by Rejected.Get if it could not
}

const rejectedPerPage = 1000

// Rejected has the calls about messages of the inbound queue that were set aside.
type Rejected struct{ c *calls }

// List returns all that is set aside, in the order of names, page by page as the loop goes on. An error ends it.
func (s Rejected) List(ctx context.Context) iter.Seq2[RejectedMessage, error] {
	return func(yield func(RejectedMessage, error) bool) {
		request := &kinesinv1.ListRejectedRequest{Limit: rejectedPerPage}
		for {
			response, err := call(ctx, s.c, "list rejected", s.c.Inbound.ListRejected, request)
			if err != nil {
				yield(RejectedMessage{}, err)
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

// Get returns one, with its contents. If only its payload cannot be decoded, it returns the rest and the error.
func (s Rejected) Get(ctx context.Context, name string) (RejectedMessage, error) {
	response, err := call(ctx, s.c, "get rejected", s.c.Inbound.GetRejected, &kinesinv1.GetRejectedRequest{Name: name})
	if err != nil {
		return RejectedMessage{}, err
	}
	r := rejectedOf(response.Rejected)
	if r.Item != nil {
		r.Item.Payload, err = s.c.Decode(ctx, r.Lambda, r.Item.Key, string(r.ID), r.Item.Payload)
	}
	return r, err
}

// RetryResult is the result of one retry.
type RetryResult struct {
	ID  sdk.ID // of the task, which is durable now; empty for a message with several tasks
	Err error  // why it is still set aside
}

// Retry accepts up to 100 again and returns a result for each, in order. A stale one may have run already; then it
// runs twice. The error is about the call as a whole.
func (s Rejected) Retry(ctx context.Context, names ...string) ([]RetryResult, error) {
	response, err := call(ctx, s.c, "retry rejected", s.c.Inbound.RetryRejected, &kinesinv1.RetryRejectedRequest{Names: names})
	if err != nil {
		return nil, err
	}
	results := make([]RetryResult, len(response.Results))
	for i, r := range response.Results {
		results[i] = RetryResult{ID: sdk.ID(r.Id), Err: api.ErrorOf(r.Problem)}
	}
	return results, nil
}

// Delete deletes up to 100 and returns an error or nil for each, in order. The second error is about the call as a
// whole.
func (s Rejected) Delete(ctx context.Context, names ...string) ([]error, error) {
	response, err := call(ctx, s.c, "delete rejected", s.c.Inbound.DeleteRejected, &kinesinv1.DeleteRejectedRequest{Names: names})
	if err != nil {
		return nil, err
	}
	results := make([]error, len(response.Results))
	for i, r := range response.Results {
		results[i] = api.ErrorOf(r.Problem)
	}
	return results, nil
}

func rejectedOf(w *kinesinv1.Rejected) RejectedMessage { return wirecopy.From[RejectedMessage](w) }
