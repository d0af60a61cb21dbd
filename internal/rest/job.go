package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func createJob(c *call, r *kinesinv1.CreateJobRequest) (int, *kinesinv1.Job, error) {
	response, err := c.Jobs.CreateJob(c.r.Context(), r)
	return created(!r.GetDryRun()), response.GetJob(), err
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
