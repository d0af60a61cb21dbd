package rest

import (
	"net/http"
	"slices"
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
	wait := waitDefault
	if text := c.query.Get("timeout"); text != "" {
		var err error
		if wait, err = api.ParseDuration(text); err != nil {
			return 0, nil, invalid("parameter timeout: %v", err)
		}
	}
	ids, keys := c.target()
	response, err := c.Tasks.Wait(c.r.Context(), &kinesinv1.WaitRequest{Ids: ids, Keys: keys, Wait: wait.Microseconds()})
	return onlyTask(response, err)
}

func scheduleTask(c *call, r *kinesinv1.ScheduleItem) (int, *kinesinv1.ScheduleResult, error) {
	r.Lambda = c.vars["lambda"]
	response, err := c.Tasks.Schedule(c.r.Context(), &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{r}})
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

func addMembers(c *call, r *kinesinv1.AddMembersRequest) (int, *kinesinv1.AddMembersResponse, error) {
	if c.r.URL.RawQuery != "" {
		return 0, nil, invalid("at and lambda in the query are of a batch (%s): want them in the body", api.BatchType)
	}
	r.Group = c.vars["group"]
	if !slices.Contains(c.given, "at") {
		now, err := c.Groups.GetGroup(c.r.Context(), &kinesinv1.GetGroupRequest{Id: r.GetGroup()})
		if err != nil {
			return 0, nil, err
		}
		r.At = now.GetGroup().GetMembers()
	}
	response, err := c.Groups.AddMembers(c.r.Context(), r)
	return c.route.status(r, response), response, err
}

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
