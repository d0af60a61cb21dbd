package job

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// stepTriesMax is how often in a row a step of a job may fail before the job fails: for about ten
	// minutes.
	stepTriesMax = 70
	// saveWithin bounds how long a server that stops takes to give up its jobs.
	saveWithin = 2 * time.Second
)

// work does the next step of a job, unless it is too soon for the job's pace, and renews its lease.
func (s *Service) work(ctx context.Context, _ string, j *job, _ []struct{}) (next time.Duration, err error) {
	if now := clock.Steady(s.Clock); s.has(j) {
		if now >= j.paced {
			err = s.goOn(ctx, j, now)
		}
		if ctx.Err() != nil {
			return 0, err
		}
		if err = errors.Join(err, s.save(ctx, j)); err != nil {
			return 0, err
		}
	}
	if s.has(j) {
		return min(max(0, j.paced.Sub(clock.Steady(s.Clock))), napMax), nil
	}
	j.awaitAhead()
	return control.Done, nil
}

// has reports whether a job is to run, on this server.
func (s *Service) has(j *job) bool { return j.State == stateRunning && j.Owner == s.process }

// goOn does a step of a job, and notes what became of it.
func (s *Service) goOn(ctx context.Context, j *job, began task.Instant) error {
	done, err := s.tracedStep(ctx, j)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		j.failures = 0
		s.note(ctx, j, &done)
		if j.Pace > 0 {
			j.paced = began.Add(time.Duration(len(done.changed)) * time.Second / time.Duration(j.Pace))
		}
	default:
		j.failures++
		j.Problem = refusal.Problem(err).GetText()
		if !isForNow(err) || j.failures >= stepTriesMax {
			j.State, j.Ended = stateFailed, s.Clock.Now()
		}
	}
	return err
}

// tracedStep is step with the span of it.
func (s *Service) tracedStep(ctx context.Context, j *job) (done step, err error) {
	if s.Step == nil {
		return s.step(ctx, j)
	}
	ctx, end := s.Step(ctx, j.ID, j.Action, j.Traceparent)
	done, err = s.step(ctx, j)
	end(len(done.changed), err)
	return done, err
}

// step changes the next tasks of a job. Grants that its maker lost since the last step are lost for this one.
func (s *Service) step(ctx context.Context, j *job) (done step, err error) {
	if err := s.authorize(ctx, j); err != nil {
		return done, err
	}
	switch {
	case j.Backfill != nil:
		return s.over(ctx, j, s.Backfills, string(j.Backfill))
	case j.Group != "":
		return s.over(ctx, j, s.Members, j.Group)
	case j.Plan != nil && !j.Plan.Listed:
		return s.list(ctx, j)
	case j.Plan != nil:
		return s.workOff(ctx, j)
	}
	of, err := j.selection()
	if err != nil {
		return done, err
	}
	page, err := s.page(ctx, j, of)
	if err != nil {
		return done, refusal.Wire(err)
	}
	now := s.Clock.Now()
	rows := slices.DeleteFunc(page.Rows, func(r inbound.Row) bool { return j.hasMoved(&r.Task, now) })
	done = step{examined: page.Seen, matched: len(rows), position: page.Next, isLast: len(page.Next) == 0}
	if len(rows) == 0 {
		return done, nil
	}
	done.idOf = func(i int) string { return s.Tasks.PublicID(&rows[i]) }
	done.changed = s.actAgain(ctx, j, rows, j.to)
	return done, nil
}

// note adds what a step did to its job.
func (s *Service) note(ctx context.Context, j *job, done *step) {
	var refused []refusedID
	outcomes := map[string]int64{}
	for i, c := range done.changed {
		if c.Err == nil {
			outcomes[c.Outcome]++
			continue
		}
		p := refusal.Problem(c.Err)
		outcomes[reasonText(p.GetReason())]++
		refused = append(refused, refusedID{ID: done.idOf(i), Text: p.GetText()})
	}
	if len(refused) > 0 {
		if err := s.noteRefused(ctx, j.ID, refused); err != nil {
			s.Log.WarnContext(ctx, "refused ids of a job were not noted", slog.String("job", j.ID), slog.Any("error", err))
		}
	}
	for outcome, n := range outcomes {
		j.Outcomes[outcome] += n
	}
	j.Matched, j.Examined = j.Matched+int64(done.matched), j.Examined+int64(done.examined)
	j.Position, j.Problem = done.position, ""
	if done.plan != nil {
		j.Plan = done.plan
	}
	if done.isLast {
		j.State, j.Ended = stateDone, s.Clock.Now()
	}
}

func reasonText(reason api.Reason) string {
	return strings.ToLower(strings.TrimPrefix(reason.String(), "REASON_"))
}

// save stores how far a job has come and renews its lease. If somebody else changed the row, what a user
// wants of the job is taken from it; if another server has the job, that one goes on.
func (s *Service) save(ctx context.Context, j *job) error {
	isFresh, isOther := false, false
	stored, err := s.jobs.ChangeFrom(ctx, *j, func(row *job) (control.Do, error) {
		if isFresh {
			if isOther = row.Owner != s.process; isOther {
				return control.Keep, nil
			}
			if !j.hasEnded() {
				j.State, j.Ended, j.Grants = row.State, row.Ended, row.Grants
			}
			meta := row.Meta
			*row = *j
			row.Meta = meta
		}
		isFresh, row.Until = true, s.Clock.Now().Add(leaseFor)
		if row.State != stateRunning {
			row.Owner = ""
		}
		return control.Store, nil
	})
	switch {
	case isOther || errors.Is(err, store.ErrNotFound):
		j.Owner, j.State = "", statePaused // not in the store: only this process lets go of it
		return nil
	case err == nil:
		*j = *stored
	}
	return err
}

// leave gives up the jobs that ran when this server stops, so that others go on with them at once.
func (s *Service) leave(ctx context.Context) {
	ctx, cancel := clock.Within(ctx, s.Clock, saveWithin)
	defer cancel()
	for id, j := range s.running.Kept() {
		if j.awaitAhead(); j.Owner != s.process {
			continue
		}
		j.Owner, j.Until = "", 0
		if err := s.jobs.Put(ctx, j); err != nil && !errors.Is(err, store.ErrConflict) {
			s.Log.WarnContext(ctx, "a job was not given up; another server takes it when its lease is over", slog.String("job", id), slog.Any("error", err))
		}
	}
}

// page returns the page of a job's set at its position, and begins to read the next one. A job with a pace
// has time, and reads each page when it is needed.
func (s *Service) page(ctx context.Context, j *job, of *inbound.Selection) (inbound.Page, error) {
	page, err := s.awaitPage(ctx, j, of)
	if err != nil || j.Pace != 0 || len(page.Next) == 0 {
		return page, err
	}
	next := &pageAhead{position: page.Next, may: j.may, read: make(chan pageRead, 1)}
	go func() {
		page, err := s.Tasks.Page(ctx, of, next.position, batchTasksMax)
		next.read <- pageRead{page, err}
	}()
	j.ahead = next
	return page, nil
}

// awaitPage returns the page that was read ahead, if it is the one at the job's position and may still be
// read.
func (s *Service) awaitPage(ctx context.Context, j *job, of *inbound.Selection) (inbound.Page, error) {
	if a, read := j.awaitAhead(); a != nil && bytes.Equal(a.position, j.Position) && slices.Equal(a.may, j.may) {
		return read.Page, read.err
	}
	return s.Tasks.Page(ctx, of, j.Position, j.batch())
}

// awaitAhead waits for the page that is read ahead, if there is one.
func (j *job) awaitAhead() (a *pageAhead, read pageRead) {
	if a, j.ahead = j.ahead, nil; a != nil {
		read = <-a.read
	}
	return a, read
}

// Run runs jobs until ctx ends: those that are made here, and those that no living server runs.
func (s *Service) Run(ctx context.Context) error {
	defer s.leave(context.WithoutCancel(ctx))
	return s.running.Run(ctx)
}

// takeUp looks at all jobs that have not ended, and starts those that nobody runs.
func (s *Service) takeUp(ctx context.Context) error {
	jobs, err := s.jobs.All(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(jobs, func(a, b *job) int { return cmp.Compare(a.Created, b.Created) })
	var errs []error
	running := s.running.Kept()
	for _, j := range jobs {
		switch {
		case running[j.ID] != nil:
			if j.State != stateRunning || j.Owner != s.process {
				s.running.Keep(j.ID, *j, 0, struct{}{})
			}
		case j.hasEnded():
			errs = append(errs, s.bury(ctx, j))
		case j.State == stateRunning && len(running) < RunningMax && s.isFree(j):
			if j.Owner, j.Until = s.process, s.Clock.Now().Add(leaseFor); s.jobs.Put(ctx, j) == nil { // else another server was faster
				s.running.Keep(j.ID, *j, 0)
				running[j.ID] = j
			}
		}
	}
	now := clock.Steady(s.Clock)
	if err := errors.Join(errs...); err != nil || !s.tidied.IsZero() && now < s.tidied.Add(tidyEvery) {
		return err
	}
	s.tidied = now
	return s.tidy(ctx)
}

// isFree reports whether no living server runs a job.
func (s *Service) isFree(j *job) bool {
	return j.Owner == "" || j.Owner == s.process || !s.Shared || s.Clock.Now() >= j.Until.Add(task.ClockBound)
}

// bury moves a job that has ended out of the way of those that have not.
func (s *Service) bury(ctx context.Context, j *job) error {
	if err := s.forgetPlan(ctx, j); err != nil {
		return err
	}
	ended := *j
	ended.Position, ended.Plan, ended.Owner, ended.Until = nil, nil, "", 0
	first, err := s.jobs.Bury(ctx, &ended)
	if first && s.Ended != nil {
		s.Ended(ctx, ended.wire())
	}
	return err
}

// tidy deletes jobs that ended long ago, and the oldest if there are too many.
func (s *Service) tidy(ctx context.Context) error {
	return s.jobs.Forget(ctx, control.Forget[job]{
		Until: func(j *job) task.Instant { return j.Ended.Add(KeptFor) }, Max: KeptMax,
		First: func(ctx context.Context, j *job) error {
			if r, err := s.refusals.Find(ctx, j.ID); err == nil {
				_ = s.refusals.Delete(ctx, r) // if it fails, an unused row stays
			}
			return nil
		},
	})
}
