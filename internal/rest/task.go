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
