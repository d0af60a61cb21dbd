package guard

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

const (
	actSetCron  = "cron.set"
	actReadCron = "cron.read"
)

type crons service[kinesinv1connect.CronServiceHandler]

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
	found := s.current(ctx, asked.GetName())
	current := found.GetCron()
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
	a := act{Record: audit.Record{Action: actSetCron, Target: asked.GetName(), Before: s.settings(forRecord(found))}}
	response, err := recordChange(ctx, s.Guard, a, s.next.SetCron, r, forRecord)
	if err == nil {
		response.Cron = s.shown(ctx, response.Cron)
	}
	return response, err
}

func (s crons) PauseCron(ctx context.Context, r *kinesinv1.PauseCronRequest) (*kinesinv1.PauseCronResponse, error) {
	response, err := recordChange(ctx, s.Guard, s.onCron(ctx, "cron.pause", r.GetName()), s.next.PauseCron, r, forRecord)
	if err == nil {
		response.Cron = s.shown(ctx, response.Cron)
	}
	return response, err
}

func (s crons) ResumeCron(ctx context.Context, r *kinesinv1.ResumeCronRequest) (*kinesinv1.ResumeCronResponse, error) {
	response, err := recordChange(ctx, s.Guard, s.onCron(ctx, "cron.resume", r.GetName()), s.next.ResumeCron, r, forRecord)
	if err == nil {
		response.Cron = s.shown(ctx, response.Cron)
	}
	return response, err
}

// RunCron needs operate on the lambda, and schedule in the collection.
func (s crons) RunCron(ctx context.Context, r *kinesinv1.RunCronRequest) (*kinesinv1.RunCronResponse, error) {
	a := s.onNamed(ctx, "cron.run", s.find, r.GetName(), errNoCron, access.Operate, access.Schedule).as(r.GetName())
	return record(ctx, s.Guard, a, s.next.RunCron, r)
}

// BackfillCron needs what RunCron does. The job is its maker's alone, as others are.
func (s crons) BackfillCron(ctx context.Context, r *kinesinv1.BackfillCronRequest) (*kinesinv1.BackfillCronResponse, error) {
	a := s.onNamed(ctx, "cron.backfill", s.find, r.GetName(), errNoCron, access.Operate, access.Schedule).as(r.GetName())
	asked := proto.CloneOf(r)
	asked.RequestId = nil
	a.Before = s.settings(asked)
	return recordChange(ctx, s.Guard, a, s.next.BackfillCron, r, (*kinesinv1.BackfillCronResponse).GetJob)
}

func (s crons) DeleteCron(ctx context.Context, r *kinesinv1.DeleteCronRequest) (*kinesinv1.DeleteCronResponse, error) {
	return record(ctx, s.Guard, s.onCron(ctx, "cron.delete", r.GetName()), s.next.DeleteCron, r)
}

// onCron returns an act that changes a cron, which needs operate on the lambda.
func (s crons) onCron(ctx context.Context, action, name string) act {
	a := s.onNamed(ctx, action, s.find, name, errNoCron, access.Operate).as(name)
	if a.refused == nil {
		a.Before = s.settings(forRecord(s.current(ctx, name)))
	}
	return a
}

// GetCron needs read in the collection. For others there is no such cron. Its payload takes read-payload.
func (s crons) GetCron(ctx context.Context, r *kinesinv1.GetCronRequest) (*kinesinv1.GetCronResponse, error) {
	a := s.onNamed(ctx, actReadCron, s.find, r.GetName(), errNoCron, access.Read)
	response, err := invoke(ctx, a.refused, s.next.GetCron, r)
	if err == nil {
		response.Cron = s.shown(ctx, response.Cron)
	}
	return response, err
}

// CronHistory needs what GetCron does.
func (s crons) CronHistory(ctx context.Context, r *kinesinv1.CronHistoryRequest) (*kinesinv1.CronHistoryResponse, error) {
	a := s.onNamed(ctx, actReadCron, s.find, r.GetName(), errNoCron, access.Read)
	return invoke(ctx, a.refused, s.next.CronHistory, r)
}

// ListCrons needs read on the lambda that the request names. The service itself leaves out the crons that the
// caller may not read, because it bounds the list.
func (s crons) ListCrons(ctx context.Context, r *kinesinv1.ListCronsRequest) (*kinesinv1.ListCronsResponse, error) {
	return invoke(ctx, s.allowReading(ctx, "cron.list", r.GetLambda()), s.next.ListCrons, r)
}

var errNoCron = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such cron among those that you may read")

// current returns what GetCron answers now; nil if the cron cannot be read, of which the change itself says why.
func (s crons) current(ctx context.Context, name string) *kinesinv1.GetCronResponse {
	response, _ := s.next.GetCron(ctx, &kinesinv1.GetCronRequest{Name: name})
	return response
}

// shown returns a cron without its payload for who may not read that.
func (s crons) shown(ctx context.Context, c *kinesinv1.Cron) *kinesinv1.Cron {
	if len(c.GetPayload()) > 0 && !s.seesPayload(ctx, c) {
		c = proto.CloneOf(c)
		c.Payload = nil
	}
	return c
}

func (s crons) seesPayload(ctx context.Context, c *kinesinv1.Cron) bool {
	return access.From(ctx).Grants.AllowIn(access.ReadPayload, c.GetLambda(), c.GetCollection())
}

// forRecord returns the cron of a response as the audit log has it, without what is none of its readers'
// business, or changes by itself.
func forRecord[A interface{ GetCron() *kinesinv1.Cron }](response A) *kinesinv1.Cron {
	c := proto.CloneOf(response.GetCron())
	if c != nil {
		c.Next = nil
	}
	return c
}
