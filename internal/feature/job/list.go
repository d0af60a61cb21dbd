package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// list reads the next page of the set into the list.
func (s *Service) list(ctx context.Context, j *job) (step, error) {
	of, err := j.selection()
	if err != nil {
		return step{}, err
	}
	page, err := s.page(ctx, j, of)
	if err != nil {
		return step{}, err
	}
	next := *j.Plan
	if next.Listed = len(page.Next) == 0; len(page.Rows) > 0 {
		if next.Parts == partsMax {
			return step{}, refusal.Invalid("more than %d tasks or parts of the store to move: narrow the filter, and move the rest with another job", partsMax*batchTasksMax)
		}
		moves := make([]move, len(page.Rows))
		for i := range page.Rows {
			t := &page.Rows[i].Task
			moves[i] = move{ID: s.Tasks.PublicID(&page.Rows[i]), Due: j.dueOf(t), Was: t.Due}
		}
		if err := s.putPart(ctx, partName(j.ID, next.Parts), moves); err != nil {
			return step{}, err
		}
		next.Parts++
	}
	return step{examined: page.Seen, matched: len(page.Rows), position: page.Next, plan: &next}, nil
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
	done.changed, err = s.move(ctx, j, moves)
	return done, err
}

// move moves listed tasks.
func (s *Service) move(ctx context.Context, j *job, moves []move) ([]inbound.Changed, error) {
	ids := make([]string, len(moves))
	for i := range moves {
		ids[i] = moves[i].ID
	}
	rows, err := s.Tasks.RowsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	changed := make([]inbound.Changed, len(moves))
	known := make(map[task.ID]move, len(moves))
	var some []inbound.Row
	var at []int
	for i := range rows {
		if rows[i].ID.IsZero() {
			changed[i].Err = inbound.NoSuchTask()
			continue
		}
		some, at, known[rows[i].ID] = append(some, rows[i]), append(at, i), moves[i]
	}
	results := s.actAgain(ctx, j, some, func(t *task.Task) (task.Instant, error) { return known[t.ID].of(t, s.Clock.Now()) })
	for k, c := range results {
		if changed[at[k]] = c; c.Outcome == inbound.Unchanged && moves[at[k]].Due != moves[at[k]].Was {
			changed[at[k]].Outcome = "rescheduled" // when this part was worked off before
		}
	}
	return changed, nil
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
