package periodic

import (
	"context"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/crons"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	historyMax     = 1000
	historyDefault = 20
)

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

// CronHistory returns what became of nominal times that have passed, newest first. It reads their tasks by
// the ids that follow from them.
func (s *Service) CronHistory(ctx context.Context, r *kinesinv1.CronHistoryRequest) (_ *kinesinv1.CronHistoryResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	now := s.Clock.Now()
	from, to, limit := task.Instant(r.FromMicros), task.Instant(r.ToMicros), int(r.Limit)
	if limit == 0 {
		limit = historyDefault
	}
	if to == 0 || to > now {
		to = now
	}
	switch {
	case limit > historyMax:
		return nil, refusal.Invalid("limit %d: want 1 to %d, or 0 for %d", limit, historyMax, historyDefault)
	case r.FromMicros < 0 || r.ToMicros < 0:
		return nil, refusal.Invalid("from or to is before 1970: want microseconds since then, or 0")
	case r.ToMicros != 0 && r.FromMicros > r.ToMicros:
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
			response.Occurrences = append(response.Occurrences, &kinesinv1.CronOccurrence{NominalMicros: int64(n.at), Revision: n.revision.Number, Outcome: forgotten})
		}
		return response, nil
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
	response.Occurrences = append(response.Occurrences, before...)
	return response, err
}

// row is what is stored of an occurrence; its ID is zero if that is nothing.
type row struct {
	task.Task
	nominal

	onlyWaits bool // it has no task row
}

// rows reads the tasks of occurrences. A task row is the truth where there is one. A task moves from its
// wake-up row to its task row and never back, so that a second look at the task row misses nothing.
func (s *Service) rows(ctx context.Context, c *crons.Cron, l *catalog.Entry, of []nominal) ([]row, error) {
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
		o := &kinesinv1.CronOccurrence{NominalMicros: int64(r.at), Revision: r.revision.Number}
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
		case strings.HasPrefix(before.Reason, crons.LaterWaited):
			o.Outcome, o.Reason = skipped, before.Reason
		case strings.HasPrefix(before.Reason, crons.TimeMissed):
			o.Reason = before.Reason
		}
	}
}

// notePause gives the reason of nominal times that a pause skips, from its begin on.
func notePause(c *crons.Cron, history []*kinesinv1.CronOccurrence) {
	p := c.Now().Pause
	if p == nil {
		return
	}
	for _, o := range history {
		if o.Id == "" && o.Outcome != forgotten && o.NominalMicros > int64(p.At) {
			o.Outcome, o.Reason = skipped, "the cron is paused: "+p.Reason
		}
	}
}

// describe says what became of an occurrence that has a row.
func (s *Service) describe(o *kinesinv1.CronOccurrence, r *row) {
	t := &r.Task
	o.Id, o.State = s.PublicID(t), t.State.String()
	if !t.FirstStarted.IsZero() {
		o.LateMicros = int64(max(t.FirstStarted-r.due, 1))
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

// RunCron schedules a task as the cron would, now.
func (s *Service) RunCron(ctx context.Context, r *kinesinv1.RunCronRequest) (_ *kinesinv1.RunCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	c, err := s.find(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	l, err := s.lambdaOf(ctx, c)
	if err != nil {
		return nil, err
	}
	spec := &c.Now().Spec
	schedule, err := spec.Parse(c.Name)
	if err != nil {
		return nil, err
	}
	at := s.Clock.Now()
	if len(r.RequestId) == len(task.ID{}) {
		if made, known := task.ID(r.RequestId).Made(); known {
			at = made // the same in a call that is made again
		}
	}
	response, err := s.Tasks.Schedule(ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{{
		Lambda: l.Name, Priority: spec.Priority, Collection: spec.Collection, Tags: spec.Tags,
		Payload: crons.PayloadAt(spec.Payload, at, schedule.Zone()), RequestId: r.RequestId,
	}}})
	if err != nil {
		return nil, err
	}
	result := response.Results[0]
	if result.Problem != nil {
		return nil, api.ErrorOf(result.Problem)
	}
	return &kinesinv1.RunCronResponse{Id: result.Id}, nil
}
