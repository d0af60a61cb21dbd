package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func createLambda(c *call, r *kinesinv1.CreateLambdaRequest) (int, *kinesinv1.Lambda, error) {
	response, err := c.Lambdas.CreateLambda(c.r.Context(), r)
	return created(!response.GetExisted()), response.GetLambda(), err
}

func listLambdas(c *call, _ *none) (int, *kinesinv1.ListLambdasResponse, error) {
	response, err := c.Lambdas.ListLambdas(c.r.Context(), &kinesinv1.ListLambdasRequest{})
	return http.StatusOK, response, err
}

func getLambda(c *call, _ *none) (int, *kinesinv1.Lambda, error) {
	live, err := c.flag("live")
	if err != nil {
		return 0, nil, err
	}
	count, err := c.flag("count")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Lambdas.GetLambda(c.r.Context(), &kinesinv1.GetLambdaRequest{Name: c.vars["lambda"], Live: live || count, Count: count})
	return http.StatusOK, response.GetLambda(), err
}

// takeAway has a change that says 0 for a setting take that away, as the wire says it.
func takeAway(l *kinesinv1.Lambda, name string) {
	switch {
	case name == "key_retention" && l.GetKeyRetention() == 0:
		l.KeyRetention = -1
	case name == "start_within" && l.GetStartWithin() == 0:
		l.StartWithin = -1
	case name == "retry_share" && l.GetRetryShare() == 0:
		l.RetryShare = -1
	case name == "limit_key_concurrency" && l.GetLimitKeyConcurrency() == 0:
		l.LimitKeyConcurrency = -1
	case name == "limit_key_rate" && l.GetLimitKeyRate() == 0:
		l.LimitKeyRate = -1
	case name == "priority_weights" && len(l.GetPriorityWeights()) == 0:
		l.PriorityWeights = map[string]uint32{"": 0}
	}
}

func updateLambda(c *call, r *kinesinv1.UpdateLambdaRequest) (int, *kinesinv1.Lambda, error) {
	l := r.GetLambda()
	l.Name = c.vars["lambda"]
	for _, name := range c.given {
		takeAway(l, name)
	}
	response, err := c.Lambdas.UpdateLambda(c.r.Context(), r)
	return http.StatusOK, response.GetLambda(), err
}

// deleteLambda answers 202 when there is more to do than fits into a call.
func deleteLambda(c *call, _ *none) (int, *kinesinv1.DeleteLambdaResponse, error) {
	drop, err := c.flag("drop_tasks")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Lambdas.DeleteLambda(c.r.Context(), &kinesinv1.DeleteLambdaRequest{Name: c.vars["lambda"], DropTasks: drop, GoesOn: drop})
	if err != nil {
		return 0, nil, err
	}
	status := http.StatusOK
	if response.GetMore() {
		status = http.StatusAccepted
	}
	return status, response, nil
}
