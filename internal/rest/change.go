package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func cancelTask(c *call, _ *none) (int, *kinesinv1.CancelResult, error) {
	seq, err := c.ifSeq(0)
	if err != nil {
		return 0, nil, err
	}
	ids, keys := c.target()
	response, err := c.Tasks.Cancel(c.r.Context(), &kinesinv1.CancelRequest{Ids: ids, Keys: keys, IfSeq: seq})
	result, err := only(response.GetResults(), err)
	return http.StatusOK, result, err
}

// onlyChange returns the result of a response that has one.
func onlyChange(response *kinesinv1.ChangeResponse, err error) (int, *kinesinv1.ChangeResult, error) {
	r, err := only(response.GetResults(), err)
	return http.StatusOK, r, err
}

// noted adds to the result of a change whether the due time that was asked for was in the past. Due times are
// rounded up to milliseconds.
func noted(asked int64, status int, t *kinesinv1.ChangeResult, err error) (int, *kinesinv1.ChangeResult, error) {
	if err == nil && asked != 0 && t.GetDue() >= asked+1000 {
		t.Note = "the due time is in the past, which means now"
	}
	return status, t, err
}

// patchRequest changes the time of a task, its priority, or its payload and settings.
type patchRequest struct {
	payload
	when
	overrides

	Priority string  `json:"priority,omitempty" jsonschema:"one of the lambda's"`
	IfSeq    ordinal `json:"if_seq,omitempty" jsonschema:"only if the task is at this seq, as the header If-Match says it too"`
}

// patchTask changes all of it in one write.
func patchTask(c *call, r *patchRequest) (int, *kinesinv1.ChangeResult, error) {
	seq, err := c.ifSeq(uint64(r.IfSeq))
	if err != nil {
		return 0, nil, err
	}
	data, err := r.bytes()
	if err != nil {
		return 0, nil, invalid("%v", err)
	}
	due, delay, err := r.micros()
	if err != nil {
		return 0, nil, err
	}
	ids, keys := c.target()
	moves, updates := r.Due != 0 || r.Delay != nil, r.isGiven() || r.overrides != overrides{} || r.Priority != ""
	switch {
	case moves && !updates:
		status, t, err := onlyChange(c.Tasks.Reschedule(c.r.Context(), &kinesinv1.RescheduleRequest{
			Ids: ids, Keys: keys, Due: due, Delay: delay, IfSeq: seq,
		}))
		return noted(due, status, t, err)
	case !updates:
		return 0, nil, invalid("nothing to change: want due or delay, a payload, priority, max_attempts, timeout, backoff_min, backoff_max or start_before")
	}
	update := &kinesinv1.TaskUpdate{
		IfSeq: seq, Payload: given(r.payload, data),
		MaxAttempts: r.MaxAttempts.uint32(), Timeout: r.Timeout.micros(), BackoffMin: r.BackoffMin.micros(), BackoffMax: r.BackoffMax.micros(),
		StartBefore: int64(r.StartBefore), Priority: r.Priority, Due: due, Delay: delay,
	}
	if r.Delay != nil && delay == 0 {
		update.Delay = 1 // now
	}
	if len(ids) > 0 {
		update.Id = ids[0]
	} else {
		update.Key = keys[0]
	}
	status, t, err := onlyChange(c.Tasks.Update(c.r.Context(), &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{update}}))
	return noted(due, status, t, err)
}

// given returns the bytes of a payload that a request has; nil if it has none. One that is empty is not nil.
func given(p payload, data []byte) []byte {
	if p.isGiven() && data == nil {
		return []byte{}
	}
	return data
}

type runRequest struct {
	IfSeq ordinal `json:"if_seq,omitempty" jsonschema:"only if the task is at this seq, as the header If-Match says it too"`
}

func runTask(c *call, r *runRequest) (int, *kinesinv1.ChangeResult, error) {
	seq, err := c.ifSeq(uint64(r.IfSeq))
	if err != nil {
		return 0, nil, err
	}
	ids, keys := c.target()
	return onlyChange(c.Tasks.Reschedule(c.r.Context(), &kinesinv1.RescheduleRequest{Ids: ids, Keys: keys, IfSeq: seq}))
}

type redriveRequest struct {
	payload

	Force bool    `json:"force,omitempty" jsonschema:"also a task that ended as success or delivered"`
	IfSeq ordinal `json:"if_seq,omitempty" jsonschema:"only if the task is at this seq, as the header If-Match says it too"`
}

func redriveTask(c *call, r *redriveRequest) (int, *kinesinv1.ChangeResult, error) {
	seq, err := c.ifSeq(uint64(r.IfSeq))
	if err != nil {
		return 0, nil, err
	}
	data, err := r.bytes()
	if err != nil {
		return 0, nil, invalid("%v", err)
	}
	ids, keys := c.target()
	return onlyChange(c.Tasks.Redrive(c.r.Context(), &kinesinv1.RedriveRequest{
		Ids: ids, Keys: keys, Force: r.Force, IfSeq: seq, Payload: given(r.payload, data),
	}))
}
