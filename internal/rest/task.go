package rest

import (
	"encoding/base64"
	"net/http"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// target returns the task that the path names, by its id or by its key.
func (c *call) target() (ids []string, keys []*kinesinv1.TaskKey) {
	if id, byID := c.vars["id"]; byID {
		return []string{id}, nil
	}
	return nil, []*kinesinv1.TaskKey{{Lambda: c.vars["lambda"], Key: c.vars["key"]}}
}

// onlyTask returns the task of a response that has one.
func onlyTask(response *kinesinv1.GetResponse, err error) (int, *kinesinv1.Task, error) {
	result, err := only(response.GetResults(), err)
	return http.StatusOK, result.GetTask(), err
}

func getTask(c *call, _ *none) (int, *kinesinv1.Task, error) {
	withPayload, err := c.flag("payload")
	if err != nil {
		return 0, nil, err
	}
	ids, keys := c.target()
	response, err := c.Tasks.Get(c.r.Context(), &kinesinv1.GetRequest{Ids: ids, Keys: keys, WithPayload: withPayload})
	return onlyTask(response, err)
}

// waitDefault is how long a wait is that does not say it.
const waitDefault = 30 * time.Second

func waitTask(c *call, _ *none) (int, *kinesinv1.Task, error) {
	wait := duration(waitDefault)
	if text := c.query.Get("timeout"); text != "" {
		if err := wait.parse(text); err != nil {
			return 0, nil, invalid("parameter timeout: %v", err)
		}
	}
	ids, keys := c.target()
	response, err := c.Tasks.Wait(c.r.Context(), &kinesinv1.WaitRequest{Ids: ids, Keys: keys, Wait: wait.micros()})
	return onlyTask(response, err)
}

func listTasks(c *call, _ *none) (int, *kinesinv1.ListResponse, error) {
	request := &kinesinv1.ListRequest{
		Lambda: c.query.Get("lambda"), State: c.query.Get("state"), Where: c.query.Get("where"), Order: c.query.Get("order"),
	}
	limit, err := c.number("limit", 1000)
	if err != nil {
		return 0, nil, err
	}
	request.Limit = int32(limit)
	most, err := c.number("max_examined", 2_000_000)
	if err != nil {
		return 0, nil, err
	}
	request.MaxExamined = int64(most)
	if request.Cursor, err = base64.RawURLEncoding.DecodeString(c.query.Get("cursor")); err != nil {
		return 0, nil, invalid("parameter cursor: want next of the page before")
	}
	response, err := c.Tasks.List(c.r.Context(), request)
	return http.StatusOK, response, err
}

func countTasks(c *call, _ *none) (int, *kinesinv1.CountResponse, error) {
	exact, err := c.flag("exact")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Tasks.Count(c.r.Context(), &kinesinv1.CountRequest{Where: c.query.Get("where"), Exact: exact})
	return http.StatusOK, response, err
}

// overrides are settings of a task that differ from its lambda's.
type overrides struct {
	MaxAttempts ordinal  `json:"max_attempts,omitempty" jsonschema:"attempts before it is dead"`
	Timeout     positive `json:"timeout,omitzero" jsonschema:"of one attempt"`
	BackoffMin  duration `json:"backoff_min,omitzero" jsonschema:"the least pause between attempts; set both or none"`
	BackoffMax  duration `json:"backoff_max,omitzero"`
	StartBefore moment   `json:"start_before,omitzero" jsonschema:"a task that did not start before then ends as expired"`
}

// when says when a task is due. Neither means now; the past means now too.
type when struct {
	Due   moment    `json:"due,omitzero" jsonschema:"when to start; the past means now, and before 2001 is refused"`
	Delay *duration `json:"delay,omitempty" jsonschema:"when to start, from now; instead of due"`
}

// micros returns the due time and the delay, of which at most one is not 0.
func (w when) micros() (due, delay int64, err error) {
	if w.Delay == nil {
		return int64(w.Due), 0, nil
	}
	if w.Due != 0 {
		return 0, 0, invalid("want due or delay, not both")
	}
	return 0, w.Delay.micros(), nil
}

type scheduleRequest struct {
	payload
	when
	overrides

	chainedRequest

	Key         string            `json:"key,omitempty" jsonschema:"makes scheduling idempotent: same lambda and key, same task"`
	LimitKey    string            `json:"limit_key,omitempty" jsonschema:"whose task it is, for the lambda's limits by key; at most 256 bytes"`
	OnConflict  string            `json:"on_conflict,omitempty" jsonschema:"when the key is held: keep (also when not set), replace or reject"`
	Priority    string            `json:"priority,omitempty"`
	Collection  string            `json:"collection,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	Traceparent string            `json:"traceparent,omitempty" jsonschema:"W3C trace context of the caller"`
}

// item returns the item of a Schedule call.
func (r *scheduleRequest) item(lambda string) (*kinesinv1.ScheduleItem, error) {
	item, err := r.itemAt(lambda, 0)
	if _, is := err.(*placed); is { //nolint:errorlint // nothing wraps one
		err = invalid("%v", err)
	}
	return item, err
}

// itemAt returns the item of a task that so many come before.
func (r *scheduleRequest) itemAt(lambda string, depth int) (*kinesinv1.ScheduleItem, error) {
	data, err := r.bytes()
	if err != nil {
		return nil, invalid("%v", err)
	}
	due, delay, err := r.micros()
	if err != nil {
		return nil, err
	}
	item := &kinesinv1.ScheduleItem{
		Lambda: lambda, Payload: data, Due: due, Delay: delay,
		Key: r.Key, LimitKey: r.LimitKey, OnConflict: r.OnConflict, Priority: r.Priority, Collection: r.Collection, Tags: r.Tags, Traceparent: r.Traceparent,
		MaxAttempts: r.MaxAttempts.uint32(), Timeout: r.Timeout.micros(), BackoffMin: r.BackoffMin.micros(), BackoffMax: r.BackoffMax.micros(),
		StartBefore: int64(r.StartBefore),
	}
	return item, r.into(item, depth)
}

func scheduleTask(c *call, r *scheduleRequest) (int, *kinesinv1.ScheduleResult, error) {
	item, err := r.item(c.vars["lambda"])
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Tasks.Schedule(c.r.Context(), &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{item}})
	result, err := only(response.GetResults(), err)
	if err != nil {
		return 0, nil, err
	}
	if result.GetDuplicate() || result.GetReplaced() {
		return http.StatusOK, result, nil
	}
	c.w.Header().Set("Location", api.PlainPrefix+"tasks/"+result.GetId())
	return http.StatusCreated, result, nil
}
