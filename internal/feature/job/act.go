package job

import (
	"context"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/task"
)

// actTriesMax is how often tasks that could not be changed for now are tried in one step.
const actTriesMax = 5

var stepRetry = backoff.Policy{Min: 100 * time.Millisecond, Max: 20 * time.Second}

// step is what one step of a job did.
type step struct {
	changed  []inbound.Changed
	idOf     func(i int) string // public id of the task of changed[i]
	examined int
	matched  int
	position []byte
	plan     *plan
	isLast   bool
}

// target returns when a task is to be due, or why it stays as it is. A reschedule has one.
type target func(t *task.Task) (task.Instant, error)

// act changes tasks, with an outcome for each.
func (s *Service) act(ctx context.Context, j *job, rows []inbound.Row, to target) []inbound.Changed {
	changed, at := s.permit(j, rows)
	if len(at) == 0 {
		return changed
	}
	some := make([]inbound.Row, len(at))
	for k, i := range at {
		some[k] = rows[i]
	}
	for k, c := range s.change(ctx, j, some, to) {
		changed[at[k]] = c
	}
	return changed
}

// permit refuses the tasks that the maker of a job may not change, and returns the places of the others.
func (s *Service) permit(j *job, rows []inbound.Row) (changed []inbound.Changed, at []int) {
	changed = make([]inbound.Changed, len(rows))
	verb := actions[j.Action].verb
	for i := range rows {
		if lambda, _ := s.Tasks.Names(&rows[i]); j.may.AllowIn(verb, lambda, rows[i].Collection) {
			at = append(at, i)
		} else {
			changed[i].Err = api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "%v", access.Identity{Name: j.Identity, Grants: j.may}.Denied(verb, lambda))
		}
	}
	return changed, at
}

func (s *Service) change(ctx context.Context, j *job, rows []inbound.Row, to target) []inbound.Changed {
	switch j.Action {
	case "cancel":
		return s.Tasks.CancelRows(ctx, rows)
	case "expire":
		return s.Tasks.ExpireRows(ctx, rows)
	case "delete":
		return s.Tasks.DeleteRows(ctx, rows)
	case actionRedrive:
		return s.Tasks.RedriveRows(ctx, rows, j.Force)
	}
	return s.Tasks.RescheduleRows(ctx, rows, to)
}

// to is the target of a job that needs no list.
func (j *job) to(t *task.Task) (task.Instant, error) { return j.dueOf(t), nil }

// hasMoved reports whether a job without a list has moved a task before: it meets one that it moved ahead
// again.
func (j *job) hasMoved(t *task.Task, now task.Instant) bool {
	if j.Action != actionReschedule || t.Seq < uint64(j.Created) { // a seq tells when a task was moved
		return false
	}
	due := j.dueOf(t)
	return t.Due == due || max(due, t.Due) <= now
}

// dueOf returns when a task of a reschedule is to be due. It is the same each time, so that a task that is
// met again stays where it is.
func (j *job) dueOf(t *task.Task) task.Instant {
	switch {
	case j.By != 0:
		return max(t.Due+task.Instant(j.By), j.Created).CeilMillis() // the past means now
	case j.Due != 0:
		return j.Due.CeilMillis()
	}
	// Evenly over the time by the random bits of the id: the last eight bytes are less than 2^62 above the
	// variant's two bits.
	share := binary.BigEndian.Uint64(t.ID[8:]) << 2
	offset, _ := bits.Mul64(share, uint64(j.Spread))
	return (j.Created + task.Instant(offset)).CeilMillis()
}

// actAgain is act, and tries again for a while what could not be changed for now.
func (s *Service) actAgain(ctx context.Context, j *job, rows []inbound.Row, to target) []inbound.Changed {
	changed := s.act(ctx, j, rows, to)
	for tries := 1; tries < actTriesMax; tries++ {
		var some []inbound.Row
		var at []int
		for i := range changed {
			if isForNow(changed[i].Err) {
				some, at = append(some, rows[i]), append(at, i)
			}
		}
		if len(some) == 0 || stepRetry.Sleep(ctx, s.Clock, tries) != nil {
			break
		}
		for k, c := range s.act(ctx, j, some, to) {
			changed[at[k]] = c
		}
	}
	return changed
}

// isForNow reports whether a refusal is one of the store that may be gone in a moment.
func isForNow(err error) bool {
	if err == nil {
		return false
	}
	reason := inbound.ReasonOf(err)
	return reason == kinesinv1.Reason_REASON_UNAVAILABLE || reason == kinesinv1.Reason_REASON_INTERNAL
}

const (
	actionReschedule = "reschedule"
	actionRedrive    = "redrive"
)

// actionBackfill is that of a job that schedules the occurrences of a cron for a past range. It changes no
// set of tasks: its place is the nominal time that it has come to.
const actionBackfill = "backfill"

// action is what a job does.
type action struct {
	verb  access.Verb // that its maker needs on each task, besides read
	ended bool        // it changes ended tasks; others change live ones
	units int         // write units that one task takes on a store that counts them
}

var actions = map[string]action{
	"cancel":         {access.Cancel, false, 2},
	"expire":         {access.Cancel, false, 2},
	actionReschedule: {access.Schedule, false, 3},
	actionRedrive:    {access.Operate, true, 3},
	"delete":         {access.Operate, true, 1},
}

// VerbOf returns the verb that an action needs on each task, besides read; false for an unknown action.
func VerbOf(name string) (access.Verb, bool) {
	a, known := actions[name]
	return a.verb, known
}
