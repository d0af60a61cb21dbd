package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// gateSettings are what a gate is about, as whoever sets it says.
type gateSettings struct {
	Action     string `json:"action" jsonschema:"pause (tasks wait) or drop (they end as dropped when they are due)"`
	Lambda     string `json:"lambda"`
	Priority   string `json:"priority,omitempty" jsonschema:"at most one of priority, collection and tag; none: all tasks of the lambda"`
	Collection string `json:"collection,omitempty"`
	Tag        string `json:"tag,omitempty" jsonschema:"a name and a value, such as tenant=acme"`
	Reason     string `json:"reason" jsonschema:"for those who find their tasks held back"`
	Until      moment `json:"until,omitzero" jsonschema:"when it ends by itself; never when not set"`
}

type gateRequest struct {
	gateSettings

	DryRun bool `json:"dry_run,omitempty" jsonschema:"only count"`
}

type gateView struct {
	ID string `json:"id,omitempty" jsonschema:"a number; not of a dry run"`

	gateSettings

	State   string      `json:"state,omitempty" jsonschema:"active, resuming, probing (of a circuit breaker) or ended"`
	Owner   string      `json:"owner,omitempty" jsonschema:"the identity that set it"`
	Created moment      `json:"created,omitzero"`
	Pace    uint32      `json:"pace,omitempty" jsonschema:"while it resumes: tasks per second"`
	Ended   moment      `json:"ended,omitzero"`
	EndedBy string      `json:"ended_by,omitempty" jsonschema:"the identity that resumed it; none if it expired"`
	Note    string      `json:"note,omitempty" jsonschema:"what is unusual about it, such as an overlap with another gate"`
	Counts  *gateCounts `json:"counts,omitempty" jsonschema:"of a dry run, and of one gate that has not ended"`
}

type gateCounts struct {
	Now      int64 `json:"now" jsonschema:"tasks that are due"`
	NextHour int64 `json:"next_hour" jsonschema:"tasks that come due within an hour"`
	Exact    bool  `json:"exact" jsonschema:"they were counted, not estimated"`
	Sent     int64 `json:"sent" jsonschema:"of a deliver lambda: on SQS already, which no gate holds; -1: not known"`
}

type gateList struct {
	Gates []gateView `json:"gates"`
}

type resumeRequest struct {
	Pace uint32 `json:"pace,omitempty" jsonschema:"tasks per second; 0: all at once"`
}

func gateViewOf(g *kinesinv1.Gate) gateView {
	v := gateView{
		ID: g.GetId(), State: g.GetState(), Owner: g.GetOwner(), Created: moment(g.GetCreated()), Pace: g.GetPace(),
		Ended: moment(g.GetEnded()), EndedBy: g.GetEndedBy(), Note: g.GetNote(),
		gateSettings: gateSettings{
			Action: g.GetAction(), Lambda: g.GetLambda(), Priority: g.GetPriority(), Collection: g.GetCollection(), Tag: g.GetTag(),
			Reason: g.GetReason(), Until: moment(g.GetUntil()),
		},
	}
	if c := g.GetCounts(); c != nil {
		v.Counts = &gateCounts{c.GetNow(), c.GetNextHour(), c.GetExact(), c.GetSent()}
	}
	return v
}

func setGate(c *call, r *gateRequest) (int, *gateView, error) {
	response, err := c.Gates.SetGate(c.r.Context(), &kinesinv1.SetGateRequest{DryRun: r.DryRun, Gate: &kinesinv1.Gate{
		Action: r.Action, Lambda: r.Lambda, Priority: r.Priority, Collection: r.Collection, Tag: r.Tag, Reason: r.Reason, Until: int64(r.Until),
	}})
	return answer(created(!r.DryRun), response.GetGate(), err, gateViewOf)
}

func listGates(c *call, _ *none) (int, *gateList, error) {
	ended, err := c.flag("ended")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Gates.ListGates(c.r.Context(), &kinesinv1.ListGatesRequest{Lambda: c.query.Get("lambda"), Ended: ended})
	return http.StatusOK, &gateList{Gates: viewsOf(response.GetGates(), gateViewOf)}, err
}

func getGate(c *call, _ *none) (int, *gateView, error) {
	response, err := c.Gates.GetGate(c.r.Context(), &kinesinv1.GetGateRequest{Id: c.vars["id"]})
	return answer(http.StatusOK, response.GetGate(), err, gateViewOf)
}

func resumeGate(c *call, r *resumeRequest) (int, *gateView, error) {
	response, err := c.Gates.ResumeGate(c.r.Context(), &kinesinv1.ResumeGateRequest{Id: c.vars["id"], Pace: r.Pace})
	return answer(http.StatusOK, response.GetGate(), err, gateViewOf)
}
