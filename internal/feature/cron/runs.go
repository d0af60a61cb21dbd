package cron

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/control"
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
	control.Meta `json:"-"`

	Cron string       `json:"-"`
	Life task.Instant `json:"life"` // when the cron was created
	Runs []manualRun  `json:"runs"` // the newest first
}

type manualRun struct {
	At       task.Instant `json:"at"`
	Revision uint64       `json:"revision"`
	ID       string       `json:"id"` // of the task
}

// runsAsRows reads what cannot be read as no runs.
var runsAsRows = control.Kind[manualRuns]{
	Live: kindRuns, What: "runs of cron", Name: func(r *manualRuns) string { return r.Cron },
	Read: func(name string, value []byte, r *manualRuns) error {
		if json.Unmarshal(value, r) != nil {
			*r = manualRuns{}
		}
		r.Cron = name
		return nil
	},
}

// of leaves out the runs of a cron of the same name that was deleted.
func (r *manualRuns) of(c *Cron) *manualRuns {
	if r.Life != c.Created {
		*r = manualRuns{Meta: r.Meta, Cron: c.Name, Life: c.Created}
	}
	return r
}

// noteRun remembers a task that RunCron has scheduled, once also if the call is made again.
func (s *Service) noteRun(ctx context.Context, c *Cron, run manualRun) error {
	_, err := s.runs.Set(ctx, c.Name, func(kept *manualRuns) (control.Do, error) {
		kept.of(c)
		if slices.ContainsFunc(kept.Runs, func(known manualRun) bool { return known.ID == run.ID }) {
			return control.Keep, nil
		}
		kept.Runs = append(kept.Runs, run)
		slices.SortStableFunc(kept.Runs, func(a, b manualRun) int { return cmp.Compare(b.At, a.At) })
		kept.Runs = kept.Runs[:min(len(kept.Runs), runsKeptMax)]
		return control.Store, nil
	})
	if errors.Is(err, store.ErrConflict) {
		err = errBusy
	}
	return err
}

// forgetRuns deletes what is remembered of the runs of a cron that was deleted. A row that stays is of another life than
// any later cron.
func (s *Service) forgetRuns(ctx context.Context, c *Cron) {
	if kept, err := s.runs.Find(ctx, c.Name); err == nil {
		_ = s.runs.Delete(ctx, kept) // see above
	}
}

// withRuns adds what RunCron has scheduled to a history, by when that was.
func (s *Service) withRuns(ctx context.Context, c *Cron, history []*kinesinv1.CronOccurrence, from, to task.Instant, limit int) ([]*kinesinv1.CronOccurrence, error) {
	kept, err := s.runs.Find(ctx, c.Name)
	if errors.Is(err, store.ErrNotFound) {
		return history, nil
	}
	if err != nil {
		return nil, err
	}
	made := slices.DeleteFunc(kept.of(c).Runs, func(r manualRun) bool { return r.At < from || r.At > to })
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
