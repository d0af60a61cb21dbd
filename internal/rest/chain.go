package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// chainedRequest is what may follow a task.
type chainedRequest struct {
	Then    followups `json:"then,omitempty" jsonschema:"tasks that follow a success"`
	Else    followups `json:"else,omitempty" jsonschema:"tasks that follow any other end"`
	Finally followups `json:"finally,omitempty" jsonschema:"tasks that follow any end"`
}

// followups are tasks in the form of a request to schedule one, with the name of their lambda.
type followups []followup

type followup struct {
	Lambda string `json:"lambda"`

	scheduleRequest
}

func (f *followups) fromJSON(raw []byte) error {
	var each []json.RawMessage
	if json.Unmarshal(raw, &each) != nil {
		return fmt.Errorf("%s is no list of tasks", shown(raw))
	}
	if len(each) > task.FollowupsMax {
		return fmt.Errorf("%d follow-ups: at most %d are allowed, with those of follow-ups", len(each), task.FollowupsMax)
	}
	*f = make(followups, len(each))
	for i, one := range each {
		if err := decodeObject(place{"the task", noIndex}, one, reflect.ValueOf(&(*f)[i]).Elem()); err != nil {
			return within(fmt.Sprintf("[%d]", i), err)
		}
	}
	return nil
}

// placed is an error with its place in what follows a task, such as then[0].else[1].
type placed struct {
	where string
	error
}

func (p *placed) Error() string { return fmt.Sprintf("%s: %v", task.ShortPlace(p.where), p.error) }

// within says where an error is, of which the inner part may be known.
func within(where string, err error) error {
	if inner, is := err.(*placed); is { //nolint:errorlint // nothing wraps one
		return &placed{where + "." + inner.where, inner.error}
	}
	return &placed{where, err}
}

// items returns the items of follow-ups, as deep as a chain may be.
func (f followups) items(edge string, depth int) ([]*kinesinv1.ScheduleItem, error) {
	if len(f) > 0 && depth+1 >= task.ChainDepthMax {
		return nil, within(edge+"[0]", invalid("it is task %d of a row: at most %d tasks may follow each other, the first one included", depth+2, task.ChainDepthMax))
	}
	items := make([]*kinesinv1.ScheduleItem, len(f))
	for i := range f {
		var err error
		if items[i], err = f[i].itemAt(f[i].Lambda, depth+1); err != nil {
			return nil, within(fmt.Sprintf("%s[%d]", edge, i), err)
		}
	}
	return items, nil
}

// into gives an item what follows it.
func (r *chainedRequest) into(item *kinesinv1.ScheduleItem, depth int) (err error) {
	if item.Then, err = r.Then.items("then", depth); err != nil {
		return err
	}
	if item.Else, err = r.Else.items("else", depth); err != nil {
		return err
	}
	item.Finally, err = r.Finally.items("finally", depth)
	return err
}

func chainRoutes() []route {
	const path = "/v1/chains/{id}"
	routes := []route{op("GET", path, "getChain", "See a chain by any of its tasks", getChain, notFound)}
	for _, action := range []string{"cancel", "pause", "resume", "redrive"} {
		routes = append(routes, op("POST", path+"/"+action, action+"Chain", "Have a chain "+action, controlChain(action), notFound, conflict))
	}
	return append(routes, op("POST", path+"/extend", "extendChain", "Give the tasks of a chain that have not started another time until which they may", extendChain, notFound, conflict))
}

func getChain(c *call, _ *none) (int, *kinesinv1.GetChainResponse, error) {
	response, err := c.Chains.GetChain(c.r.Context(), &kinesinv1.GetChainRequest{Id: c.vars["id"]})
	return http.StatusOK, response, err
}

func changeChain(c *call, r *kinesinv1.ControlChainRequest) (int, *kinesinv1.ControlChainResponse, error) {
	response, err := c.Chains.ControlChain(c.r.Context(), r)
	return http.StatusOK, response, err
}

func controlChain(action string) func(c *call, _ *none) (int, *kinesinv1.ControlChainResponse, error) {
	return func(c *call, _ *none) (int, *kinesinv1.ControlChainResponse, error) {
		return changeChain(c, &kinesinv1.ControlChainRequest{Id: c.vars["id"], Action: action})
	}
}

type extendRequest struct {
	StartBefore moment `json:"start_before" jsonschema:"a task that did not start before then ends as expired"`
}

func extendChain(c *call, r *extendRequest) (int, *kinesinv1.ControlChainResponse, error) {
	return changeChain(c, &kinesinv1.ControlChainRequest{Id: c.vars["id"], Action: "extend", StartBefore: int64(r.StartBefore)})
}
