package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func chainRoutes() []route {
	const path = "/v1/chains/{id}"
	routes := []route{op("GET", path, "getChain", "See a chain by any of its tasks", getChain, notFound)}
	for _, action := range []string{"cancel", "pause", "resume", "redrive"} {
		routes = append(routes, op("POST", path+"/"+action, action+"Chain", "Have a chain "+action, controlChain(action), notFound, conflict))
	}
	return append(routes, op("POST", path+"/extend", "extendChain", "Give the tasks of a chain that have not started another time until which they may", extendChain, notFound, conflict, without("id", "action")))
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

func extendChain(c *call, r *kinesinv1.ControlChainRequest) (int, *kinesinv1.ControlChainResponse, error) {
	r.Id, r.Action = c.vars["id"], "extend"
	return changeChain(c, r)
}
