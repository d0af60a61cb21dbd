package admin

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
)

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
	Where  string // filter; docs/reference/filters.md
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

	Matched      int64 // tasks that it has met; of a dry run: that the filter selects
	MatchedExact bool  // of a dry run: Matched was counted, not estimated
	Examined     int64 // rows that it has read
	// Outcomes counts what became of tasks, such as "cancelled", and refusals by their reason, such as
	// "too_late".
	Outcomes map[string]int64
	Refused  []JobRefusal   // at most 1,000; of Jobs.Get only
	Sample   []sdk.TaskInfo // of a dry run: at most ten
	// Nominals are the first nominal times of a dry run of JobBackfill, at most ten.
	Nominals []time.Time
	Group    string // whose members it cancels; empty: of none
	Cost     string // of a dry run: what it takes of the store, for people
	Problem  string // why it failed, or waits
}

// JobRefusal is a task that a job could not change.
type JobRefusal struct {
	ID   sdk.ID
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

// Jobs has the calls about jobs.
type Jobs struct{ c *calls }

// Create starts a job and returns at once. The job runs on, whatever becomes of this process.
func (s Jobs) Create(ctx context.Context, spec JobSpec) (Job, error) {
	return s.create(ctx, &spec, false)
}

// DryRun returns what a job would do: how many tasks it would change, some of them, and its cost.
func (s Jobs) DryRun(ctx context.Context, spec JobSpec) (Job, error) {
	return s.create(ctx, &spec, true)
}

func (s Jobs) create(ctx context.Context, spec *JobSpec, dryRun bool) (Job, error) {
	if spec.Action == JobBackfill {
		request := wirecopy.To[kinesinv1.BackfillCronRequest](spec)
		request.Name, request.DryRun, request.RequestId = spec.Cron, dryRun, s.c.RequestID()
		r, err := callSet(ctx, s.c, "backfill cron", s.c.Crons.BackfillCron, request)
		return s.c.jobOf(r.GetJob()), err
	}
	request := wirecopy.To[kinesinv1.CreateJobRequest](spec)
	request.DryRun, request.RequestId = dryRun, s.c.RequestID()
	r, err := callSet(ctx, s.c, "job", s.c.Jobs.CreateJob, request)
	return s.c.jobOf(r.GetJob()), err
}

// Get returns a job. It returns ErrNotFound when there is none with that id that the caller may see.
func (s Jobs) Get(ctx context.Context, id string) (Job, error) {
	r, err := call(ctx, s.c, "get job", s.c.Jobs.GetJob, &kinesinv1.GetJobRequest{Id: id})
	return s.c.jobOf(r.GetJob()), err
}

// List returns all jobs that the servers keep and the caller may see, newest first.
func (s Jobs) List(ctx context.Context) ([]Job, error) {
	r, err := call(ctx, s.c, "list jobs", s.c.Jobs.ListJobs, &kinesinv1.ListJobsRequest{})
	all := make([]Job, len(r.GetJobs()))
	for i, w := range r.GetJobs() {
		all[i] = s.c.jobOf(w)
	}
	return all, err
}

// Pause makes a job wait. Changes that it has made stay. It returns ErrTooLate when the job has ended.
func (s Jobs) Pause(ctx context.Context, id string) (Job, error) { return s.control(ctx, id, "pause") }

// Resume lets a paused job go on. It returns ErrTooLate when the job has ended.
func (s Jobs) Resume(ctx context.Context, id string) (Job, error) {
	return s.control(ctx, id, "resume")
}

// Stop ends a job. Changes that it has made stay. It returns ErrTooLate when the job has ended.
func (s Jobs) Stop(ctx context.Context, id string) (Job, error) { return s.control(ctx, id, "stop") }

func (s Jobs) control(ctx context.Context, id, action string) (Job, error) {
	r, err := call(ctx, s.c, action+" job", s.c.Jobs.ControlJob, &kinesinv1.ControlJobRequest{Id: id, Action: action})
	return s.c.jobOf(r.GetJob()), err
}

func (c *calls) jobOf(w *kinesinv1.Job) Job {
	j := wirecopy.From[Job](w)
	if b := w.GetBackfill(); b != nil {
		of := wirecopy.From[struct {
			Cron     string
			From, To time.Time
			Sample   []time.Time
		}](b)
		j.Cron, j.From, j.To, j.Nominals = of.Cron, of.From, of.To, of.Sample
	}
	j.Sample = nil
	for _, t := range w.GetSample() {
		info, _ := c.TaskInfo(t).(sdk.TaskInfo)
		j.Sample = append(j.Sample, info)
	}
	return j
}
