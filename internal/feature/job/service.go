package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// shiftMax bounds by how much a job reschedules tasks.
const shiftMax = 10 * 365 * 24 * time.Hour

// CreateJob starts a job, or counts what it would change.
func (s *Service) CreateJob(ctx context.Context, r *kinesinv1.CreateJobRequest) (*kinesinv1.CreateJobResponse, error) {
	j, err := s.newJob(ctx, r)
	if err != nil {
		return nil, err
	}
	if r.DryRun {
		counted, err := s.dryRun(ctx, j)
		return &kinesinv1.CreateJobResponse{Job: counted}, refusal.Wire(err)
	}
	return s.begin(ctx, j)
}

// begin stores a job, from when on a server runs it.
func (s *Service) begin(ctx context.Context, j *job) (*kinesinv1.CreateJobResponse, error) {
	if known, err := s.jobs.Find(ctx, j.ID); err == nil {
		return repeated(known, j)
	}
	active, err := s.Store.Controls(ctx, kindActive)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	own := int64(0)
	for i := range active {
		if known, err := jobAsRows.Decode(active[i]); err == nil && known.Identity == j.Identity {
			own++
		}
	}
	if !s.room.Admits(j.Identity, int64(len(active)), own, j.Action == "cancel" || j.may.AllowAll(access.Admin)) {
		return nil, api.Errorf(kinesinv1.Reason_REASON_FULL,
			"%d jobs have not ended, %d of them of %s, and there may be %d, of one identity as many as are left for others: stop one (kinesin job stop), or wait",
			len(active), own, j.Identity, ActiveMax)
	}
	if s.Traced != nil {
		j.Traceparent = s.Traced(ctx)
	}
	err = s.jobs.Put(ctx, j)
	if errors.Is(err, store.ErrConflict) { // an earlier try of the same call
		known, err := s.jobs.Find(ctx, j.ID)
		if err != nil {
			return nil, refusal.Wire(err)
		}
		return repeated(known, j)
	}
	if err != nil {
		return nil, refusal.Wire(err)
	}
	s.running.ScanSoon()
	return &kinesinv1.CreateJobResponse{Job: j.wire()}, nil
}

// repeated answers a call that was made before.
func repeated(known, asked *job) (*kinesinv1.CreateJobResponse, error) {
	if !known.isSame(asked) {
		return nil, api.Errorf(kinesinv1.Reason_REASON_EXISTS, "job %s exists, and does something else: want a new request id", known.ID)
	}
	return &kinesinv1.CreateJobResponse{Job: known.wire()}, nil
}

func (s *Service) newJob(ctx context.Context, r *kinesinv1.CreateJobRequest) (*job, error) {
	if err := check(r); err != nil {
		return nil, err
	}
	c, now := access.From(ctx), s.Clock.Now()
	id, err := s.idOf(ctx, r.RequestId)
	if err != nil {
		return nil, err
	}
	j := &job{
		ID: id.String(), Action: r.Action, Where: r.Where, All: r.All, State: stateRunning, Pace: r.Pace, Created: now,
		Identity: c.Name, Grants: c.Grants.Strings(), By: r.By, Spread: r.Spread, Due: task.Instant(r.Due), Force: r.Force,
		Outcomes: map[string]int64{}, may: c.Grants,
	}
	if j.By != 0 {
		j.Plan = &plan{}
	}
	if j.Action == actionRedrive && j.Pace == 0 && s.Recovery != nil {
		if j.Pace, err = s.Recovery(j.Where); err != nil {
			return nil, err
		}
	}
	of, err := j.selection()
	if err == nil && !r.All {
		err = checkNarrow(j, of)
	}
	return j, err
}

// idOf returns the id of a job: that of the call, if it has one.
func (s *Service) idOf(ctx context.Context, requestID []byte) (task.ID, error) {
	id := task.NewID(s.Clock.Now(), s.Clock.Uint64(), s.Clock.Uint64())
	switch len(requestID) {
	case 0:
		return id, nil
	case len(id):
		return task.ID(requestID).OwnedBy(access.From(ctx).Name), nil
	}
	return id, refusal.Invalid("request_id: %d bytes, want a UUID of 16", len(requestID))
}

// checkNarrow refuses a job that is not shown to leave out any task that it could change.
func checkNarrow(j *job, of *inbound.Selection) error {
	switch {
	case of.Filter.IsAll():
		return refusal.Invalid("a job without a filter changes all tasks that you may change: set all (--all) if that is meant, or a filter (--where)")
	case of.Filter.LeavesOut(actions[j.Action].ended, j.Created):
		return nil
	}
	return refusal.Invalid("the filter matches every task that a %s can change, or is too entangled to tell: "+
		"set all (--all) besides the filter if that is meant, or narrow it", j.Action)
}

// check checks what does not depend on the filter.
func check(r *kinesinv1.CreateJobRequest) error {
	if _, known := actions[r.Action]; !known {
		names := make([]string, 0, len(actions))
		for name := range actions {
			names = append(names, name)
		}
		slices.Sort(names)
		return refusal.Invalid("action %q: want one of %s", r.Action, strings.Join(names, ", "))
	}
	ways := 0
	for _, set := range []bool{r.By != 0, r.Spread != 0, r.Due != 0} {
		if set {
			ways++
		}
	}
	const most = int64(shiftMax / time.Microsecond)
	switch {
	case r.Action == actionReschedule && ways != 1:
		return refusal.Invalid("reschedule says how in %d ways: want one of by, spread and due", ways)
	case r.Action != actionReschedule && ways > 0:
		return refusal.Invalid("by, spread and due are of reschedule, and the action is %s", r.Action)
	case r.By > most || r.By < -most:
		return refusal.Invalid("by: want at most %v", shiftMax)
	case r.Spread < 0 || r.Spread > most:
		return refusal.Invalid("spread: want more than 0 and at most %v", shiftMax)
	case r.Due < 0:
		return refusal.Invalid("due: want a time after 1970")
	case r.Force && r.Action != actionRedrive:
		return refusal.Invalid("force is of redrive, and the action is %s", r.Action)
	case r.Pace > PaceMax:
		return refusal.Invalid("pace %d: want 1 to %d tasks per second, or 0 for no limit", r.Pace, PaceMax)
	}
	return nil
}

// dryRun counts what a job would change, and shows some of it.
func (s *Service) dryRun(ctx context.Context, j *job) (*kinesinv1.Job, error) {
	of, err := j.selection()
	if err != nil {
		return nil, err
	}
	w := j.wire()
	w.Id, w.State = "", stateCounted
	if w.Matched, w.Examined, w.MatchedExact, err = s.Tasks.CountOrEstimate(ctx, of); err != nil {
		return nil, err
	}
	w.Cost = s.cost(j, w)
	var position []byte
	for range SampleMax {
		page, err := s.Tasks.Page(ctx, of, position, SampleMax-len(w.Sample))
		if err != nil {
			return nil, err
		}
		for i := range page.Rows {
			w.Sample = append(w.Sample, s.Tasks.View(&page.Rows[i]))
		}
		if position = page.Next; len(position) == 0 || len(w.Sample) == SampleMax {
			break
		}
	}
	return w, nil
}

// cost says what a job takes of the store.
func (s *Service) cost(j *job, w *kinesinv1.Job) string {
	if !s.Metered {
		return fmt.Sprintf("reads all rows in which such tasks can be, and writes %d tasks, on the disk of the server", w.Matched)
	}
	about := "about"
	if !w.MatchedExact {
		about = "at least" // an estimate reads only some of the rows
	}
	reads := math.Ceil(1.1 * float64(max(w.Examined, w.Matched)))
	return fmt.Sprintf("%s %.0f read units for the rows that it looks at, and %d write units for the tasks that it changes (%d each)",
		about, reads, w.Matched*int64(actions[j.Action].units), actions[j.Action].units)
}

// GetJob returns a job with the ids that it could not change.
func (s *Service) GetJob(ctx context.Context, r *kinesinv1.GetJobRequest) (*kinesinv1.GetJobResponse, error) {
	j, err := s.jobs.Find(ctx, r.Id)
	if err != nil {
		return nil, s.problem(err)
	}
	w := j.wire()
	if w.Refused, err = s.refused(ctx, j.ID); err != nil {
		return nil, refusal.Wire(err)
	}
	return &kinesinv1.GetJobResponse{Job: w}, nil
}

func (s *Service) problem(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such job: its id is wrong, or it ended more than %d days or %d jobs ago", int(KeptFor/(24*time.Hour)), KeptMax)
	}
	return refusal.Wire(err)
}

// ListJobs returns all jobs that are kept, newest first, without the ids that they could not change.
func (s *Service) ListJobs(ctx context.Context, _ *kinesinv1.ListJobsRequest) (*kinesinv1.ListJobsResponse, error) {
	response := &kinesinv1.ListJobsResponse{}
	seen := map[string]bool{}
	for _, read := range []func(context.Context) ([]*job, error){s.jobs.All, s.jobs.AllEnded} {
		jobs, err := read(ctx)
		if err != nil {
			return nil, refusal.Wire(err)
		}
		for _, j := range jobs {
			if !seen[j.ID] { // one that is about to be moved to those that have ended is there twice
				seen[j.ID] = true
				response.Jobs = append(response.Jobs, j.wire())
			}
		}
	}
	slices.SortFunc(response.Jobs, func(a, b *kinesinv1.Job) int {
		return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(a.Id, b.Id))
	})
	return response, nil
}

// ControlJob pauses, resumes or stops a job. A server that runs it notices within two seconds.
func (s *Service) ControlJob(ctx context.Context, r *kinesinv1.ControlJobRequest) (*kinesinv1.ControlJobResponse, error) {
	to, known := map[string]string{"pause": statePaused, "resume": stateRunning, "stop": stateStopped}[r.Action]
	if !known {
		return nil, refusal.Invalid("action %q: want pause, resume or stop", r.Action)
	}
	j, err := s.jobs.Change(ctx, r.Id, func(j *job) (control.Do, error) {
		if j.State == to {
			return control.Keep, nil
		}
		if j.hasEnded() {
			return control.Keep, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the job has ended: %s", j.State)
		}
		if j.State = to; to == stateStopped {
			j.Ended = s.Clock.Now()
		}
		return control.Store, s.resume(ctx, j)
	})
	if errors.Is(err, store.ErrConflict) {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the job kept changing; try again")
	}
	if err != nil {
		return nil, s.problem(err)
	}
	s.running.ScanSoon()
	return &kinesinv1.ControlJobResponse{Job: j.wire()}, nil
}

// resume gives a job that is to run again the grants that its maker has now, if the maker resumes it, and
// refuses one whose maker may do nothing any more.
func (s *Service) resume(ctx context.Context, j *job) error {
	if j.State != stateRunning {
		return nil
	}
	if c := access.From(ctx); c.Name == j.Identity {
		j.Grants = c.Grants.Strings()
	}
	return s.authorize(ctx, j)
}
