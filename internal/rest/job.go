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

type jobView struct {
	ID           string           `json:"id,omitempty"`
	Action       string           `json:"action"`
	Where        string           `json:"where,omitempty"`
	All          bool             `json:"all,omitempty"`
	State        string           `json:"state" jsonschema:"counted (a dry run), running, paused, stopped, done or failed"`
	Pace         uint32           `json:"pace,omitempty"`
	Created      moment           `json:"created,omitzero"`
	Ended        moment           `json:"ended,omitzero"`
	CreatedBy    string           `json:"created_by,omitempty"`
	Matched      int64            `json:"matched" jsonschema:"of a dry run: tasks that the filter selects; else those it has met so far"`
	MatchedExact bool             `json:"matched_exact,omitempty"`
	Examined     int64            `json:"examined,omitempty" jsonschema:"rows"`
	Outcomes     map[string]int64 `json:"outcomes,omitempty" jsonschema:"changed tasks by what became of them, refused ones by reason"`
	Refused      []jobRefusal     `json:"refused,omitempty" jsonschema:"at most 1000; outcomes has the number of all"`
	Sample       []taskView       `json:"sample,omitempty" jsonschema:"of a dry run: at most ten"`
	Cost         string           `json:"cost,omitempty" jsonschema:"of a dry run: what it takes of the store"`
	Problem      string           `json:"problem,omitempty" jsonschema:"why it failed, or waits"`
	By           shift            `json:"by,omitzero"`
	Spread       duration         `json:"spread,omitzero"`
	Due          moment           `json:"due,omitzero"`
	Force        bool             `json:"force,omitempty"`
	Group        string           `json:"group,omitempty" jsonschema:"of a cancel of a group: whose members it cancels"`
	Backfill     *backfillView    `json:"backfill,omitempty" jsonschema:"of backfill: the occurrences of a cron that it schedules"`
}

type backfillView struct {
	Cron   string   `json:"cron"`
	From   moment   `json:"from,omitzero"`
	To     moment   `json:"to,omitzero"`
	Sample []moment `json:"sample,omitempty" jsonschema:"of a dry run: the first nominal times, at most ten"`
}

type jobRefusal struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

type jobList struct {
	Jobs []jobView `json:"jobs"`
}

func jobViewOf(j *kinesinv1.Job) jobView {
	v := jobView{
		ID: j.GetId(), Action: j.GetAction(), Where: j.GetWhere(), All: j.GetAll(), State: j.GetState(), Pace: j.GetPace(),
		Created: moment(j.GetCreated()), Ended: moment(j.GetEnded()), CreatedBy: j.GetCreatedBy(),
		Matched: j.GetMatched(), MatchedExact: j.GetMatchedExact(), Examined: j.GetExamined(), Outcomes: j.GetOutcomes(),
		Cost: j.GetCost(), Problem: j.GetProblem(), By: shift{durationOf(j.GetBy())}, Spread: durationOf(j.GetSpread()),
		Due: moment(j.GetDue()), Force: j.GetForce(), Group: j.GetGroup(),
	}
	if b := j.GetBackfill(); b != nil {
		v.Backfill = &backfillView{Cron: b.GetCron(), From: moment(b.GetFrom()), To: moment(b.GetTo())}
		for _, at := range b.GetSample() {
			v.Backfill.Sample = append(v.Backfill.Sample, moment(at))
		}
	}
	for _, r := range j.GetRefused() {
		v.Refused = append(v.Refused, jobRefusal{r.GetId(), r.GetText()})
	}
	v.Sample = viewsOf(j.GetSample(), taskViewOf)
	return v
}

func createJob(c *call, r *jobRequest) (int, *jobView, error) {
	response, err := c.Jobs.CreateJob(c.r.Context(), &kinesinv1.CreateJobRequest{
		Action: r.Action, Where: r.Where, All: r.All, DryRun: r.DryRun, Pace: r.Pace,
		By: r.By.micros(), Spread: r.Spread.micros(), Due: int64(r.Due), Force: r.Force,
	})
	return answer(created(!r.DryRun), response.GetJob(), err, jobViewOf)
}

func listJobs(c *call, _ *none) (int, *jobList, error) {
	response, err := c.Jobs.ListJobs(c.r.Context(), &kinesinv1.ListJobsRequest{})
	return http.StatusOK, &jobList{Jobs: viewsOf(response.GetJobs(), jobViewOf)}, err
}

func getJob(c *call, _ *none) (int, *jobView, error) {
	response, err := c.Jobs.GetJob(c.r.Context(), &kinesinv1.GetJobRequest{Id: c.vars["id"]})
	return answer(http.StatusOK, response.GetJob(), err, jobViewOf)
}

// controlJob returns the function of an action on a job.
func controlJob(action string) func(c *call, _ *none) (int, *jobView, error) {
	return func(c *call, _ *none) (int, *jobView, error) {
		response, err := c.Jobs.ControlJob(c.r.Context(), &kinesinv1.ControlJobRequest{Id: c.vars["id"], Action: action})
		return answer(http.StatusOK, response.GetJob(), err, jobViewOf)
	}
}
