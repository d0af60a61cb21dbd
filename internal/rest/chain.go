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

// chainLink says where in a chain a task is.
type chainLink struct {
	Root      string `json:"root" jsonschema:"the id of the chain: its first task"`
	Parent    string `json:"parent,omitempty" jsonschema:"the task that it follows"`
	Edge      string `json:"edge,omitempty" jsonschema:"then, else or finally: how it follows that"`
	Followups uint32 `json:"followups,omitempty" jsonschema:"how many follow-ups it names"`
	Paused    bool   `json:"paused,omitempty"`
}

func chainLinkOf(l *kinesinv1.Link) *chainLink {
	if l == nil {
		return nil
	}
	return &chainLink{Root: l.GetRoot(), Parent: l.GetParent(), Edge: l.GetEdge(), Followups: l.GetFollowups(), Paused: l.GetPaused()}
}

type chainView struct {
	ID    string      `json:"id" jsonschema:"the id of its first task"`
	State string      `json:"state" jsonschema:"live, paused or ended"`
	Tasks []chainTask `json:"tasks" jsonschema:"each before those that follow it"`
	More  bool        `json:"more,omitempty" jsonschema:"it has more tasks than are shown"`
}

type chainTask struct {
	Parent     *int     `json:"parent,omitempty" jsonschema:"index of the task that it follows"`
	Edge       string   `json:"edge,omitempty" jsonschema:"then, else or finally"`
	ID         string   `json:"id,omitempty" jsonschema:"of a task that is there, and that the caller may read"`
	Lambda     string   `json:"lambda,omitempty"`
	Collection string   `json:"collection,omitempty"`
	State      string   `json:"state" jsonschema:"of the task; or planned, skipped (the one before ended in another way) or missing"`
	Due        moment   `json:"due,omitzero"`
	Delay      duration `json:"delay,omitzero" jsonschema:"of one that is planned: after the end of the task before it"`
	Started    moment   `json:"started,omitzero"`
	Ended      moment   `json:"ended,omitzero"`
	Attempt    uint32   `json:"attempt,omitempty"`
	Error      string   `json:"error,omitempty" jsonschema:"of its last attempt, if it did not succeed"`
	WaitsFor   string   `json:"waits_for,omitempty" jsonschema:"for people: what holds it back"`
	Paused     bool     `json:"paused,omitempty"`
	Earlier    bool     `json:"before_redrive,omitempty" jsonschema:"it follows an earlier end of the task before it, which was redriven since"`
}

// add adds a task of a chain with those that follow it.
func (v *chainView) add(t *kinesinv1.ChainTask, parent *int) {
	at := len(v.Tasks)
	v.Tasks = append(v.Tasks, chainTask{
		Parent: parent, Edge: t.GetEdge(), ID: t.GetId(), Lambda: t.GetLambda(), Collection: t.GetCollection(), State: t.GetState(),
		Due: moment(t.GetDue()), Delay: durationOf(t.GetDelay()), Started: moment(t.GetStarted()), Ended: moment(t.GetEnded()),
		Attempt: t.GetAttempt(), Error: t.GetError(), WaitsFor: t.GetWaitsFor(), Paused: t.GetPaused(), Earlier: t.GetBeforeRedrive(),
	})
	for _, next := range t.GetFollowups() {
		v.add(next, &at)
	}
}

func chainRoutes() []route {
	const path = "/v1/chains/{id}"
	routes := []route{op("GET", path, "getChain", "See a chain by any of its tasks", getChain, notFound)}
	for _, action := range []string{"cancel", "pause", "resume", "redrive"} {
		routes = append(routes, op("POST", path+"/"+action, action+"Chain", "Have a chain "+action, controlChain(action), notFound, conflict))
	}
	return append(routes, op("POST", path+"/extend", "extendChain", "Give the tasks of a chain that have not started another time until which they may", extendChain, notFound, conflict))
}

func getChain(c *call, _ *none) (int, *chainView, error) {
	response, err := c.Chains.GetChain(c.r.Context(), &kinesinv1.GetChainRequest{Id: c.vars["id"]})
	if err != nil {
		return 0, nil, err
	}
	v := &chainView{ID: response.GetId(), State: response.GetState(), More: response.GetMore(), Tasks: []chainTask{}}
	v.add(response.GetRoot(), nil)
	return http.StatusOK, v, nil
}

type chainChanged struct {
	ID      string `json:"id" jsonschema:"the id of its first task"`
	Changed uint32 `json:"changed" jsonschema:"tasks that were changed"`
	Told    uint32 `json:"told,omitempty" jsonschema:"tasks that run, and were told to stop"`
	Left    uint32 `json:"left,omitempty" jsonschema:"of cancel: tasks that it found and that run on, since else or finally leads to them"`
}

func changeChain(c *call, r *kinesinv1.ControlChainRequest) (int, *chainChanged, error) {
	response, err := c.Chains.ControlChain(c.r.Context(), r)
	return http.StatusOK, &chainChanged{response.GetId(), response.GetChanged(), response.GetTold(), response.GetLeft()}, err
}

func controlChain(action string) func(c *call, _ *none) (int, *chainChanged, error) {
	return func(c *call, _ *none) (int, *chainChanged, error) {
		return changeChain(c, &kinesinv1.ControlChainRequest{Id: c.vars["id"], Action: action})
	}
}

type extendRequest struct {
	StartBefore moment `json:"start_before" jsonschema:"a task that did not start before then ends as expired"`
}

func extendChain(c *call, r *extendRequest) (int, *chainChanged, error) {
	return changeChain(c, &kinesinv1.ControlChainRequest{Id: c.vars["id"], Action: "extend", StartBefore: int64(r.StartBefore)})
}
