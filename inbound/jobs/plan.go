package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
)

// plan is how far a job has come that lists its tasks before it changes any. A task that is moved by some
// time would otherwise be met again where it is now, and moved again. The list has when each task is to be
// due, so that a part of it may be worked off twice.
type plan struct {
	Listed bool `json:"listed,omitempty"`
	Parts  int  `json:"parts,omitempty"` // that are written
	Done   int  `json:"done,omitempty"`  // parts that are worked off
}

// partsMax bounds the parts of a list, each of up to batchTasksMax tasks: about 80 MB of control rows.
const partsMax = 1000

func partName(id string, number int) string { return fmt.Sprintf("%s/%06d", id, number) }

// list reads the next page of the set into the list. What the maker of the job may not change is refused now,
// since the list has only ids.
func (s *Service) list(ctx context.Context, j *job) (step, error) {
	of, err := j.selection()
	if err != nil {
		return step{}, err
	}
	page, err := s.Tasks.Page(ctx, of, j.Position, batchTasksMax)
	if err != nil {
		return step{}, err
	}
	answers, at, err := s.permit(j, page.Rows)
	if err != nil {
		return step{}, err
	}
	done := step{examined: page.Examined, matched: len(page.Rows), position: page.Next}
	var refused []int
	for i := range answers {
		if answers[i].Err != nil {
			done.changed, refused = append(done.changed, answers[i]), append(refused, i)
		}
	}
	done.idOf = func(i int) string { return s.Tasks.PublicID(&page.Rows[refused[i]]) }
	next := *j.Plan
	if next.Listed = len(page.Next) == 0; len(at) > 0 {
		if next.Parts == partsMax {
			return step{}, refusal.Invalid("more than %d tasks or parts of the store to move: narrow the filter, and move the rest with another job", partsMax*batchTasksMax)
		}
		moves := make([]move, len(at))
		for k, i := range at {
			moves[k] = move{ID: s.Tasks.PublicID(&page.Rows[i]), Due: int64(j.dueOf(&page.Rows[i].Task))}
		}
		if err := s.putPart(ctx, partName(j.ID, next.Parts), moves); err != nil {
			return step{}, err
		}
		next.Parts++
	}
	done.plan = &next
	return done, nil
}

// putPart writes a part, in place of one that was written before a crash.
func (s *Service) putPart(ctx context.Context, name string, moves []move) error {
	value, err := json.Marshal(moves)
	if err != nil {
		return err
	}
	before, err := s.Store.Control(ctx, kindPlan, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return s.Store.PutControl(ctx, store.Control{Kind: kindPlan, Name: name, Version: before.Version + 1, Value: value})
}

// workOff moves the tasks of the next part of the list.
func (s *Service) workOff(ctx context.Context, j *job) (step, error) {
	next := *j.Plan
	if next.Done == next.Parts {
		return step{isLast: true}, nil
	}
	row, err := s.Store.Control(ctx, kindPlan, partName(j.ID, next.Done))
	if err != nil {
		return step{}, fmt.Errorf("read the list of job %s: %w", j.ID, err)
	}
	var moves []move
	if err := json.Unmarshal(row.Value, &moves); err != nil {
		return step{}, fmt.Errorf("%w: list of job %s: %w", store.ErrCorrupt, j.ID, err)
	}
	next.Done++
	done := step{plan: &next, idOf: func(i int) string { return moves[i].ID }, isLast: next.Done == next.Parts}
	done.changed, err = s.reschedule(ctx, moves)
	return done, err
}

// forgetPlan deletes the list of a job that has ended.
func (s *Service) forgetPlan(ctx context.Context, j *job) error {
	if j.Plan == nil {
		return nil
	}
	for number := range j.Plan.Parts + 1 { // one more may have been written before a crash
		row, err := s.Store.Control(ctx, kindPlan, partName(j.ID, number))
		if err == nil {
			err = s.Store.DeleteControl(ctx, row)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}
