package rest

import (
	"net/http"
	"slices"

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

// patchTask changes all of it in one write.
func patchTask(c *call, r *kinesinv1.TaskUpdate) (int, *kinesinv1.ChangeResult, error) {
	seq, err := c.ifSeq(r.GetIfSeq())
	if err != nil {
		return 0, nil, err
	}
	updates := slices.ContainsFunc(r.GetFields(), func(name string) bool { return name != "due" && name != "delay" })
	ids, keys := c.target()
	switch {
	case len(r.GetFields()) == 0:
		return 0, nil, invalid("nothing to change: want due or delay, a payload, priority, max_attempts, timeout, backoff_min, backoff_max or start_before")
	case !updates:
		status, t, err := onlyChange(c.Tasks.Reschedule(c.r.Context(), &kinesinv1.RescheduleRequest{
			Ids: ids, Keys: keys, Due: r.GetDue(), Delay: r.GetDelay(), IfSeq: seq,
		}))
		return noted(r.GetDue(), status, t, err)
	}
	r.IfSeq = seq
	if len(ids) > 0 {
		r.Id = ids[0]
	} else {
		r.Key = keys[0]
	}
	status, t, err := onlyChange(c.Tasks.Update(c.r.Context(), &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{r}}))
	return noted(r.GetDue(), status, t, err)
}

func runTask(c *call, r *kinesinv1.RescheduleRequest) (int, *kinesinv1.ChangeResult, error) {
	seq, err := c.ifSeq(r.GetIfSeq())
	if err != nil {
		return 0, nil, err
	}
	r.IfSeq = seq
	r.Ids, r.Keys = c.target()
	return onlyChange(c.Tasks.Reschedule(c.r.Context(), r))
}

func redriveTask(c *call, r *kinesinv1.RedriveRequest) (int, *kinesinv1.ChangeResult, error) {
	seq, err := c.ifSeq(r.GetIfSeq())
	if err != nil {
		return 0, nil, err
	}
	r.IfSeq = seq
	r.Ids, r.Keys = c.target()
	return onlyChange(c.Tasks.Redrive(c.r.Context(), r))
}
