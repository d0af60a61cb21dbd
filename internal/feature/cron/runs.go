package cron

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// kindRuns is the kind of the control rows with the tasks that RunCron has scheduled, by the name of their cron. They
	// are no part of the cron, so that a run does not refuse a change that was read before.
	kindRuns = "cron-runs"
	// runsKeptMax is how many a cron remembers, the newest ones.
	runsKeptMax = 100
)

// manualRuns is the stored form.
type manualRuns struct {
	Life task.Instant `json:"life"` // when the cron was created
	Runs []manualRun  `json:"runs"` // the newest first
}

type manualRun struct {
	At       task.Instant `json:"at"`
	Revision uint64       `json:"revision"`
	ID       string       `json:"id"` // of the task
}

// manual reads what RunCron has scheduled for a cron.
func (s *Service) manual(ctx context.Context, c *Cron) (row store.Control, kept manualRuns, err error) {
	row, err = s.Store.Control(ctx, kindRuns, c.Name)
	if errors.Is(err, store.ErrNotFound) {
		row, err = store.Control{Kind: kindRuns, Name: c.Name}, nil
	}
	if err != nil || len(row.Value) == 0 || json.Unmarshal(row.Value, &kept) != nil || kept.Life != c.Created {
		kept = manualRuns{Life: c.Created} // of a cron of the same name that was deleted
	}
	return row, kept, err
}

// noteRun remembers a task that RunCron has scheduled, once also if the call is made again.
func (s *Service) noteRun(ctx context.Context, c *Cron, run manualRun) error {
	for range casTriesMax {
		row, kept, err := s.manual(ctx, c)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(kept.Runs, func(known manualRun) bool { return known.ID == run.ID }) {
			return nil
		}
		kept.Runs = append(kept.Runs, run)
		slices.SortStableFunc(kept.Runs, func(a, b manualRun) int { return cmp.Compare(b.At, a.At) })
		kept.Runs = kept.Runs[:min(len(kept.Runs), runsKeptMax)]
		if row.Value, err = json.Marshal(kept); err != nil {
			return err
		}
		row.Version++
		if err := s.Store.PutControl(ctx, row); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return errBusy
}

// forgetRuns deletes what is remembered of the runs of a cron that was deleted. A row that stays is of another life than
// any later cron.
func (s *Service) forgetRuns(ctx context.Context, c *Cron) {
	if row, _, err := s.manual(ctx, c); err == nil && row.Version > 0 {
		_ = s.Store.DeleteControl(ctx, row) // see above
	}
}

// withRuns adds what RunCron has scheduled to a history, by when that was.
func (s *Service) withRuns(ctx context.Context, c *Cron, history []*kinesinv1.CronOccurrence, from, to task.Instant, limit int) ([]*kinesinv1.CronOccurrence, error) {
	_, kept, err := s.manual(ctx, c)
	if err != nil {
		return nil, err
	}
	made := slices.DeleteFunc(kept.Runs, func(r manualRun) bool { return r.At < from || r.At > to })
	made = made[:min(len(made), limit)]
	if len(made) == 0 {
		return history, nil
	}
	ids := make([]string, len(made))
	for i := range made {
		ids[i] = made[i].ID
	}
	found, err := s.Tasks.Get(ctx, &kinesinv1.GetRequest{Ids: ids})
	if err != nil {
		return nil, err
	}
	for i, r := range found.GetResults() {
		o := &kinesinv1.CronOccurrence{Nominal: int64(made[i].At), Revision: made[i].Revision, Manual: true, Outcome: forgotten}
		if t := r.GetTask(); t != nil {
			o.Id, o.State = t.Id, t.State
			o.Outcome, o.Reason = outcomeOfRun(t)
			if t.Started > 0 {
				o.Late = max(t.Started-t.Due, 1)
			}
		} else if !errors.Is(api.ErrorOf(r.GetProblem()), api.ErrNotFound) {
			return nil, api.ErrorOf(r.GetProblem())
		}
		history = append(history, o)
	}
	slices.SortStableFunc(history, func(a, b *kinesinv1.CronOccurrence) int { return cmp.Compare(b.Nominal, a.Nominal) })
	return history[:min(len(history), limit)], nil
}

// outcomeOfRun says what became of a task as describe does of an occurrence.
func outcomeOfRun(t *kinesinv1.Task) (outcome, reason string) {
	switch {
	case t.Ended > 0 && t.Attempt == 0:
		return skipped, "it ended as " + t.State + " before it started"
	case t.Ended > 0:
		return ran, ""
	case t.Attempt > 0:
		return runs, ""
	}
	return waits, ""
}
