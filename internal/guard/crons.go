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

	next     kinesinv1connect.CronServiceHandler
	lambdaOf cronLambda
}

// cronLambda returns the lambda and the collection of a cron.
type cronLambda func(ctx context.Context, name string) (lambda, collection string, err error)

// Crons guards a CronService.
func (g *Guard) Crons(next kinesinv1connect.CronServiceHandler, lambdaOf cronLambda) kinesinv1connect.CronServiceHandler {
	return crons{g, next, lambdaOf}
}

// SetCron needs operate on the lambda, and schedule in the collection, because occurrences are tasks with a
// payload of the caller's. A caller who may not read payloads and gives none keeps the one that is there. A
// dry run changes nothing, and is not noted.
func (s crons) SetCron(ctx context.Context, r *kinesinv1.SetCronRequest) (*kinesinv1.SetCronResponse, error) {
	asked := r.GetCron()
	if err := s.allowTasks(ctx, actSetCron, asked.GetLambda(), asked.GetCollection()); err != nil {
		return nil, err
	}
	// A cron that is there may be of another lambda, and for who may not read that one it is just taken.
	current := s.current(ctx, asked.GetName())
	if asked.GetVersion() > 0 {
		if err := s.allowChange(ctx, actSetCron, asked.GetName()); err != nil {
			return nil, err
		}
		if len(asked.GetPayload()) == 0 && !s.seesPayload(ctx, current) {
			r = proto.CloneOf(r)
			r.Cron.Payload = current.GetPayload()
		}
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
	if err := s.allowChange(ctx, actPauseCron, r.GetName()); err != nil {
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
	if err := s.allowChange(ctx, actResumeCron, r.GetName()); err != nil {
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
	lambda, err := s.allowRun(ctx, actRunCron, r.GetName())
	if err != nil {
		return nil, err
	}
	response, err := s.next.RunCron(ctx, r)
	s.note(ctx, audit.Record{Action: actRunCron, Target: lambda, After: s.settings(&kinesinv1.RunCronRequest{Name: r.GetName()})}, err)
	return response, err
}

// BackfillCron needs what RunCron does. The job is its maker's alone, as others are.
func (s crons) BackfillCron(ctx context.Context, r *kinesinv1.BackfillCronRequest) (*kinesinv1.BackfillCronResponse, error) {
	lambda, err := s.allowRun(ctx, actBackfill, r.GetName())
	if err != nil {
		return nil, err
	}
	response, err := s.next.BackfillCron(ctx, r)
	if !r.GetDryRun() {
		asked := proto.CloneOf(r)
		asked.RequestId = nil
		s.note(ctx, audit.Record{Action: actBackfill, Target: lambda, Before: s.settings(asked), After: s.settings(response.GetJob())}, err)
	}
	return response, err
}

// allowRun refuses who may not operate the lambda of a cron, or not schedule tasks in its collection.
func (s crons) allowRun(ctx context.Context, action, name string) (lambda string, err error) {
	if err := s.allowChange(ctx, action, name); err != nil {
		return "", err
	}
	lambda, collection, err := s.lambdaOf(ctx, name)
	if err != nil {
		return "", err
	}
	return lambda, s.allowTasks(ctx, action, lambda, collection)
}

// DeleteCron needs operate on the lambda.
func (s crons) DeleteCron(ctx context.Context, r *kinesinv1.DeleteCronRequest) (*kinesinv1.DeleteCronResponse, error) {
	if err := s.allowChange(ctx, actDeleteCron, r.GetName()); err != nil {
		return nil, err
	}
	current := s.current(ctx, r.GetName())
	response, err := s.next.DeleteCron(ctx, r)
	s.noteChange(ctx, actDeleteCron, current, nil, err)
	return response, err
}

// GetCron needs read on the lambda, in one of its collections at least. For others there is no such cron. Its
// payload takes read-payload.
func (s crons) GetCron(ctx context.Context, r *kinesinv1.GetCronRequest) (*kinesinv1.GetCronResponse, error) {
	if err := s.allowRead(ctx, r.GetName()); err != nil {
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
	if err := s.allowRead(ctx, r.GetName()); err != nil {
		return nil, err
	}
	return s.next.CronHistory(ctx, r)
}

// ListCrons needs read on the lambda that the request names. The service itself leaves out the crons of
// lambdas that the caller may not read, because it bounds the list.
func (s crons) ListCrons(ctx context.Context, r *kinesinv1.ListCronsRequest) (*kinesinv1.ListCronsResponse, error) {
	if r.GetLambda() != "" {
		if err := s.allowSome(ctx, actListCrons, access.Read, r.GetLambda()); err != nil {
			return nil, err
		}
	}
	return s.next.ListCrons(ctx, r)
}

// allowTasks refuses who may not operate a lambda or not schedule tasks in a collection of it.
func (s crons) allowTasks(ctx context.Context, action, lambda, collection string) error {
	if err := s.allow(ctx, action, access.Operate, lambda); err != nil {
		return err
	}
	if c := access.From(ctx); !c.Grants.AllowIn(access.Schedule, lambda, collection) {
		return s.deny(c, action, access.Schedule, lambda)
	}
	return nil
}

// allowChange refuses a change of a cron to who may not operate its lambda. For who may not read the lambda
// either there is no such cron.
func (s crons) allowChange(ctx context.Context, action, name string) error {
	lambda, _, err := s.lambdaOf(ctx, name)
	if err != nil {
		return s.unseen(ctx, err)
	}
	err = s.allow(ctx, action, access.Operate, lambda)
	if err != nil && !access.From(ctx).Grants.AllowSome(access.Read, lambda) {
		return errNoCron
	}
	return err
}

func (s crons) allowRead(ctx context.Context, name string) error {
	lambda, _, err := s.lambdaOf(ctx, name)
	if err != nil {
		return s.unseen(ctx, err)
	}
	if s.allowSome(ctx, actReadCron, access.Read, lambda) != nil {
		return errNoCron
	}
	return nil
}

var errNoCron = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such cron among those of the lambdas that you may read")

// unseen returns the error of a cron that was not found, which a caller who may not read everything learns in
// the same words as that of a cron that it may not see.
func (s crons) unseen(ctx context.Context, err error) error {
	if api.ProblemOf(err).GetReason() == kinesinv1.Reason_REASON_NOT_FOUND && !access.From(ctx).Grants.AllowAll(access.Read) {
		return errNoCron
	}
	return err
}

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
	c.Payload, c.NextMicros = nil, nil
	return s.settings(c)
}

// noteChange records a change of a cron.
func (s crons) noteChange(ctx context.Context, action string, before, after *kinesinv1.Cron, err error) {
	s.note(ctx, audit.Record{Action: action, Target: before.GetLambda(), Before: s.recorded(before), After: s.recorded(after)}, err)
}
