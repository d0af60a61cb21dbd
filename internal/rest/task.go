package rest

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// taskView is a task.
type taskView struct {
	ID              string            `json:"id"`
	Lambda          string            `json:"lambda"`
	State           string            `json:"state"`
	Priority        string            `json:"priority,omitempty"`
	Collection      string            `json:"collection,omitempty"`
	Key             string            `json:"key,omitempty"`
	LimitKey        string            `json:"limit_key,omitempty" jsonschema:"whose task it is, for the lambda's limits by key"`
	Tags            map[string]string `json:"tags,omitempty"`
	Due             moment            `json:"due,omitzero"`
	Created         moment            `json:"created,omitzero"`
	Enqueued        moment            `json:"enqueued,omitzero"`
	Started         moment            `json:"started,omitzero" jsonschema:"when its first attempt started"`
	Ended           moment            `json:"ended,omitzero" jsonschema:"when it ended; a task without it has not ended"`
	Next            moment            `json:"next,omitzero" jsonschema:"when the server looks at it again"`
	StartBefore     moment            `json:"start_before,omitzero"`
	Attempt         uint32            `json:"attempt,omitempty" jsonschema:"number of the newest attempt"`
	Failures        uint32            `json:"failures,omitempty" jsonschema:"attempts that count against max_attempts"`
	MaxAttempts     uint32            `json:"max_attempts,omitempty"`
	Timeout         duration          `json:"timeout,omitzero" jsonschema:"of its own, as are the next two; none: its lambda's"`
	BackoffMin      duration          `json:"backoff_min,omitzero"`
	BackoffMax      duration          `json:"backoff_max,omitzero"`
	WorkerLost      uint32            `json:"worker_lost,omitempty" jsonschema:"attempts whose worker was lost"`
	Suspect         bool              `json:"suspect,omitempty"`
	CancelRequested bool              `json:"cancel_requested,omitempty"`
	Worker          string            `json:"worker,omitempty"`
	Attempts        []attemptView     `json:"attempts,omitempty"`
	PayloadBytes    int64             `json:"payload_bytes,omitempty"`
	ResultBytes     int64             `json:"result_bytes,omitempty"`
	Traceparent     string            `json:"traceparent,omitempty"`
	Seq             uint64            `json:"seq,omitempty" jsonschema:"rises with each change; the ETag"`
	WaitsFor        *waitsForView     `json:"waits_for,omitempty" jsonschema:"what holds it back"`
	Chain           *chainLink        `json:"chain,omitempty" jsonschema:"where in a chain it is"`
	Member          *groupMemberView  `json:"member,omitempty" jsonschema:"which member of a group it is"`
	AfterGroup      string            `json:"after_group,omitempty" jsonschema:"the id of the group that it follows"`

	payload
	Blob *blobView `json:"blob,omitempty" jsonschema:"instead of a payload, with payload=true: it is in the blob store of the task's clients"`
	result
}

// waitsForView says what holds a task back.
type waitsForView struct {
	Reason string `json:"reason" jsonschema:"gate, quota, key, retry budget, no worker or queue full; there will be others"`
	Text   string `json:"text" jsonschema:"for people"`
	Gate   string `json:"gate,omitempty" jsonschema:"the id of the gate"`
	Until  moment `json:"until,omitzero" jsonschema:"when it ends by itself"`
}

// blobView is a payload that is not on the server.
type blobView struct {
	ID     string `json:"id" jsonschema:"in hexadecimal digits"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256" jsonschema:"of its contents, in hexadecimal digits"`
}

func blobViewOf(b *kinesinv1.Blob) *blobView {
	if b == nil {
		return nil
	}
	return &blobView{hex.EncodeToString(b.GetId()), b.GetBytes(), hex.EncodeToString(b.GetSha256())}
}

type attemptView struct {
	Number  uint32 `json:"number"`
	Worker  string `json:"worker,omitempty"`
	Version string `json:"version,omitempty" jsonschema:"of the worker's program"`
	Start   moment `json:"start,omitzero"`
	End     moment `json:"end,omitzero"`
	Outcome string `json:"outcome,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (t *taskView) seq() uint64 { return t.Seq }

func taskViewOf(t *kinesinv1.Task) taskView {
	v := taskView{
		result: resultOf(t.GetResult()),
		ID:     t.GetId(), Lambda: t.GetLambda(), State: t.GetState(), Priority: t.GetPriority(), Collection: t.GetCollection(), Key: t.GetKey(), LimitKey: t.GetLimitKey(), Tags: t.GetTags(),
		Due: moment(t.GetDue()), Created: moment(t.GetCreated()), Enqueued: moment(t.GetEnqueued()), Started: moment(t.GetStarted()),
		Ended: moment(t.GetEnded()), Next: moment(t.GetNext()), StartBefore: moment(t.GetStartBefore()),
		Timeout: durationOf(t.GetTimeout()), BackoffMin: durationOf(t.GetBackoffMin()), BackoffMax: durationOf(t.GetBackoffMax()),
		Attempt: t.GetAttempt(), Failures: t.GetFailures(), MaxAttempts: t.GetMaxAttempts(), WorkerLost: t.GetWorkerLost(),
		Suspect: t.GetSuspect(), CancelRequested: t.GetCancelRequested(), Worker: t.GetWorker(),
		PayloadBytes: t.GetPayloadBytes(), ResultBytes: t.GetResultBytes(), Traceparent: t.GetTraceparent(), Seq: t.GetSeq(),
	}
	v.Chain, v.AfterGroup = chainLinkOf(t.GetChain()), t.GetGroup().GetGroup()
	if m := t.GetMember(); m != nil {
		v.Member = &groupMemberView{m.GetGroup(), m.GetIndex()}
	}
	if w := t.GetWaitsFor(); w != nil {
		v.WaitsFor = &waitsForView{w.GetReason(), w.GetText(), w.GetGate(), moment(w.GetUntil())}
	}
	for _, a := range t.GetAttempts() {
		v.Attempts = append(v.Attempts, attemptView{
			Number: a.GetNumber(), Worker: a.GetWorker(), Version: a.GetVersion(), Start: moment(a.GetStart()), End: moment(a.GetEnd()), Outcome: a.GetOutcome(), Error: a.GetError(),
		})
	}
	return v
}

// target returns the task that the path names, by its id or by its key.
func (c *call) target() (ids []string, keys []*kinesinv1.TaskKey) {
	if id, byID := c.vars["id"]; byID {
		return []string{id}, nil
	}
	return nil, []*kinesinv1.TaskKey{{Lambda: c.vars["lambda"], Key: c.vars["key"]}}
}

// onlyTask returns the task of a response that has one.
func onlyTask(response *kinesinv1.GetResponse, err error, withPayload bool) (int, *taskView, error) {
	result, err := only(response.GetResults(), err)
	if err != nil {
		return 0, nil, err
	}
	v := taskViewOf(result.GetTask())
	if withPayload {
		v.payload, v.Blob = payloadOf(result.GetTask().GetPayload(), result.GetTask().GetBlob()), blobViewOf(result.GetTask().GetBlob())
	}
	return http.StatusOK, &v, nil
}

func getTask(c *call, _ *none) (int, *taskView, error) {
	withPayload, err := c.flag("payload")
	if err != nil {
		return 0, nil, err
	}
	ids, keys := c.target()
	response, err := c.Tasks.Get(c.r.Context(), &kinesinv1.GetRequest{Ids: ids, Keys: keys, WithPayload: withPayload})
	return onlyTask(response, err, withPayload)
}

// waitDefault is how long a wait is that does not say it.
const waitDefault = 30 * time.Second

func waitTask(c *call, _ *none) (int, *taskView, error) {
	wait := duration(waitDefault)
	if text := c.query.Get("timeout"); text != "" {
		if err := wait.parse(text); err != nil {
			return 0, nil, invalid("parameter timeout: %v", err)
		}
	}
	ids, keys := c.target()
	response, err := c.Tasks.Wait(c.r.Context(), &kinesinv1.WaitRequest{Ids: ids, Keys: keys, Wait: wait.micros()})
	return onlyTask(response, err, false)
}

type taskList struct {
	Tasks []taskView `json:"tasks"`
	Next  string     `json:"next,omitempty" jsonschema:"the cursor of the next page; the last page has none"`
}

func listTasks(c *call, _ *none) (int, *taskList, error) {
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
	return http.StatusOK, &taskList{Tasks: viewsOf(response.GetTasks(), taskViewOf), Next: base64.RawURLEncoding.EncodeToString(response.GetNextCursor())}, err
}

type count struct {
	Count    int64 `json:"count"`
	Exact    bool  `json:"exact" jsonschema:"the tasks were counted, not estimated"`
	Examined int64 `json:"examined,omitempty" jsonschema:"rows that were read for it"`
}

func countTasks(c *call, _ *none) (int, *count, error) {
	exact, err := c.flag("exact")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Tasks.Count(c.r.Context(), &kinesinv1.CountRequest{Where: c.query.Get("where"), Exact: exact})
	return http.StatusOK, &count{response.GetCount(), response.GetExact(), response.GetExamined()}, err
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

type scheduled struct {
	ID       string `json:"id"`
	Due      moment `json:"due,omitzero"`
	Existed  bool   `json:"existed,omitempty" jsonschema:"a task had the key already; id is its id"`
	State    string `json:"state,omitempty" jsonschema:"of the task that has the key"`
	Replaced bool   `json:"replaced,omitempty" jsonschema:"the task that has the key has the payload and time of this one now"`
}

func scheduledOf(r *kinesinv1.ScheduleResult) scheduled {
	return scheduled{ID: r.GetId(), Due: moment(r.GetDue()), Existed: r.GetDuplicate(), State: r.GetState(), Replaced: r.GetReplaced()}
}

func scheduleTask(c *call, r *scheduleRequest) (int, *scheduled, error) {
	item, err := r.item(c.vars["lambda"])
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Tasks.Schedule(c.r.Context(), &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{item}})
	result, err := only(response.GetResults(), err)
	if err != nil {
		return 0, nil, err
	}
	answer := scheduledOf(result)
	if answer.Existed || answer.Replaced {
		return http.StatusOK, &answer, nil
	}
	c.w.Header().Set("Location", api.PlainPrefix+"tasks/"+answer.ID)
	return http.StatusCreated, &answer, nil
}
