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

type resumeRequest struct {
	Pace uint32 `json:"pace,omitempty" jsonschema:"tasks per second; 0: all at once"`
}

func setGate(c *call, r *gateRequest) (int, *kinesinv1.Gate, error) {
	response, err := c.Gates.SetGate(c.r.Context(), &kinesinv1.SetGateRequest{DryRun: r.DryRun, Gate: &kinesinv1.Gate{
		Action: r.Action, Lambda: r.Lambda, Priority: r.Priority, Collection: r.Collection, Tag: r.Tag, Reason: r.Reason, Until: int64(r.Until),
	}})
	return created(!r.DryRun), response.GetGate(), err
}

func listGates(c *call, _ *none) (int, *kinesinv1.ListGatesResponse, error) {
	ended, err := c.flag("ended")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Gates.ListGates(c.r.Context(), &kinesinv1.ListGatesRequest{Lambda: c.query.Get("lambda"), Ended: ended})
	return http.StatusOK, response, err
}

func getGate(c *call, _ *none) (int, *kinesinv1.Gate, error) {
	response, err := c.Gates.GetGate(c.r.Context(), &kinesinv1.GetGateRequest{Id: c.vars["id"]})
	return http.StatusOK, response.GetGate(), err
}

func resumeGate(c *call, r *resumeRequest) (int, *kinesinv1.Gate, error) {
	response, err := c.Gates.ResumeGate(c.r.Context(), &kinesinv1.ResumeGateRequest{Id: c.vars["id"], Pace: r.Pace})
	return http.StatusOK, response.GetGate(), err
}
