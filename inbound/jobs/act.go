package jobs

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/task"
)

// changesAtOnce bounds the calls under way for tasks that are changed one by one.
const changesAtOnce = 64

// outcomeAsIs is counted for tasks that were as the job wants them already.
const outcomeAsIs = "unchanged"

// act changes the tasks of a page, with an outcome for each. The error is about all of them.
func (s *Service) act(ctx context.Context, j *job, rows []inbound.Row) ([]inbound.Changed, error) {
	changed, at, err := s.permit(j, rows)
	if err != nil || len(at) == 0 {
		return changed, err
	}
	some := make([]inbound.Row, len(at))
	for k, i := range at {
		some[k] = rows[i]
	}
	results, err := s.change(ctx, j, some)
	for k := range results {
		changed[at[k]] = results[k]
	}
	return changed, err
}

// permit refuses the tasks that the maker of a job may not change, and returns the places of the others.
func (s *Service) permit(j *job, rows []inbound.Row) (changed []inbound.Changed, at []int, err error) {
	grants, err := access.ParseGrants(j.Grants)
	if err != nil {
		return nil, nil, err
	}
	changed = make([]inbound.Changed, len(rows))
	verb := actions[j.Action].verb
	for i := range rows {
		if lambda, _ := s.Tasks.Names(&rows[i]); grants.AllowIn(verb, lambda, rows[i].Collection) {
			at = append(at, i)
		} else {
			changed[i].Err = api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "%v", access.Identity{Name: j.Identity, Grants: grants}.Denied(verb, lambda))
		}
	}
	return changed, at, nil
}

func (s *Service) change(ctx context.Context, j *job, rows []inbound.Row) ([]inbound.Changed, error) {
	switch j.Action {
	case "cancel":
		return s.Tasks.CancelRows(ctx, rows), nil
	case "expire":
		return s.Tasks.ExpireRows(ctx, rows), nil
	case "delete":
		return s.Tasks.DeleteRows(ctx, rows), nil
	case "redrive":
		return s.Tasks.RedriveRows(ctx, rows, j.Force), nil
	}
	moves := make([]move, len(rows))
	for i := range rows {
		moves[i] = move{ID: s.Tasks.PublicID(&rows[i]), Due: int64(j.dueOf(&rows[i].Task)), was: rows[i].Due}
	}
	return s.reschedule(ctx, moves)
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

// move is a task that is to be due at another time.
type move struct {
	ID  string `json:"i"`
	Due int64  `json:"d"` // microseconds

	was task.Instant // 0: not known
}

// reschedule moves tasks, each to a time of its own.
func (s *Service) reschedule(ctx context.Context, moves []move) ([]inbound.Changed, error) {
	changed := make([]inbound.Changed, len(moves))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(changesAtOnce)
	for i, m := range moves {
		if int64(m.was) == m.Due {
			changed[i].Outcome = outcomeAsIs
			continue
		}
		group.Go(func() error {
			response, err := s.Changer.Reschedule(ctx, &kinesinv1.RescheduleRequest{Ids: []string{m.ID}, DueMicros: max(1, m.Due)})
			switch {
			case err != nil && !isForNow(err): // such as a time beyond the horizon, which is that of one task
				changed[i].Err = err
				return nil
			case err != nil:
				return err
			case len(response.Results) != 1:
				return fmt.Errorf("%d results for one task", len(response.Results))
			}
			if changed[i].Err = api.ErrorOf(response.Results[0].Problem); changed[i].Err == nil {
				changed[i].Outcome = "rescheduled"
			}
			return nil
		})
	}
	return changed, group.Wait()
}

// actAgain is act, and tries again for a while what could not be changed for now.
func (s *Service) actAgain(ctx context.Context, j *job, rows []inbound.Row) ([]inbound.Changed, error) {
	changed, err := s.act(ctx, j, rows)
	for tries := 1; err == nil && tries < actTriesMax; tries++ {
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
		var again []inbound.Changed
		again, err = s.act(ctx, j, some)
		for k := range again {
			changed[at[k]] = again[k]
		}
	}
	return changed, err
}

// isForNow reports whether a refusal is one of the store that may be gone in a moment.
func isForNow(err error) bool {
	if err == nil {
		return false
	}
	reason := inbound.ReasonOf(err)
	return reason == kinesinv1.Reason_REASON_UNAVAILABLE || reason == kinesinv1.Reason_REASON_INTERNAL
}
