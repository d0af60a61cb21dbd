package cron

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	historyMax     = 1000
	historyDefault = 20
	// beforeLook is at how many nominal times a history looks for one that a backfill made up for.
	beforeLook = 5
)

// CronHistory returns what became of nominal times that have passed, and of manual runs, newest first. It reads the tasks
// of the former by the ids that follow from them, and remembers those of the latter.
func (s *Service) CronHistory(ctx context.Context, r *kinesinv1.CronHistoryRequest) (_ *kinesinv1.CronHistoryResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	now := s.Clock.Now()
	from, to, limit := task.Instant(r.From), task.Instant(r.To), int(r.Limit)
	if limit == 0 {
		limit = historyDefault
	}
	if to == 0 || to > now {
		to = now
	}
	switch {
	case limit > historyMax:
		return nil, refusal.Invalid("limit %d: want 1 to %d, or 0 for %d", limit, historyMax, historyDefault)
	case r.From < 0 || r.To < 0:
		return nil, refusal.Invalid("from or to is before 1970: want microseconds since then, or 0")
	case r.To != 0 && r.From > r.To:
		return nil, refusal.Invalid("from is after to: want an earlier one")
	}
	c, err := s.find(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	l, err := s.Lambdas.FindRef(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	nominals, err := lastOf(ctx, c, allCharges(c), from, to, limit)
	if err != nil {
		return nil, err
	}
	response := &kinesinv1.CronHistoryResponse{}
	if l == nil { // it was deleted, and its tasks with it
		for _, n := range nominals {
			response.Occurrences = append(response.Occurrences, &kinesinv1.CronOccurrence{Nominal: int64(n.at), Revision: n.revision.Number, Outcome: forgotten})
		}
		return response, nil // nor are there those of manual runs
	}
	rows, err := s.rows(ctx, c, l, append(nextOf(c, now, 1), nominals...))
	if err != nil {
		return nil, err
	}
	response.Occurrences = s.outcomes(nominals, rows, l, now)
	if err := s.noteWaiting(ctx, c, l, response.Occurrences, now, false); err != nil {
		return nil, err
	}
	notePause(c, response.Occurrences)
	if err := s.withBackfills(ctx, c, response.Occurrences); err != nil {
		return nil, err
	}
	before, err := s.before(ctx, c, from, to, limit-len(nominals))
	if err != nil {
		return nil, err
	}
	response.Occurrences, err = s.withRuns(ctx, c, append(response.Occurrences, before...), from, to, limit)
	return response, err
}

// notePause gives the reason of nominal times that a pause skips, from its begin on.
func notePause(c *Cron, history []*kinesinv1.CronOccurrence) {
	p := c.Now().Pause
	if p == nil {
		return
	}
	for _, o := range history {
		if o.Id == "" && o.Outcome != forgotten && o.Nominal > int64(p.At) {
			o.Outcome, o.Reason = skipped, "the cron is paused: "+p.Reason
		}
	}
}

// withBackfills notes in a history which nominal times a backfill made up for.
func (s *Service) withBackfills(ctx context.Context, c *Cron, history []*kinesinv1.CronOccurrence) error {
	var at []int
	var nominals []task.Instant
	for i, o := range history {
		if o.Outcome == skipped || o.Outcome == missed || o.Outcome == forgotten {
			at, nominals = append(at, i), append(nominals, task.Instant(o.Nominal))
		}
	}
	rows, err := s.backfills(ctx, c, nominals)
	if err != nil {
		return err
	}
	for k := range rows {
		if !rows[k].ID.IsZero() {
			history[at[k]] = s.backfill(&rows[k])
		}
	}
	return nil
}

// backfill describes the task with which a backfill made up for a nominal time.
func (s *Service) backfill(t *task.Task) *kinesinv1.CronOccurrence {
	o := &kinesinv1.CronOccurrence{Nominal: int64(t.Occurrence.At.Nominal), Revision: t.Occurrence.At.Revision, Backfill: true}
	s.describe(o, &row{Task: *t, nominal: nominal{at: t.Occurrence.At.Nominal, due: t.Due}})
	return o
}

// before returns the nominal times before those that the cron remembers for which a backfill made up, newest
// first. It looks at the last historyMax ones, or, if nobody said from when on, at fewer: each costs a read.
func (s *Service) before(ctx context.Context, c *Cron, from, to task.Instant, limit int) (all []*kinesinv1.CronOccurrence, err error) {
	oldest := c.Revisions[0].From
	if limit <= 0 || from > oldest {
		return nil, nil
	}
	look := historyMax
	if from == 0 {
		look = min(look, beforeLook*limit)
	}
	schedule, err := c.Now().Spec.Parse(c.Name)
	if err != nil {
		return nil, err
	}
	times, err := lastTimes(ctx, schedule, from.Time(), min(to, oldest).Time().Add(time.Microsecond), look)
	if err != nil {
		return nil, err
	}
	nominals := make([]task.Instant, len(times))
	for i, at := range times {
		nominals[i] = task.InstantOf(at)
	}
	rows, err := s.backfills(ctx, c, nominals)
	for i := range rows {
		if !rows[i].ID.IsZero() && len(all) < limit {
			all = append(all, s.backfill(&rows[i]))
		}
	}
	return all, err
}

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
