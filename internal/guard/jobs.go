package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

type jobs struct {
	*Guard

	next   kinesinv1connect.JobServiceHandler
	verbOf func(action string) (access.Verb, bool)
}

// Jobs guards a JobService. verbOf returns the verb that an action of a job needs on each task; false for an
// unknown one, which the service refuses.
func (g *Guard) Jobs(next kinesinv1connect.JobServiceHandler, verbOf func(action string) (access.Verb, bool)) kinesinv1connect.JobServiceHandler {
	return jobs{g, next, verbOf}
}

// CreateJob needs read, and the verb of the action, on a lambda of which the filter may select tasks. The job
// acts with the grants that the caller has now, as long as the caller has them: it leaves out what may not be
// read, and refuses what may not be changed.
func (s jobs) CreateJob(ctx context.Context, r *kinesinv1.CreateJobRequest) (*kinesinv1.CreateJobResponse, error) {
	verbs := []access.Verb{access.Read}
	if v, known := s.verbOf(r.GetAction()); known {
		verbs = append(verbs, v)
	}
	a := act{audit.Record{Action: "job.create", Target: r.GetAction()}, s.allowSet(ctx, "job.create", r.GetWhere(), verbs...)}
	return recordChange(ctx, s.Guard, a, s.next.CreateJob, r, (*kinesinv1.CreateJobResponse).GetJob)
}

// wholeJob has a call name its job by the whole id.
func (s jobs) wholeJob(ctx context.Context, id *string) error {
	return wholeID(id, "job", func() (ids []string, err error) {
		response, err := s.ListJobs(ctx, &kinesinv1.ListJobsRequest{})
		for _, j := range response.GetJobs() {
			ids = append(ids, j.GetId())
		}
		return ids, err
	})
}

// GetJob answers whoever made the job, and who has admin on all lambdas; for others there is no such job.
func (s jobs) GetJob(ctx context.Context, r *kinesinv1.GetJobRequest) (*kinesinv1.GetJobResponse, error) {
	if err := s.wholeJob(ctx, &r.Id); err != nil {
		return nil, err
	}
	response, err := s.next.GetJob(ctx, r)
	if err == nil && !mayKnow(ctx, response.GetJob()) {
		s.noteOften(access.From(ctx), audit.Record{Action: "job.read", Target: r.GetId(), Outcome: audit.Denied})
		return nil, errNoJob
	}
	return response, err
}

var errNoJob = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such job among those that you made")

func mayKnow(ctx context.Context, j *kinesinv1.Job) bool {
	c := access.From(ctx)
	return c.Grants.AllowAll(access.Admin) || c.Name != "" && c.Name == j.GetCreatedBy()
}

// ListJobs leaves out the jobs of others, but not for who has admin on all lambdas.
func (s jobs) ListJobs(ctx context.Context, r *kinesinv1.ListJobsRequest) (*kinesinv1.ListJobsResponse, error) {
	response, err := s.next.ListJobs(ctx, r)
	if err != nil {
		return nil, err
	}
	response.Jobs = slices.DeleteFunc(response.Jobs, func(j *kinesinv1.Job) bool { return !mayKnow(ctx, j) })
	return response, nil
}

// ControlJob is for whom GetJob is.
func (s jobs) ControlJob(ctx context.Context, r *kinesinv1.ControlJobRequest) (*kinesinv1.ControlJobResponse, error) {
	found, err := s.GetJob(ctx, &kinesinv1.GetJobRequest{Id: r.GetId()})
	if err != nil {
		return nil, err
	}
	r.Id = found.GetJob().GetId()
	response, err := s.next.ControlJob(ctx, r)
	if err == nil {
		s.note(ctx, audit.Record{Action: "job." + r.GetAction(), Target: r.GetId()}, nil)
	}
	return response, err
}
