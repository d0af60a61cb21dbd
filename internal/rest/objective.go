package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// objectiveRequest sets an objective.
type objectiveRequest struct {
	Within    duration `json:"within" jsonschema:"how late a task may start, 1ms to 24h"`
	Objective float64  `json:"objective" jsonschema:"percentage of tasks that start in time, above 0 and below 100"`
	Window    duration `json:"window,omitzero" jsonschema:"over which time that holds: whole hours, 1h to 90 days; 720h when not set"`
	ManagedBy string   `json:"managed_by,omitempty" jsonschema:"the declared set that it is of; none takes it out, and it stays when not set"`
}

type objectiveView struct {
	Lambda    string   `json:"lambda"`
	Within    duration `json:"within"`
	Objective float64  `json:"objective"`
	Window    duration `json:"window"`
	Updated   moment   `json:"updated,omitzero"`
	UpdatedBy string   `json:"updated_by,omitempty"`

	ManagedBy  string `json:"managed_by,omitempty" jsonschema:"the declared set that it is of"`
	Registered bool   `json:"registered,omitempty" jsonschema:"the registration of the lambda set it (Terraform), and it alone changes it"`
}

// objectiveStatus says how an objective is met.
type objectiveStatus struct {
	objectiveView

	Started    int64      `json:"started" jsonschema:"tasks that started in the window, or expired, and those of waiting"`
	Good       int64      `json:"good" jsonschema:"those that started in time"`
	Waiting    int64      `json:"waiting" jsonschema:"tasks that are late already and have not started"`
	Attained   float64    `json:"attained" jsonschema:"percentage that started in time; 100 while there is none"`
	BudgetLeft float64    `json:"budget_left" jsonschema:"share of the budget that is left, up to 1; negative when more was late than may be"`
	Burn       []burnView `json:"burn"`
}

// burnView is how fast the budget is used up; 1 uses up all of it in one window.
type burnView struct {
	Over    duration `json:"over"`
	Rate    float64  `json:"rate"`
	Started int64    `json:"started"`
}

type objectiveList struct {
	Objectives []objectiveStatus `json:"objectives"`
}

func objectiveRoutes() []route {
	const path = "/v1/lambdas/{lambda}/objective"
	return []route{
		op("GET", "/v1/objectives", "listObjectives", "How the objectives of all lambdas are met", getObjectives),
		op("GET", path, "getObjective", "How the objective of a lambda is met", getObjective, notFound),
		op("PUT", path, "setObjective", "Set the objective of a lambda", setObjective, notFound),
		op("DELETE", path, "deleteObjective", "Delete the objective of a lambda", deleteObjective, notFound),
	}
}

func objectiveViewOf(o *kinesinv1.Objective) objectiveView {
	return objectiveView{
		Lambda: o.GetLambda(), Within: durationOf(o.GetWithin()), Objective: o.GetObjective(), Window: durationOf(o.GetWindow()),
		Updated: moment(o.GetUpdated()), UpdatedBy: o.GetUpdatedBy(), ManagedBy: o.GetManagedBy(), Registered: o.GetRegistered(),
	}
}

func objectiveStatusOf(s *kinesinv1.ObjectiveStatus) objectiveStatus {
	v := objectiveStatus{
		objectiveView: objectiveViewOf(s.GetObjective()), Started: s.GetStarted(), Good: s.GetGood(), Waiting: s.GetWaiting(), Attained: s.GetAttained(),
		BudgetLeft: s.GetBudgetLeft(), Burn: make([]burnView, len(s.GetBurns())),
	}
	for i, b := range s.GetBurns() {
		v.Burn[i] = burnView{durationOf(b.GetOver()), b.GetRate(), b.GetStarted()}
	}
	return v
}

func objectivesOf(c *call) (*objectiveList, error) {
	response, err := c.Objectives.GetObjectives(c.r.Context(), &kinesinv1.GetObjectivesRequest{Lambda: c.vars["lambda"]})
	if err != nil {
		return nil, err
	}
	list := &objectiveList{Objectives: make([]objectiveStatus, len(response.GetObjectives()))}
	for i, s := range response.GetObjectives() {
		list.Objectives[i] = objectiveStatusOf(s)
	}
	return list, nil
}

func getObjectives(c *call, _ *none) (int, *objectiveList, error) {
	list, err := objectivesOf(c)
	return http.StatusOK, list, err
}

func getObjective(c *call, _ *none) (int, *objectiveStatus, error) {
	list, err := objectivesOf(c)
	if err != nil {
		return 0, nil, err
	}
	if len(list.Objectives) == 0 {
		return 0, nil, api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "lambda %s has no objective; PUT sets one", c.vars["lambda"])
	}
	return http.StatusOK, &list.Objectives[0], nil
}

func setObjective(c *call, r *objectiveRequest) (int, *objectiveView, error) {
	response, err := c.Objectives.SetObjective(c.r.Context(), &kinesinv1.SetObjectiveRequest{
		Lambda: c.vars["lambda"], Within: r.Within.micros(), Objective: r.Objective, Window: r.Window.micros(), ManagedBy: r.ManagedBy,
	})
	return answer(http.StatusOK, response.GetObjective(), err, objectiveViewOf)
}

// objectiveDeleted is the answer to a deletion.
type objectiveDeleted struct{}

func deleteObjective(c *call, _ *none) (int, *objectiveDeleted, error) {
	_, err := c.Objectives.DeleteObjective(c.r.Context(), &kinesinv1.DeleteObjectiveRequest{Lambda: c.vars["lambda"]})
	return http.StatusOK, &objectiveDeleted{}, err
}
