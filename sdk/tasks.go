package sdk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
)

// TaskInfo describes a task. Times that have not come are zero.
type TaskInfo struct {
	ID         ID
	Lambda     string
	State      State
	Priority   string
	Collection string
	Key        string
	LimitKey   string // whose task it is, for the lambda's limits by key

	Due      time.Time
	Created  time.Time
	Enqueued time.Time // the latest time
	Started  time.Time // the first time
	Ended    time.Time
	Next     time.Time // its next wake-up; zero while it runs

	Attempt     int // number of the newest attempt
	Failures    int // attempts that count against MaxAttempts
	MaxAttempts int // failures after which it is dead
	// Timeout, BackoffMin and BackoffMax are the task's own; zero: its lambda's.
	Timeout, BackoffMin, BackoffMax time.Duration
	WorkerLost                      int  // attempts whose worker was lost; these do not count as failures
	Suspect                         bool // its worker was lost: it may be the cause, and runs alone until an attempt ends
	CancelRequested                 bool
	Seq                             uint64 // rises with every change: see IfSeq
	Worker                          string // of the newest attempt
	Attempts                        []AttemptInfo
	Tags                            map[string]string
	StartBefore                     time.Time    // when it expires if it has not started; zero: never
	Traceparent                     string       // W3C trace context of the caller that scheduled it
	Occurrence                      *Occurrence  // nil: no cron has scheduled it
	Member                          *GroupMember // nil: it is no member of a group
	Group                           *GroupEnd    // nil: it does not follow after a group
	Chain                           *Link        // nil: it is in no chain
	WaitsFor                        WaitsFor     // what holds it back

	Payload      []byte // only with WithPayload
	PayloadBytes int64
	// Result is what its handler gave with SetResult, decoded if the client has a payload codec; nil for
	// none, in lists, and for callers who may not read payloads.
	Result      []byte
	ResultBytes int64 // stored
}

// WaitsFor says what holds a task back.
type WaitsFor struct {
	Reason string    // "gate", "quota", "key", "retry budget", "no worker" or "queue full"; there will be others. Empty: nothing that the server knows of
	Text   string    // for people
	Gate   string    // its id
	Until  time.Time // when it ends by itself; zero: not known
}

// AttemptInfo is one finished attempt.
type AttemptInfo struct {
	Number  int
	Worker  string
	Start   time.Time
	End     time.Time
	Outcome Outcome
	Error   string
	Version string // of the worker's program ; empty: it did not say
}

// Lateness returns how long after its due time the task first started; zero if it has not started.
func (t *TaskInfo) Lateness() time.Duration {
	if t.Started.IsZero() {
		return 0
	}
	return t.Started.Sub(t.Due)
}

// GetResult is the result of reading one of several tasks.
type GetResult struct {
	Task TaskInfo
	// Err is ErrNotFound if the id is unknown, forged, or of a task whose retention is over. If only the
	// payload or the result could not be decoded, Task has all but that.
	Err error

	wire *kinesinv1.Task // of which Task was made
}

// GetOption changes what Get and GetMany read.
type GetOption func(*getConfig)

type getConfig struct{ payload bool }

// WithPayload reads the payload too, decoded if the client has a payload codec.
func WithPayload() GetOption { return func(c *getConfig) { c.payload = true } }

// Get reads a task. If only its payload cannot be decoded, it returns the rest of the task and the error.
func (c *Client) Get(ctx context.Context, id ID, opts ...GetOption) (TaskInfo, error) {
	results, err := c.GetMany(ctx, []ID{id}, opts...)
	if err != nil {
		return TaskInfo{}, err
	}
	return results[0].Task, results[0].Err
}

// GetMany reads up to 1,000 tasks and returns a result for each, in order. The error is about the call as a
// whole.
func (c *Client) GetMany(ctx context.Context, ids []ID, opts ...GetOption) ([]GetResult, error) {
	var cfg getConfig
	for _, o := range opts {
		o(&cfg)
	}
	n := namesOf(ids)
	request := &kinesinv1.GetRequest{Ids: n.ids, Keys: n.keys, WithPayload: cfg.payload}
	response, err := call(ctx, c, "get", c.backend.tasks.Get, request)
	if err != nil {
		return nil, err
	}
	results, err := getResults(response, n)
	for i := range results {
		if t := &results[i].Task; results[i].Err == nil {
			t.Payload, results[i].Err = c.readPayload(ctx, t, results[i].wire.GetBlob())
		}
	}
	if err == nil {
		err = c.completeResults(ctx, results)
	}
	return results, err
}

// completeResults asks for the results of tasks for which there was no room in an answer, as long as more
// come, and decodes all of them.
func (c *Client) completeResults(ctx context.Context, results []GetResult) error {
	for {
		var ids []ID
		var at []int
		for i := range results {
			if t := &results[i].Task; results[i].Err == nil && t.ResultBytes > int64(len(t.Result)) {
				ids, at = append(ids, t.ID), append(at, i)
			}
		}
		if len(ids) == 0 || len(ids) == len(results) { // none at all: the caller may not read them
			break
		}
		response, err := call(ctx, c, "get", c.backend.tasks.Get, &kinesinv1.GetRequest{Ids: namesOf(ids).ids})
		if err != nil {
			return err
		}
		more, err := getResults(response, namesOf(ids))
		if err != nil {
			return err
		}
		came := false
		for k := range more {
			if more[k].Err == nil && len(more[k].Task.Result) > 0 {
				came, results[at[k]].Task.Result = true, more[k].Task.Result
			}
		}
		if !came {
			break
		}
	}
	for i := range results {
		if t := &results[i].Task; results[i].Err == nil {
			t.Result, results[i].Err = c.decodeResult(ctx, t.Lambda, t.Key, t.ID, t.Result)
		}
	}
	return nil
}

const (
	waitPerCallMax = 30 * time.Second
	waitGapMin     = 20 * time.Millisecond // between calls, in case a server answers at once
)

// Wait returns when all tasks have ended, with a result for each, in order. When ctx ends first, it returns
// the cause and the latest results, if any.
func (c *Client) Wait(ctx context.Context, ids ...ID) ([]GetResult, error) {
	n := namesOf(ids)
	var known []GetResult
	for {
		wait := waitPerCallMax
		if deadline, set := ctx.Deadline(); set {
			wait = min(wait, max(0, clock.Until(c.cfg.Clock, deadline)))
		}
		request := &kinesinv1.WaitRequest{Ids: n.ids, Keys: n.keys, Wait: wait.Microseconds()}
		response, err := callWithin(ctx, c, "wait", c.cfg.CallTimeout+wait, c.backend.tasks.Wait, request)
		if err != nil {
			return known, err
		}
		if known, err = getResults(response, n); err != nil {
			return known, err
		}
		if ended(known) {
			return known, c.completeResults(ctx, known)
		}
		if err := clock.Sleep(ctx, c.cfg.Clock, waitGapMin); err != nil {
			return known, fmt.Errorf("wait: %w", err)
		}
	}
}

func ended(results []GetResult) bool {
	for i := range results {
		if results[i].Err == nil && !results[i].Task.State.IsEnd() {
			return false
		}
	}
	return true
}

// ListQuery selects the tasks to list.
type ListQuery struct {
	Lambda string // empty: all that the caller may read
	State  State  // empty: all states
	Limit  int    // most tasks to list; zero: all
	// Where is a filter, such as `error~"timeout" and due<-1h`; docs/reference/filters.md describes it.
	Where string
	Order ListOrder
	// MaxExamined is how many rows the server may read at most to find the newest tasks, of OrderNewest and
	// OrderNewestEnded; it refuses a list that needs more (ErrUnsupported). Zero: 200,000; at most 2,000,000.
	MaxExamined int64
}

// ListOrder is an order of a list.
type ListOrder string

// The orders of lists. A list without one has live tasks by when they are due next, and then ended ones, the
// newest end first; with DynamoDB, or where tasks are very many, it is in the order of the store.
const (
	// OrderDue lists live tasks by when they are due next, whatever their partition.
	OrderDue ListOrder = "due"
	// OrderNewest lists all tasks by when they were created, the newest first, live or ended. The server
	// reads all tasks of the set to begin.
	OrderNewest ListOrder = "-created"
	// OrderNewestEnded lists ended tasks, the newest end first. For each page the server reads all ended
	// tasks of the set, but for dead letters only those of its lambdas.
	OrderNewestEnded ListOrder = "-ended"
)

const listPageMax = 1000

// List lists the tasks of a lambda, or those that a filter selects, page by page as the loop goes on. An
// error ends it.
func (c *Client) List(ctx context.Context, q ListQuery) iter.Seq2[TaskInfo, error] {
	return func(yield func(TaskInfo, error) bool) {
		request := &kinesinv1.ListRequest{Lambda: q.Lambda, State: string(q.State), Where: q.Where, Order: string(q.Order), MaxExamined: q.MaxExamined}
		for left := q.Limit; ; {
			request.Limit = listPageMax
			if q.Limit > 0 {
				request.Limit = int32(min(left, listPageMax))
			}
			response, err := callWithin(ctx, c, "list", max(sdkconfig.SetTimeout, c.cfg.CallTimeout), c.backend.tasks.List, request)
			if err != nil {
				yield(TaskInfo{}, err)
				return
			}
			for _, t := range response.Tasks {
				if !yield(taskInfoOf(t), nil) {
					return
				}
			}
			left -= len(response.Tasks)
			request.Cursor = response.Next
			if len(request.Cursor) == 0 || q.Limit > 0 && left <= 0 {
				return
			}
		}
	}
}

// CountResult is a number of tasks.
type CountResult struct {
	Count    int64
	Exact    bool  // it was counted, not estimated
	Examined int64 // rows that the server read for it
}

// Count counts the tasks that a filter selects, such as `state=dead and due<-1h`; an empty one selects all.
// docs/reference/filters.md describes filters. With exact each task is counted where the server would estimate, whatever
// that costs. It returns ErrInvalid for a filter that cannot be read, and says where.
func (c *Client) Count(ctx context.Context, where string, exact bool) (CountResult, error) {
	r, err := callWithin(ctx, c, "count", max(sdkconfig.SetTimeout, c.cfg.CallTimeout), c.backend.tasks.Count, &kinesinv1.CountRequest{Where: where, Exact: exact})
	return CountResult{Count: r.GetCount(), Exact: r.GetExact(), Examined: r.GetExamined()}, err
}

// CancelOutcome is the result of a cancel.
type CancelOutcome string

// The outcomes of a cancel that was not too late.
const (
	CancelDone      CancelOutcome = "cancelled"  // the task does not start, or not again
	CancelRequested CancelOutcome = "cancelling" // it runs, and its worker was asked to stop it
)

// CancelResult is the result of one cancel.
type CancelResult struct {
	ID      ID
	Outcome CancelOutcome
	State   State // of the task before the cancel
	Err     error // ErrTooLate if it had ended, or is on the queue of a deliver lambda; ErrNotFound
}

// Cancel makes sure that a task does not start, or asks its worker to stop it if it runs. It returns
// ErrTooLate if the task has ended, or is on the queue of a deliver lambda or about to be.
func (c *Client) Cancel(ctx context.Context, id ID, opts ...ChangeOption) (CancelOutcome, error) {
	results, err := c.CancelMany(ctx, []ID{id}, opts...)
	if err != nil {
		return "", err
	}
	return results[0].Outcome, results[0].Err
}

// CancelMany cancels up to 1,000 tasks and returns a result for each, in order. The error is about the call
// as a whole.
func (c *Client) CancelMany(ctx context.Context, ids []ID, opts ...ChangeOption) ([]CancelResult, error) {
	var tries int
	n := namesOf(ids)
	request := &kinesinv1.CancelRequest{Ids: n.ids, Keys: n.keys, IfSeq: changeConfigOf(opts).ifSeq}
	response, err := call(ctx, c, "cancel", func(ctx context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
		tries++
		return c.backend.tasks.Cancel(ctx, r)
	}, request)
	if err != nil {
		return nil, err
	}
	wire, err := inOrder(n, response.Results)
	if err != nil {
		return nil, err
	}
	results := make([]CancelResult, len(ids))
	for i, r := range wire {
		results[i] = CancelResult{ID: ID(r.Id), Outcome: CancelOutcome(r.Outcome), State: State(r.State), Err: api.ErrorOf(r.Problem)}
		// An earlier try, whose answer was lost, may have cancelled it.
		if tries > 1 && errors.Is(results[i].Err, ErrTooLate) && results[i].State == StateCancelled {
			results[i].Outcome, results[i].Err = CancelDone, nil
		}
	}
	return results, nil
}

func incomplete(have, want int) error {
	return fmt.Errorf("%w: the server answered for %d of %d tasks", ErrInternal, have, want)
}

func getResults(response *kinesinv1.GetResponse, n names) ([]GetResult, error) {
	wire, err := inOrder(n, response.Results)
	if err != nil {
		return nil, err
	}
	results := make([]GetResult, len(wire))
	for i, r := range wire {
		if r.Problem != nil {
			results[i].Err = api.ErrorOf(r.Problem)
			continue
		}
		if r.Task == nil {
			return nil, errors.New("the server answered with neither a task nor a problem")
		}
		results[i].Task, results[i].wire = taskInfoOf(r.Task), r.Task
	}
	return results, nil
}

func taskInfoOf(w *kinesinv1.Task) TaskInfo {
	t := wirecopy.From[TaskInfo](w)
	t.Occurrence, t.Group = occurrenceOf(w.Occurrence), groupEndOf(w.Group)
	return t
}

// followsAnother reports whether the task was created with the end of another, or of a group.
func (t *TaskInfo) followsAnother() bool {
	return t.Chain != nil && t.Chain.Parent != "" || t.Group != nil
}

// keyOfPayload returns the key for which the payload is encoded. One that follows a group may have a key that
// the server has made.
func (t *TaskInfo) keyOfPayload() string {
	switch {
	case t.Group != nil:
		return ""
	case t.followsAnother():
		return keyOfFollowUp(t.Key)
	}
	return t.Key
}

// optional returns a message as users have it; nil for none.
func optional[T, M any](w *M) *T {
	if w == nil {
		return nil
	}
	value := wirecopy.From[T](w)
	return &value
}
