package cron

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// listBytesMax bounds a list.
	listBytesMax = api.MessageBytesMax / 4
	// pauseMax bounds for how long a cron may be paused before it resumes by itself.
	pauseMax = 10 * 366 * 24 * time.Hour
)

// PauseCron has a cron fire no more, from a moment later on.
func (s *Service) PauseCron(ctx context.Context, r *kinesinv1.PauseCronRequest) (_ *kinesinv1.PauseCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	reason := strings.TrimSpace(r.Reason)
	if err := CheckReason(reason); err != nil {
		return nil, err
	}
	now, until := s.Clock.Now(), task.Instant(r.Until)
	if r.Until != 0 && (until <= now || until > now.Add(pauseMax)) {
		return nil, refusal.Invalid("until %s: want a time to come, within ten years, or none for a pause that lasts", time.UnixMicro(r.Until).UTC().Format(time.RFC3339))
	}
	c, err := s.changeNamed(ctx, r.Name, func(c *Cron, now task.Instant) (bool, error) {
		by := access.From(ctx).Name
		if p := c.Now().Pause; p != nil && p.Reason == reason && p.Until == until && p.By == by {
			return false, nil
		}
		return true, c.PauseAt(Pause{Reason: reason, By: by, At: now, Until: until}, now)
	})
	if err != nil {
		return nil, err
	}
	return &kinesinv1.PauseCronResponse{Cron: s.view(c, nextMax)}, nil
}

// ResumeCron has a cron fire again. One that is not paused stays as it is.
func (s *Service) ResumeCron(ctx context.Context, r *kinesinv1.ResumeCronRequest) (_ *kinesinv1.ResumeCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	c, err := s.changeNamed(ctx, r.Name, func(c *Cron, now task.Instant) (bool, error) {
		if c.Now().Pause == nil {
			return false, nil
		}
		return true, c.Resume(now)
	})
	if err != nil {
		return nil, err
	}
	return &kinesinv1.ResumeCronResponse{Cron: s.view(c, nextMax)}, nil
}

// changeNamed changes a cron and stores it, unless change says that there is nothing to do.
func (s *Service) changeNamed(ctx context.Context, name string, change func(c *Cron, now task.Instant) (changed bool, err error)) (*Cron, error) {
	if task.CheckName("cron", name) != nil {
		return nil, noCron(name)
	}
	return s.change(ctx, name, func(c *Cron) (control.Do, error) {
		if c.Version == 0 {
			return control.Keep, noCron(name)
		}
		if _, err := s.lambdaOf(ctx, c); err != nil {
			return control.Keep, err
		}
		now := s.Clock.Now()
		changed, err := change(c, now)
		if err != nil || !changed {
			return control.Keep, err
		}
		c.Updated, c.UpdatedBy = now, access.From(ctx).Name
		return control.Store, nil
	})
}

// RunCron schedules a task as the cron would, now.
func (s *Service) RunCron(ctx context.Context, r *kinesinv1.RunCronRequest) (_ *kinesinv1.RunCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	c, err := s.find(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	l, err := s.lambdaOf(ctx, c)
	if err != nil {
		return nil, err
	}
	spec := &c.Now().Spec
	schedule, err := spec.Parse(c.Name)
	if err != nil {
		return nil, err
	}
	at := s.Clock.Now()
	if len(r.RequestId) == len(task.ID{}) {
		if made, known := task.ID(r.RequestId).Made(); known {
			at = made // the same in a call that is made again
		}
	}
	response, err := s.Tasks.Schedule(ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{{
		Lambda: l.Name, Priority: spec.Priority, Collection: spec.Collection, Tags: spec.Tags,
		Payload: PayloadAt(spec.Payload, at, schedule.Zone()), RequestId: r.RequestId,
	}}})
	if err != nil {
		return nil, err
	}
	result := response.Results[0]
	if result.Problem != nil {
		return nil, api.ErrorOf(result.Problem)
	}
	if err := s.noteRun(ctx, c, manualRun{At: at, Revision: c.Now().Number, ID: result.Id}); err != nil {
		return nil, err
	}
	return &kinesinv1.RunCronResponse{Id: result.Id}, nil
}

// DeleteCron deletes a cron. Its occurrences that were not dispatched are skipped, and the next one is
// cancelled at once, so that it does not wait for a time at which nothing happens.
func (s *Service) DeleteCron(ctx context.Context, r *kinesinv1.DeleteCronRequest) (_ *kinesinv1.DeleteCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if task.CheckName("cron", r.Name) != nil {
		return nil, noCron(r.Name)
	}
	c, err := s.change(ctx, r.Name, func(c *Cron) (control.Do, error) {
		switch {
		case c.Version == 0:
			return control.Keep, noCron(r.Name)
		case s.isRegistered(c):
			return control.Keep, registered(c)
		}
		return control.Remove, nil
	})
	if err != nil {
		return nil, err
	}
	s.cancelNext(ctx, c)
	s.forgetRuns(ctx, c)
	return &kinesinv1.DeleteCronResponse{}, nil
}

// GetCron returns a cron.
func (s *Service) GetCron(ctx context.Context, r *kinesinv1.GetCronRequest) (_ *kinesinv1.GetCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	c, err := s.find(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	if _, err := s.Lambdas.FindRef(ctx, c.Ref); err != nil { // it may have been created a moment ago
		return nil, err
	}
	return &kinesinv1.GetCronResponse{Cron: s.view(c, nextMax)}, nil
}

// ListCrons returns the crons of a lambda, or of all lambdas that the caller may read, by name, without their
// payloads and each with the next nominal time only. A cron that would not fit an answer is refused.
func (s *Service) ListCrons(ctx context.Context, r *kinesinv1.ListCronsRequest) (_ *kinesinv1.ListCronsResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if r.Lambda != "" {
		if _, err := s.Lambdas.Find(ctx, r.Lambda); err != nil {
			return nil, err
		}
	}
	all, err := s.crons.All(ctx)
	if err != nil {
		return nil, err
	}
	grants, size := access.From(ctx).Grants, 0
	response := &kinesinv1.ListCronsResponse{}
	for _, c := range all {
		if r.Lambda != "" && c.Lambda != r.Lambda || !grants.AllowIn(access.Read, c.Lambda, c.Now().Spec.Collection) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v := s.view(c, listedNextMax)
		v.Payload = nil
		if size += proto.Size(v); size > listBytesMax {
			return nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "the first %d crons fill an answer, which has %d bytes at most: want those of one lambda, or one cron", len(response.Crons), listBytesMax)
		}
		response.Crons = append(response.Crons, v)
	}
	slices.SortFunc(response.Crons, func(a, b *kinesinv1.Cron) int { return cmp.Compare(a.Name, b.Name) })
	return response, nil
}

// LambdaOf returns the lambda and the collection of a cron, for whoever decides who may see and change it.
func (s *Service) LambdaOf(ctx context.Context, name string) (lambda, collection string, err error) {
	c, err := s.find(ctx, name)
	if err != nil {
		return "", "", refusal.Wire(err)
	}
	return c.Lambda, c.Now().Spec.Collection, nil
}

// nextMax is how many nominal times to come a cron shows, and listedNextMax in a list.
const (
	nextMax       = api.NominalMax
	listedNextMax = 1
)

// view returns a cron as users see it, with its next nominal times.
func (s *Service) view(c *Cron, next int) *kinesinv1.Cron {
	v := c.Now().Spec.wire()
	v.Name, v.Lambda, v.ManagedBy, v.Registered = c.Name, c.Lambda, c.ManagedBy, s.isRegistered(c)
	v.Revision, v.Version = c.Now().Number, c.Version
	v.Created, v.CreatedBy, v.Updated, v.UpdatedBy = int64(c.Created), c.CreatedBy, int64(c.Updated), c.UpdatedBy
	if v.LambdaDeleted = s.Lambdas.ByRef(c.Ref) == nil; v.LambdaDeleted {
		return v
	}
	if p := c.Now().Pause; p != nil {
		v.Pause = &kinesinv1.CronPause{Reason: p.Reason, By: p.By, At: int64(p.At), Until: int64(p.Until)}
		return v
	}
	for _, n := range nextOf(c, s.Clock.Now(), next) {
		v.Next = append(v.Next, int64(n.at))
	}
	return v
}
