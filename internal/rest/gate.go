package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func setGate(c *call, r *kinesinv1.SetGateRequest) (int, *kinesinv1.Gate, error) {
	response, err := c.Gates.SetGate(c.r.Context(), r)
	return created(!r.GetDryRun()), response.GetGate(), err
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

func resumeGate(c *call, r *kinesinv1.ResumeGateRequest) (int, *kinesinv1.Gate, error) {
	r.Id = c.vars["id"]
	response, err := c.Gates.ResumeGate(c.r.Context(), r)
	return http.StatusOK, response.GetGate(), err
}
