package guard

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
)

// Actions on crons, as they are in the audit log.
const (
	actSetCron    = "cron.set"
	actPauseCron  = "cron.pause"
	actResumeCron = "cron.resume"
	actRunCron    = "cron.run"
	actBackfill   = "cron.backfill"
	actDeleteCron = "cron.delete"
	actListCrons  = "cron.list"
	actReadCron   = "cron.read"
)

type crons struct {
	*Guard

	next kinesinv1connect.CronServiceHandler
	find finder
}

// Crons guards a CronService. find returns the lambda and the collection of a cron.
func (g *Guard) Crons(next kinesinv1connect.CronServiceHandler, find finder) kinesinv1connect.CronServiceHandler {
	return crons{g, next, find}
}

// SetCron needs operate on the lambda, and schedule in the collection, because occurrences are tasks with a
// payload of the caller's; of a cron that is there also in the collection in which it is. A caller who may not
// read the payload and gives none keeps the one that is there, in its collection. A dry run changes nothing,
// and is not noted.
func (s crons) SetCron(ctx context.Context, r *kinesinv1.SetCronRequest) (*kinesinv1.SetCronResponse, error) {
	asked := r.GetCron()
	if err := s.check(ctx, actSetCron, asked, nil, access.Operate, access.Schedule); err != nil {
		return nil, err
	}
	current := s.current(ctx, asked.GetName())
	if asked.GetVersion() > 0 {
		if _, err := s.checkNamed(ctx, actSetCron, s.find, asked.GetName(), errNoCron, access.Operate, access.Schedule); err != nil {
			return nil, err
		}
		if len(asked.GetPayload()) == 0 && len(current.GetPayload()) > 0 && !s.seesPayload(ctx, current) {
			if asked.GetCollection() != current.GetCollection() { // where the caller may read it, or whose it is not
				return nil, s.check(ctx, actSetCron, current, errNoCron, access.ReadPayload)
			}
			r = proto.CloneOf(r)
			r.Cron.Payload = current.GetPayload()
		}
	} else if current != nil && s.check(ctx, actSetCron, current, errNoCron, access.Operate, access.Schedule) != nil && s.check(ctx, actReadCron, current, errNoCron, access.Read) != nil {
		return nil, api.Errorf(kinesinv1.Reason_REASON_EXISTS, "cron %s exists, and you may not see it: want another name", asked.GetName())
	}
	response, err := s.next.SetCron(ctx, r)
	if !response.GetExisted() && !r.GetDryRun() {
		s.note(ctx, audit.Record{Action: actSetCron, Target: asked.GetLambda(), Before: s.recorded(current), After: s.recorded(response.GetCron())}, err)
	}
	if err == nil {
		response.Cron = s.shown(ctx, response.Cron)
	}
	return response, err
}

// PauseCron needs operate on the lambda.
func (s crons) PauseCron(ctx context.Context, r *kinesinv1.PauseCronRequest) (*kinesinv1.PauseCronResponse, error) {
	if _, err := s.checkNamed(ctx, actPauseCron, s.find, r.GetName(), errNoCron, access.Operate); err != nil {
		return nil, err
	}
	current := s.current(ctx, r.GetName())
	response, err := s.next.PauseCron(ctx, r)
	s.noteChange(ctx, actPauseCron, current, response.GetCron(), err)
	if err == nil {
		response.Cron = s.shown(ctx, response.Cron)
	}
	return response, err
}

// ResumeCron needs operate on the lambda.
func (s crons) ResumeCron(ctx context.Context, r *kinesinv1.ResumeCronRequest) (*kinesinv1.ResumeCronResponse, error) {
	if _, err := s.checkNamed(ctx, actResumeCron, s.find, r.GetName(), errNoCron, access.Operate); err != nil {
		return nil, err
	}
	current := s.current(ctx, r.GetName())
	response, err := s.next.ResumeCron(ctx, r)
	s.noteChange(ctx, actResumeCron, current, response.GetCron(), err)
	if err == nil {
		response.Cron = s.shown(ctx, response.Cron)
	}
	return response, err
}

// RunCron needs operate on the lambda, and schedule in the collection.
func (s crons) RunCron(ctx context.Context, r *kinesinv1.RunCronRequest) (*kinesinv1.RunCronResponse, error) {
	at, err := s.checkNamed(ctx, actRunCron, s.find, r.GetName(), errNoCron, access.Operate, access.Schedule)
	if err != nil {
		return nil, err
	}
	response, err := s.next.RunCron(ctx, r)
	s.note(ctx, audit.Record{Action: actRunCron, Target: at.lambda, After: s.settings(&kinesinv1.RunCronRequest{Name: r.GetName()})}, err)
	return response, err
}

// BackfillCron needs what RunCron does. The job is its maker's alone, as others are.
func (s crons) BackfillCron(ctx context.Context, r *kinesinv1.BackfillCronRequest) (*kinesinv1.BackfillCronResponse, error) {
	at, err := s.checkNamed(ctx, actBackfill, s.find, r.GetName(), errNoCron, access.Operate, access.Schedule)
	if err != nil {
		return nil, err
	}
	response, err := s.next.BackfillCron(ctx, r)
	if !r.GetDryRun() {
		asked := proto.CloneOf(r)
		asked.RequestId = nil
		s.note(ctx, audit.Record{Action: actBackfill, Target: at.lambda, Before: s.settings(asked), After: s.settings(response.GetJob())}, err)
	}
	return response, err
}

// DeleteCron needs operate on the lambda.
func (s crons) DeleteCron(ctx context.Context, r *kinesinv1.DeleteCronRequest) (*kinesinv1.DeleteCronResponse, error) {
	if _, err := s.checkNamed(ctx, actDeleteCron, s.find, r.GetName(), errNoCron, access.Operate); err != nil {
		return nil, err
	}
	current := s.current(ctx, r.GetName())
	response, err := s.next.DeleteCron(ctx, r)
	s.noteChange(ctx, actDeleteCron, current, nil, err)
	return response, err
}

// GetCron needs read in the collection. For others there is no such cron. Its payload takes read-payload.
func (s crons) GetCron(ctx context.Context, r *kinesinv1.GetCronRequest) (*kinesinv1.GetCronResponse, error) {
	if _, err := s.checkNamed(ctx, actReadCron, s.find, r.GetName(), errNoCron, access.Read); err != nil {
		return nil, err
	}
	response, err := s.next.GetCron(ctx, r)
	if err == nil {
		response.Cron = s.shown(ctx, response.Cron)
	}
	return response, err
}

// CronHistory needs what GetCron does.
func (s crons) CronHistory(ctx context.Context, r *kinesinv1.CronHistoryRequest) (*kinesinv1.CronHistoryResponse, error) {
	if _, err := s.checkNamed(ctx, actReadCron, s.find, r.GetName(), errNoCron, access.Read); err != nil {
		return nil, err
	}
	return s.next.CronHistory(ctx, r)
}

// ListCrons needs read on the lambda that the request names. The service itself leaves out the crons that the
// caller may not read, because it bounds the list.
func (s crons) ListCrons(ctx context.Context, r *kinesinv1.ListCronsRequest) (*kinesinv1.ListCronsResponse, error) {
	if r.GetLambda() != "" {
		if err := s.allowSome(ctx, actListCrons, access.Read, r.GetLambda()); err != nil {
			return nil, err
		}
	}
	return s.next.ListCrons(ctx, r)
}

var errNoCron = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such cron among those that you may read")

// current returns a cron as it is; nil if it cannot be read, of which the change itself says why.
func (s crons) current(ctx context.Context, name string) *kinesinv1.Cron {
	response, _ := s.next.GetCron(ctx, &kinesinv1.GetCronRequest{Name: name})
	return response.GetCron()
}

// shown returns a cron without its payload for who may not read that.
func (s crons) shown(ctx context.Context, c *kinesinv1.Cron) *kinesinv1.Cron {
	if s.seesPayload(ctx, c) {
		return c
	}
	return withoutPayload(c)
}

func (s crons) seesPayload(ctx context.Context, c *kinesinv1.Cron) bool {
	return access.From(ctx).Grants.AllowIn(access.ReadPayload, c.GetLambda(), c.GetCollection())
}

func withoutPayload(c *kinesinv1.Cron) *kinesinv1.Cron {
	if len(c.GetPayload()) == 0 {
		return c
	}
	c = proto.CloneOf(c)
	c.Payload = nil
	return c
}

// recorded returns a cron as the audit log has it, without what is none of its readers' business, or changes
// by itself.
func (s crons) recorded(c *kinesinv1.Cron) string {
	if s.Audit == nil || c == nil {
		return ""
	}
	c = proto.CloneOf(c)
	c.Payload, c.Next = nil, nil
	return s.settings(c)
}

// noteChange records a change of a cron.
func (s crons) noteChange(ctx context.Context, action string, before, after *kinesinv1.Cron, err error) {
	s.note(ctx, audit.Record{Action: action, Target: before.GetLambda(), Before: s.recorded(before), After: s.recorded(after)}, err)
}
