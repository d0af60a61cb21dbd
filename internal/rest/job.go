package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

type jobRequest struct {
	Action string   `json:"action" jsonschema:"cancel, redrive, reschedule, expire or delete"`
	Where  string   `json:"where,omitempty" jsonschema:"a filter expression"`
	All    bool     `json:"all,omitempty" jsonschema:"allows a filter that is empty or may match all"`
	DryRun bool     `json:"dry_run,omitempty" jsonschema:"only count, and show a sample"`
	Pace   uint32   `json:"pace,omitempty" jsonschema:"tasks per second; 0: as fast as the store allows"`
	By     shift    `json:"by,omitzero" jsonschema:"of reschedule: added to each due time; may be negative"`
	Spread duration `json:"spread,omitzero" jsonschema:"of reschedule: due times evenly over this long from now"`
	Due    moment   `json:"due,omitzero" jsonschema:"of reschedule: one due time for all"`
	Force  bool     `json:"force,omitempty" jsonschema:"of redrive: also tasks that ended as success or delivered"`
}

func createJob(c *call, r *jobRequest) (int, *kinesinv1.Job, error) {
	response, err := c.Jobs.CreateJob(c.r.Context(), &kinesinv1.CreateJobRequest{
		Action: r.Action, Where: r.Where, All: r.All, DryRun: r.DryRun, Pace: r.Pace,
		By: r.By.micros(), Spread: r.Spread.micros(), Due: int64(r.Due), Force: r.Force,
	})
	return created(!r.DryRun), response.GetJob(), err
}

func listJobs(c *call, _ *none) (int, *kinesinv1.ListJobsResponse, error) {
	response, err := c.Jobs.ListJobs(c.r.Context(), &kinesinv1.ListJobsRequest{})
	return http.StatusOK, response, err
}

func getJob(c *call, _ *none) (int, *kinesinv1.Job, error) {
	response, err := c.Jobs.GetJob(c.r.Context(), &kinesinv1.GetJobRequest{Id: c.vars["id"]})
	return http.StatusOK, response.GetJob(), err
}

// controlJob returns the function of an action on a job.
func controlJob(action string) func(c *call, _ *none) (int, *kinesinv1.Job, error) {
	return func(c *call, _ *none) (int, *kinesinv1.Job, error) {
		response, err := c.Jobs.ControlJob(c.r.Context(), &kinesinv1.ControlJobRequest{Id: c.vars["id"], Action: action})
		return http.StatusOK, response.GetJob(), err
	}
}
