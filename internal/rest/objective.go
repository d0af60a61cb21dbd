package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func objectiveRoutes() []route {
	const path = "/v1/lambdas/{lambda}/objective"
	return []route{
		op("GET", "/v1/objectives", "listObjectives", "How the objectives of all lambdas are met", getObjectives),
		op("GET", path, "getObjective", "How the objective of a lambda is met", getObjective, notFound),
		op("PUT", path, "setObjective", "Set the objective of a lambda", setObjective, notFound, without("lambda")),
		op("DELETE", path, "deleteObjective", "Delete the objective of a lambda", deleteObjective, notFound),
	}
}

func getObjectives(c *call, _ *none) (int, *kinesinv1.GetObjectivesResponse, error) {
	response, err := c.Objectives.GetObjectives(c.r.Context(), &kinesinv1.GetObjectivesRequest{Lambda: c.vars["lambda"]})
	return http.StatusOK, response, err
}

func getObjective(c *call, _ *none) (int, *kinesinv1.ObjectiveStatus, error) {
	_, response, err := getObjectives(c, nil)
	if err == nil && len(response.GetObjectives()) == 0 {
		err = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "lambda %s has no objective; PUT sets one", c.vars["lambda"])
	}
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, response.GetObjectives()[0], nil
}

func setObjective(c *call, r *kinesinv1.SetObjectiveRequest) (int, *kinesinv1.Objective, error) {
	r.Lambda = c.vars["lambda"]
	response, err := c.Objectives.SetObjective(c.r.Context(), r)
	return http.StatusOK, response.GetObjective(), err
}

func deleteObjective(c *call, _ *none) (int, *kinesinv1.DeleteObjectiveResponse, error) {
	response, err := c.Objectives.DeleteObjective(c.r.Context(), &kinesinv1.DeleteObjectiveRequest{Lambda: c.vars["lambda"]})
	return http.StatusOK, response, err
}
