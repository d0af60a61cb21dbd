package inbound

import (
	"context"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Schedule accepts tasks, with an outcome for each. A task that has an id in its result is durable.
func (in *Inbound) Schedule(ctx context.Context, request *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	items := request.Items
	if len(items) == 0 || len(items) > ScheduleItemsMax {
		return nil, refusal.Invalid("a call schedules 1 to %d tasks, this one has %d", ScheduleItemsMax, len(items))
	}
	if in.isDraining() {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the server is stopping; try again")
	}
	b, end := in.Begin(len(items))
	defer end()
	b.Again, b.First, b.Elapsed = request.Again, request.First, max(0, task.Micros(request.Elapsed))
	caller := access.From(ctx)
	b.Caller = caller.Name
	b.MaySchedule = func(l *catalog.Entry, collection string) bool {
		return caller.Grants.AllowIn(access.Schedule, l.Name, collection)
	}
	quota := callQuota{in: in, identity: caller.Name}
	for i, item := range items {
		c := &b.Tasks[i]
		c.Item, c.Way = item, intake.WayStore
		c.Err = admit(ctx, b, c, quota.take)
	}
	// A caller that gives up now will call again and then meet rows that nobody announced, so the call is
	// finished.
	lasting := context.WithoutCancel(ctx)
	b.SendDirect(lasting)
	in.sendToBuffer(lasting, b)
	b.Write(lasting)
	b.Announce(lasting)
	in.replaceAll(lasting, b)
	return in.answer(lasting, b), nil
}

// answer returns the outcomes of the tasks of a Schedule call.
func (in *Inbound) answer(ctx context.Context, b *intake.Batch) *kinesinv1.ScheduleResponse {
	results := make([]kinesinv1.ScheduleResult, len(b.Tasks))
	response := &kinesinv1.ScheduleResponse{Results: make([]*kinesinv1.ScheduleResult, len(b.Tasks))}
	tellInternal := in.internalOnce(ctx, kinesinv1connect.TaskServiceScheduleProcedure)
	for i := range b.Tasks {
		c, r := &b.Tasks[i], &results[i]
		response.Results[i] = r
		if c.Err == nil {
			r.Id, r.Duplicate, r.Due = c.ID, c.Exists, int64(c.Task.Due)
			if c.Exists {
				r.State, r.Replaced = c.Task.State.String(), c.Replaced
			}
			if r.Id == "" {
				r.Id = in.Sealer.SealTask(c.Task)
			}
			continue
		}
		r.Problem = refusal.Problem(c.Err)
		tellInternal(r.Problem, c.Err)
		if in.Hooks.Refused != nil {
			in.Hooks.Refused(r.Problem.Reason)
		}
	}
	return response
}
