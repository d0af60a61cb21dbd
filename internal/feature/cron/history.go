package cron

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
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
