package cron

import (
	"context"
	"math"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// lookAtMost is how many nominal times are looked up at once.
const lookAtMost = 1000

// The outcomes of a nominal time.
const (
	ran       = "ran"
	runs      = "runs"
	waits     = "waits"
	skipped   = "skipped"
	missed    = "missed"
	forgotten = "forgotten"
)

const missedReason = "nothing could run it in time (no server ran, its lambda was held back, or the cron was paused), and the catch-up policy did not want it later"

// row is what is stored of an occurrence; its ID is zero if that is nothing.
type row struct {
	task.Task
	nominal

	onlyWaits bool // it has no task row
}

// rows reads the tasks of occurrences. A task row is the truth where there is one. A task moves from its
// wake-up row to its task row and never back, so that a second look at the task row misses nothing.
func (s *Service) rows(ctx context.Context, c *Cron, l *catalog.Entry, of []nominal) ([]row, error) {
	rows, keys := make([]row, len(of)), make([]store.WakeKey, len(of))
	for i, n := range of {
		rows[i].nominal = n
		keys[i] = s.FirstRow(c, l, n.revision, n.at, n.due)
	}
	readTasks := func(absent []int) error {
		ids := make([]task.ID, len(absent))
		for k, i := range absent {
			ids[k] = keys[i].ID
		}
		found, err := s.Store.Tasks(ctx, ids)
		for k := range found {
			rows[absent[k]].Task = found[k]
		}
		return err
	}
	all := make([]int, len(of))
	for i := range all {
		all[i] = i
	}
	if err := readTasks(all); err != nil || len(absentOf(rows)) == 0 {
		return rows, err
	}
	absent := absentOf(rows)
	wanted := make([]store.WakeKey, len(absent))
	for k, i := range absent {
		wanted[k] = keys[i]
	}
	found, err := s.Store.Wakeups(ctx, wanted)
	if err != nil {
		return nil, err
	}
	for k := range found {
		if !found[k].ID.IsZero() {
			rows[absent[k]].Task, rows[absent[k]].onlyWaits = found[k], true
		}
	}
	if absent = absentOf(rows); len(absent) == 0 {
		return rows, nil
	}
	return rows, readTasks(absent)
}

func absentOf(rows []row) (absent []int) {
	for i := range rows {
		if rows[i].ID.IsZero() {
			absent = append(absent, i)
		}
	}
	return absent
}

// outcomes says what became of nominal times, by their rows, among which may be a later one.
func (s *Service) outcomes(of []nominal, rows []row, l *catalog.Entry, now task.Instant) []*kinesinv1.CronOccurrence {
	later := len(rows) > len(of) && !rows[0].ID.IsZero() // whether there is a row of a later occurrence
	rows = rows[len(rows)-len(of):]
	var waitsFrom task.Instant // the newest of those that were not decided
	for i := range rows {
		if rows[i].onlyWaits {
			waitsFrom = rows[i].at
			break
		}
	}
	all := make([]*kinesinv1.CronOccurrence, len(of))
	for i := range rows {
		r := &rows[i]
		o := &kinesinv1.CronOccurrence{Nominal: int64(r.at), Revision: r.revision.Number}
		all[i] = o
		if !r.ID.IsZero() {
			later = true
			s.describe(o, r)
			continue
		}
		switch {
		case r.at < now.Add(-l.Retention):
			o.Outcome = forgotten
		case !later && waitsFrom > 0:
			o.Outcome = waits // until the one before it is decided
		default:
			o.Outcome, o.Reason = missed, missedReason
		}
	}
	passedOver(all)
	return all
}

// passedOver gives nominal times without a task the reason of the one before them, which passed them over.
func passedOver(newestFirst []*kinesinv1.CronOccurrence) {
	for i := len(newestFirst) - 2; i >= 0; i-- {
		o, before := newestFirst[i], newestFirst[i+1]
		if o.Outcome != missed || o.Revision != before.Revision {
			continue
		}
		switch {
		case strings.HasPrefix(before.Reason, LaterWaited):
			o.Outcome, o.Reason = skipped, before.Reason
		case strings.HasPrefix(before.Reason, TimeMissed):
			o.Reason = before.Reason
		}
	}
}

// describe says what became of an occurrence that has a row.
func (s *Service) describe(o *kinesinv1.CronOccurrence, r *row) {
	t := &r.Task
	o.Id, o.State = s.PublicID(t), t.State.String()
	if !t.FirstStarted.IsZero() {
		o.Late = int64(max(t.FirstStarted-r.due, 1))
	}
	last := ""
	if n := len(t.History); n > 0 {
		last = t.History[n-1].Error
	}
	switch {
	case t.State == task.Dropped && t.Attempt == 0:
		o.Outcome, o.Reason = skipped, last
	case t.State.IsEnd() && t.Attempt == 0:
		o.Outcome, o.Reason = skipped, "it ended as "+t.State.String()+" before it started"
	case t.State.IsEnd():
		o.Outcome = ran
	case t.Attempt > 0:
		o.Outcome = runs
	default:
		o.Outcome = waits
	}
}

// noteWaiting corrects what is said of nominal times that have no row: those wait of which the cron has not
// decided. Each revision decides about its own, however far a later one is. rowless says that those of a
// revision without any row wait, too.
func (s *Service) noteWaiting(ctx context.Context, c *Cron, l *catalog.Entry, outcomes []*kinesinv1.CronOccurrence, now task.Instant, rowless bool) error {
	for _, of := range charges(c) {
		decided := task.Instant(-1) // not known yet
		for _, o := range outcomes {
			if o.Outcome != missed || o.Revision != of.revision.Number {
				continue
			}
			if decided < 0 {
				var err error
				if decided, err = s.decided(ctx, c, l, of, now); err != nil {
					return err
				}
			}
			if task.Instant(o.Nominal) >= decided && (decided > 0 || rowless) {
				o.Outcome, o.Reason = waits, ""
			}
		}
	}
	return nil
}

// decided returns a nominal time before which a revision has decided about all: that of its newest row, among
// the next one to come and the last lookAtMost ones, or the end of all times if it has decided about that one
// too, since the next row is there before. 0: there is no row.
func (s *Service) decided(ctx context.Context, c *Cron, l *catalog.Entry, of charge, now task.Instant) (task.Instant, error) {
	for _, limit := range []int{1, lookAtMost} {
		last, err := lastOf(ctx, c, []charge{of}, 0, now, limit)
		if err != nil {
			return 0, err
		}
		rows, err := s.rows(ctx, c, l, append(nextIn(c, []charge{of}, now, 1), last...))
		if err != nil {
			return 0, err
		}
		for i := range rows {
			switch {
			case rows[i].onlyWaits:
				return rows[i].at, nil
			case !rows[i].ID.IsZero():
				return math.MaxInt64, nil
			}
		}
	}
	return 0, nil
}

// backfills reads the tasks with which backfills made up for nominal times.
func (s *Service) backfills(ctx context.Context, c *Cron, of []task.Instant) ([]task.Task, error) {
	ids := make([]task.ID, len(of))
	for i, at := range of {
		ids[i] = task.BackfillID(c.Ref, c.Name, c.Created, at)
	}
	return s.Store.Tasks(ctx, ids)
}
