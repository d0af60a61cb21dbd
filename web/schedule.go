package web

import (
	"net/http"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
)

// scheduleBody is a task that somebody is about to schedule.
type scheduleBody struct {
	Lambdas []string // for which the viewer may
	Item    *kinesinv1.ScheduleItem
	When    string
	Zone    string
	Request string
	Problem string
	Field   string // the one that Problem is about; empty: none of them
}

// showSchedule asks for a new task.
func showSchedule(c *call) error {
	return c.schedulePage(http.StatusOK, &scheduleBody{Item: &kinesinv1.ScheduleItem{Lambda: c.field("lambda")}, Request: newRequest()})
}

func (c *call) schedulePage(status int, b *scheduleBody) error {
	if c.ReadOnly {
		return errReadOnly
	}
	if !c.mayAny(access.Schedule) {
		return api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "%v", c.caller.Denied(access.Schedule, b.Item.GetLambda()))
	}
	response, err := c.Lambdas.ListLambdas(c.r.Context(), &kinesinv1.ListLambdasRequest{})
	if err != nil {
		return err
	}
	for _, l := range response.GetLambdas() {
		if c.caller.Grants.AllowSome(access.Schedule, l.GetName()) && !l.GetDeleting() {
			b.Lambdas = append(b.Lambdas, l.GetName())
		}
	}
	return c.showStatus(status, "Schedule a task", Prefix+"tasks", schedulePage(b))
}

// schedule schedules a task. What is wrong with it is said beside its field, and the form keeps what was typed.
func schedule(c *call) error {
	b := &scheduleBody{When: c.field("when"), Zone: c.field("zone"), Request: c.field("request"), Item: &kinesinv1.ScheduleItem{
		Lambda: c.field("lambda"), Payload: c.payload(), Key: c.r.FormValue("key"), LimitKey: c.r.FormValue("limit-key"),
		Priority: c.field("priority"), Collection: c.field("collection"), OnConflict: c.field("on-conflict"), RequestId: requestID(c.field("request")),
	}}
	refused := func(field string, err error) error {
		p := problemOf(err)
		if p.Status == http.StatusInternalServerError {
			return err
		}
		b.Problem, b.Field = p.Text, field
		return c.schedulePage(p.Status, b)
	}
	if b.When != "" {
		var err error
		if b.Item.Due, b.Item.Delay, err = c.when(); err != nil {
			return refused("when", err)
		}
	}
	response, err := c.Tasks.Schedule(c.r.Context(), &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{b.Item}})
	if err == nil && len(response.GetResults()) == 1 {
		err = api.ErrorOf(response.GetResults()[0].GetProblem())
	}
	if err != nil {
		return refused(fieldOf(api.ProblemOf(err)), err)
	}
	made := response.GetResults()[0]
	done := either(made.GetDuplicate(), "scheduled-before", "scheduled")
	return c.goTo(taskPath(made.GetId()), either(made.GetReplaced(), "replaced", done))
}

// fieldOf returns the field of the form that a refusal is about, which its text names first; empty: none of them alone.
func fieldOf(p *kinesinv1.Problem) string {
	switch p.GetReason() { //nolint:exhaustive // those that are about one field
	case kinesinv1.Reason_REASON_UNKNOWN_LAMBDA:
		return "lambda"
	case kinesinv1.Reason_REASON_KEY_CONFLICT:
		return "key"
	case kinesinv1.Reason_REASON_TOO_LARGE:
		return "payload"
	}
	field, first := "", len(p.GetText())
	for word, of := range map[string]string{
		"lambda": "lambda", "payload": "payload", "due": "when", "delay": "when", "limit key": "limit-key", "key": "key", "priority": "priority", "collection": "collection",
	} {
		if at := strings.Index(p.GetText(), word); at >= 0 && at < first {
			field, first = of, at
		}
	}
	return field
}

func schedulePage(b *scheduleBody) g.Node {
	below := func(field string, hint ...g.Node) g.Node {
		return g.Group{
			g.If(b.Field == field, wrong(b.Problem, h.ID(field+"-wrong"))),
			g.If(len(hint) > 0, hintBelow(field+"-hint", hint...)),
		}
	}
	of := func(id string, hints bool) g.Node {
		described := strings.TrimSpace(either(b.Field == id, id+"-wrong", "") + either(hints, " "+id+"-hint", ""))
		return g.Group{g.If(described != "", describedBy(described)), g.If(b.Field == id, h.Aria("invalid", "true"))}
	}
	return g.Group{
		h.H1(text("Schedule a task")), g.If(b.Field == "", wrong(b.Problem)),
		either(len(b.Lambdas) == 0, none("There is no lambda for which you may schedule tasks."), post(
			h.Class("confirm fields"), hidden("request", b.Request),
			choice("lambda", "Lambda", plainOptions(b.Lambdas, b.Item.GetLambda()), of("lambda", false)), below("lambda"),
			payloadField("Payload", 6, string(b.Item.GetPayload()), of("payload", false)), below("payload"),
			field("when", "Due in, or at", h.Value(b.When), size(22), of("when", true)),
			below("when", text(sentence(whenWant)+" Empty: now.")), ownZone(b.Zone),
			field("key", "Key", h.Value(b.Item.GetKey()), size(40), unaided(), of("key", true)),
			below("key", text("Same lambda and key, same task. Empty: none.")),
			choice("on-conflict", "On conflict", plainOptions([]string{"keep", "replace", "reject"}, b.Item.GetOnConflict()), of("on-conflict", true)),
			below("on-conflict", text("If a task has the key: keep it, replace its payload and time, or reject this one.")),
			field("priority", "Priority", h.Value(b.Item.GetPriority()), size(16), unaided(), of("priority", true)),
			below("priority", text("One of the lambda's. Empty: its usual one.")),
			field("limit-key", "Limit key", h.Value(b.Item.GetLimitKey()), size(40), unaided(), of("limit-key", true)),
			below("limit-key", text("Whose task it is, such as a customer, for the lambda's limits by key. Empty: nobody's.")),
			field("collection", "Collection", h.Value(b.Item.GetCollection()), size(40), unaided(), of("collection", true)),
			below("collection", text("A label for some of the lambda's tasks. Empty: none.")),
			buttons(primary("Schedule"), text(" "), buttonLink(Prefix+"tasks", "Do nothing")),
		)),
	}
}
