package sdk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// byKey begins the ids that ByKey returns. No id of a server begins so.
const byKey = "key:"

// ByKey names the newest task of a lambda with an idempotency key. It goes wherever an id goes.
func ByKey(lambda, key string) ID { return ID(byKey + lambda + "/" + key) }

// names are the ids and keys of a request, whose results are those of the ids first.
type names struct {
	ids   []string
	keys  []*kinesinv1.TaskKey
	order []int // for each name that the caller gave, the index of its result
}

func namesOf(all []ID) names {
	n := names{ids: make([]string, 0, len(all)), order: make([]int, len(all))}
	for i, id := range all {
		if key, isKey := keyOf(id); isKey {
			n.order[i] = -1 - len(n.keys)
			n.keys = append(n.keys, key)
			continue
		}
		n.order[i] = len(n.ids)
		n.ids = append(n.ids, string(id))
	}
	for i, at := range n.order {
		if at < 0 {
			n.order[i] = len(n.ids) - 1 - at
		}
	}
	return n
}

// keyOf returns what ByKey made an id of.
func keyOf(id ID) (key *kinesinv1.TaskKey, ok bool) {
	rest, ok := strings.CutPrefix(string(id), byKey)
	if !ok {
		return nil, false
	}
	lambda, name, _ := strings.Cut(rest, "/")
	return &kinesinv1.TaskKey{Lambda: lambda, Key: name}, true
}

// inOrder returns results in the order in which the caller named the tasks.
func inOrder[R any](n names, results []R) ([]R, error) {
	if len(results) != len(n.order) {
		return nil, incomplete(len(results), len(n.order))
	}
	if len(n.keys) == 0 {
		return results, nil
	}
	ordered := make([]R, len(results))
	for i, at := range n.order {
		ordered[i] = results[at]
	}
	return ordered, nil
}

// ChangeResult is the result of changing one task.
type ChangeResult struct {
	ID    ID
	State State // after the change, or as it was found if there is an error
	Due   time.Time
	Seq   uint64 // see IfSeq
	// Err is ErrTooLate if a worker has the task, or it has ended (of a redrive: has not ended), ErrStaleSeq,
	// ErrKeyConflict if the key of a task to redrive was used again, or ErrNotFound.
	Err error
}

// ChangeOption restricts a change of tasks.
type ChangeOption func(*changeConfig)

type changeConfig struct {
	ifSeq   uint64
	force   bool
	payload []byte
}

// IfSeq changes a task only if it is at the seq with which it was read, and else fails with ErrStaleSeq. It
// is for a single task.
func IfSeq(seq uint64) ChangeOption { return func(c *changeConfig) { c.ifSeq = seq } }

// Force redrives also tasks that ended as success or delivered.
func Force() ChangeOption { return func(c *changeConfig) { c.force = true } }

// WithNewPayload redrives a single task with another payload.
func WithNewPayload(payload []byte) ChangeOption {
	return func(c *changeConfig) { c.payload = append([]byte{}, payload...) }
}

func changeConfigOf(opts []ChangeOption) (c changeConfig) {
	for _, o := range opts {
		o(&c)
	}
	return c
}

// Reschedule moves up to 1,000 tasks that no worker has to another time, which In or At says; nil means now.
// It returns a result for each, in order. The error is about the call as a whole.
func (c *Client) Reschedule(ctx context.Context, ids []ID, when Option, opts ...ChangeOption) ([]ChangeResult, error) {
	n := namesOf(ids)
	request := &kinesinv1.RescheduleRequest{Ids: n.ids, Keys: n.keys, IfSeq: changeConfigOf(opts).ifSeq}
	if when != nil {
		var item Item
		when(&item)
		wire := item.wire(nil)
		request.Due, request.Delay = wire.Due, wire.Delay
	}
	return c.change(n, func() (*kinesinv1.ChangeResponse, error) {
		return call(ctx, c, "reschedule", c.backend.tasks.Reschedule, request)
	})
}

// RunNow has up to 1,000 tasks that wait for a due time or a retry start now.
func (c *Client) RunNow(ctx context.Context, ids []ID, opts ...ChangeOption) ([]ChangeResult, error) {
	return c.Reschedule(ctx, ids, nil, opts...)
}

// Redrive has up to 1,000 tasks that have ended, other than as success or delivered, start anew under the
// same ids: their attempts count anew, and their history stays.
func (c *Client) Redrive(ctx context.Context, ids []ID, opts ...ChangeOption) ([]ChangeResult, error) {
	n, cfg := namesOf(ids), changeConfigOf(opts)
	request := &kinesinv1.RedriveRequest{Ids: n.ids, Keys: n.keys, IfSeq: cfg.ifSeq, Force: cfg.force, Payload: cfg.payload, RequestId: requestIDs(c.cfg.Clock, 1)[0]}
	if cfg.payload != nil && len(ids) == 1 {
		var err error
		if request.Payload, request.Blob, err = c.encodeAgain(ctx, ids[0], cfg.payload); err != nil {
			return nil, err
		}
	}
	tries := 0
	results, err := c.change(n, func() (*kinesinv1.ChangeResponse, error) {
		return call(ctx, c, "redrive", func(ctx context.Context, r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error) {
			tries++
			return c.backend.tasks.Redrive(ctx, r)
		}, request)
	})
	for i := range results {
		// An earlier try, whose answer was lost, may have redriven it. Servers that know request ids say
		// so themselves.
		if r := &results[i]; tries > 1 && errors.Is(r.Err, ErrTooLate) && r.State != "" && !r.State.IsEnd() {
			r.Err = nil
		}
	}
	return results, err
}

// Update is what to change in a task that no worker has. A zero field does not change, unless Reset names it.
type Update struct {
	Payload     []byte // nil: does not change
	MaxAttempts int
	Timeout     time.Duration
	BackoffMin  time.Duration
	BackoffMax  time.Duration
	StartBefore time.Time
	Priority    string
	When        Option // In or At
	// Reset names settings that become those of the lambda again, as JSON has them: max_attempts, timeout, backoff_min,
	// backoff_max, start_before, priority.
	Reset []string
}

// Update changes the payload, the settings, the priority or the time of a task that no worker has, all in one
// write.
func (c *Client) Update(ctx context.Context, id ID, u Update, opts ...ChangeOption) (ChangeResult, error) {
	request := &kinesinv1.TaskUpdate{
		Id: string(id), IfSeq: changeConfigOf(opts).ifSeq, Payload: u.Payload,
		MaxAttempts: uint32(min(max(u.MaxAttempts, 0), 1<<31)), Timeout: u.Timeout.Microseconds(),
		BackoffMin: u.BackoffMin.Microseconds(), BackoffMax: u.BackoffMax.Microseconds(),
	}
	request.Priority = u.Priority
	if u.When != nil {
		var item Item
		u.When(&item)
		wire := item.wire(nil)
		if request.Due = wire.Due; wire.Due == 0 {
			request.Delay = &wire.Delay // In(0) is now
		}
	}
	if !u.StartBefore.IsZero() {
		request.StartBefore = max(u.StartBefore.UnixMicro(), 1)
	}
	if key, isKey := keyOf(id); isKey {
		request.Id, request.Key = "", key
	}
	if u.Payload != nil {
		var err error
		if request.Payload, request.Blob, err = c.encodeAgain(ctx, id, u.Payload); err != nil {
			return ChangeResult{}, err
		}
	}
	if err := api.SetMask(request, u.Reset...); err != nil {
		return ChangeResult{}, fmt.Errorf("update: %w", err)
	}
	results, err := c.change(namesOf([]ID{id}), func() (*kinesinv1.ChangeResponse, error) {
		return call(ctx, c, "update", c.backend.tasks.Update, &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{request}})
	})
	if err != nil {
		return ChangeResult{}, err
	}
	return results[0], results[0].Err
}

func (c *Client) change(n names, do func() (*kinesinv1.ChangeResponse, error)) ([]ChangeResult, error) {
	response, err := do()
	if err != nil {
		return nil, err
	}
	wire, err := inOrder(n, response.Results)
	if err != nil {
		return nil, err
	}
	results := make([]ChangeResult, len(wire))
	for i, r := range wire {
		results[i] = ChangeResult{ID: ID(r.Id), State: State(r.State), Due: timeOf(r.Due), Seq: r.Seq, Err: api.ErrorOf(r.Problem)}
	}
	return results, nil
}
