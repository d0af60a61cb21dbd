package sdk

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// setTimeout bounds one try of a call that reads a set of tasks, which may be all that a server has.
const setTimeout = 10 * time.Minute

// callSet is call for what reads a set of tasks.
func callSet[Req, Res any](ctx context.Context, c *Client, what string, f func(context.Context, *Req) (*Res, error), request *Req) (response *Res, err error) {
	err = c.retry(ctx, what, func(ctx context.Context) (err error) {
		response, err = once(ctx, c.cfg.Clock, max(setTimeout, c.cfg.CallTimeout), f, request)
		return err
	})
	return response, err
}

// CountResult is a number of tasks.
type CountResult struct {
	Count    int64
	Exact    bool  // it was counted, not estimated
	Examined int64 // rows that the server read for it
}

// Count counts the tasks that a filter selects, such as `state=dead and due<-1h`; an empty one selects all.
// docs/sets.md describes filters. With exact each task is counted where the server would estimate, whatever
// that costs. It returns ErrInvalid for a filter that cannot be read, and says where.
func (c *Client) Count(ctx context.Context, where string, exact bool) (CountResult, error) {
	r, err := callSet(ctx, c, "count", c.backend.tasks.Count, &kinesinv1.CountRequest{Where: where, Exact: exact})
	if err != nil {
		return CountResult{}, err
	}
	return CountResult{Count: r.Count, Exact: r.Exact, Examined: r.Examined}, nil
}

// JobAction is what a job does with each task of its set.
type JobAction string

// The actions of jobs.
const (
	JobCancel     JobAction = "cancel"     // live tasks do not start, and running ones are asked to stop
	JobExpire     JobAction = "expire"     // live tasks that no worker has end as expired
	JobReschedule JobAction = "reschedule" // live tasks that no worker has are due at another time
	JobRedrive    JobAction = "redrive"    // ended tasks start anew
	JobDelete     JobAction = "delete"     // ended tasks are forgotten
	JobBackfill   JobAction = "backfill"   // the occurrences of a cron for a past range are scheduled
)

// JobSpec says what a job is to do. Either Where or All has to be set, but for JobBackfill.
type JobSpec struct {
	Action JobAction
	Where  string // filter; docs/sets.md
	All    bool   // allows an empty Where, and one that may match all tasks
	Pace   int    // tasks a second; 0: as fast as the store allows

	// Of JobReschedule, one of them.
	By     time.Duration // added to each due time; may be negative
	Spread time.Duration // due times evenly over so long from now
	Due    time.Time     // one due time for all

	// Of JobBackfill, and without a Where: nominal times from From on and before To, which has passed. Those
	// whose occurrence ran, runs or may run yet are left alone, and so are those that an earlier backfill has
	// scheduled. Job counts them by "ran", "runs", "waits", "paused" and "backfilled", and the others by
	// "scheduled". All allows more than 100,000, up to 20 million.
	Cron     string
	From, To time.Time

	Force bool // of JobRedrive: also tasks that ended as success or delivered
}

// JobState is where a job is.
type JobState string

// The states of a job.
const (
	JobCounted JobState = "counted" // a dry run
	JobRunning JobState = "running" // or waits for a server that runs it
	JobPaused  JobState = "paused"
	JobStopped JobState = "stopped" // end
	JobDone    JobState = "done"    // end
	JobFailed  JobState = "failed"  // end; Problem says why
)

// IsEnd reports whether the job has ended.
func (s JobState) IsEnd() bool {
	return s == JobCounted || s == JobStopped || s == JobDone || s == JobFailed
}

// Job is a change of a set of tasks, which runs on the servers.
type Job struct {
	JobSpec

	ID        string
	State     JobState
	Created   time.Time
	Ended     time.Time
	CreatedBy string

	Matched  int64 // tasks that it has met; of a dry run: that the filter selects
	Exact    bool  // of a dry run: Matched was counted, not estimated
	Examined int64 // rows that it has read
	// Outcomes counts what became of tasks, such as "cancelled", and refusals by their reason, such as
	// "too_late".
	Outcomes map[string]int64
	Refused  []JobRefusal // at most 1,000; of GetJob only
	Sample   []TaskInfo   // of a dry run: at most ten
	// Nominals are the first nominal times of a dry run of JobBackfill, at most ten.
	Nominals []time.Time
	Group    string // whose members it cancels; empty: of none
	Cost     string // of a dry run: what it takes of the store, for people
	Problem  string // why it failed, or waits
}

// JobRefusal is a task that a job could not change.
type JobRefusal struct {
	ID   ID
	Text string
}

// jobOutcomes are the outcomes of tasks that a job did change, or found as it wants them.
var jobOutcomes = map[string]bool{
	"cancelled": true, "cancelling": true, "expired": true, "deleted": true, "redriven": true, "rescheduled": true, "unchanged": true,
	"scheduled": true, "backfilled": true, "ran": true, "runs": true, "waits": true, "paused": true,
}

// RefusedCount returns how many tasks the job could not change.
func (j *Job) RefusedCount() (n int64) {
	for outcome, count := range j.Outcomes {
		if !jobOutcomes[outcome] {
			n += count
		}
	}
	return n
}

// CreateJob starts a job and returns at once. The job runs on, whatever becomes of this process.
func (c *Client) CreateJob(ctx context.Context, spec JobSpec) (Job, error) {
	return c.createJob(ctx, spec, false)
}

// DryRunJob returns what a job would do: how many tasks it would change, some of them, and its cost.
func (c *Client) DryRunJob(ctx context.Context, spec JobSpec) (Job, error) {
	return c.createJob(ctx, spec, true)
}

func (c *Client) createJob(ctx context.Context, spec JobSpec, dryRun bool) (Job, error) {
	if spec.Action == JobBackfill {
		return c.backfillCron(ctx, &spec, dryRun)
	}
	id := task.NewID(c.cfg.Clock.Now(), c.cfg.Clock.Uint64(), c.cfg.Clock.Uint64())
	r, err := callSet(ctx, c, "job", c.backend.jobs.CreateJob, &kinesinv1.CreateJobRequest{
		Action: string(spec.Action), Where: spec.Where, All: spec.All, DryRun: dryRun, Pace: uint32(max(0, spec.Pace)),
		By: spec.By.Microseconds(), Spread: spec.Spread.Microseconds(), Due: int64(task.InstantOf(spec.Due)),
		Force: spec.Force, RequestId: id[:],
	})
	return jobOf(r.GetJob()), err
}

// GetJob returns a job. It returns ErrNotFound when there is none with that id that the caller may see.
func (c *Client) GetJob(ctx context.Context, id string) (Job, error) {
	r, err := call(ctx, c, "get job", c.backend.jobs.GetJob, &kinesinv1.GetJobRequest{Id: id})
	return jobOf(r.GetJob()), err
}

// Jobs returns all jobs that the servers keep and the caller may see, newest first.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	r, err := call(ctx, c, "list jobs", c.backend.jobs.ListJobs, &kinesinv1.ListJobsRequest{})
	return listOf(r.GetJobs(), jobOf), err
}

// PauseJob makes a job wait. Changes that it has made stay. It returns ErrTooLate when the job has ended.
func (c *Client) PauseJob(ctx context.Context, id string) (Job, error) {
	return c.controlJob(ctx, id, "pause")
}

// ResumeJob lets a paused job go on. It returns ErrTooLate when the job has ended.
func (c *Client) ResumeJob(ctx context.Context, id string) (Job, error) {
	return c.controlJob(ctx, id, "resume")
}

// StopJob ends a job. Changes that it has made stay. It returns ErrTooLate when the job has ended.
func (c *Client) StopJob(ctx context.Context, id string) (Job, error) {
	return c.controlJob(ctx, id, "stop")
}

func (c *Client) controlJob(ctx context.Context, id, action string) (Job, error) {
	r, err := call(ctx, c, action+" job", c.backend.jobs.ControlJob, &kinesinv1.ControlJobRequest{Id: id, Action: action})
	return jobOf(r.GetJob()), err
}

func jobOf(w *kinesinv1.Job) Job {
	if w == nil {
		return Job{}
	}
	j := Job{
		JobSpec: JobSpec{
			Action: JobAction(w.Action), Where: w.Where, All: w.All, Pace: int(w.Pace), By: task.Micros(w.By),
			Spread: task.Micros(w.Spread), Due: timeOf(w.Due), Force: w.Force,
		},
		ID: w.Id, State: JobState(w.State), Created: timeOf(w.Created), Ended: timeOf(w.Ended), CreatedBy: w.CreatedBy,
		Matched: w.Matched, Exact: w.MatchedExact, Examined: w.Examined, Outcomes: w.Outcomes, Cost: w.Cost, Problem: w.Problem, Group: w.Group,
	}
	if b := w.Backfill; b != nil {
		j.Cron, j.From, j.To = b.Cron, timeOf(b.From), timeOf(b.To)
		for _, at := range b.Sample {
			j.Nominals = append(j.Nominals, timeOf(at))
		}
	}
	for _, r := range w.Refused {
		j.Refused = append(j.Refused, JobRefusal{ID(r.Id), r.Text})
	}
	for _, t := range w.Sample {
		j.Sample = append(j.Sample, taskInfoOf(t))
	}
	return j
}
