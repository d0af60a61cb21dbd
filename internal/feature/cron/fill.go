package cron

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// backfillMax is how many occurrences a backfill may schedule that does not say all, and backfillAllMax
	// one that does. To count so many takes a minute at the most.
	backfillMax    = 100_000
	backfillAllMax = 20_000_000
	// backfillLookMax is up to how many nominal times a dry run looks up what became of each.
	backfillLookMax = 10_000
	backfillSample  = 10
	// backfillPaceMax is the highest pace, in tasks per second.
	backfillPaceMax = 1_000_000
	// countCheckEvery is after how many nominal times a count looks whether the caller is gone.
	countCheckEvery = 10_000
	// forgottenMax is how many revisions a backfill tries that the cron does not remember.
	forgottenMax = 16
)

// The outcomes of a nominal time in a backfill, besides those of a history that it leaves alone.
const (
	scheduled  = "scheduled"  // by this backfill
	backfilled = "backfilled" // by an earlier one
	paused     = "paused"     // the cron is, and its catch-up decides when it is resumed
)

// BackfillCron starts a job that schedules the occurrences of a past range, or counts them.
func (s *Service) BackfillCron(ctx context.Context, r *kinesinv1.BackfillCronRequest) (_ *kinesinv1.BackfillCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	now, from, to := s.Clock.Now(), task.Instant(r.From), task.Instant(r.To)
	switch {
	case from <= 0 || to <= 0:
		return nil, refusal.Invalid("from or to is missing or before 1970: want the range of nominal times, from the first one on and before the other")
	case from >= to:
		return nil, refusal.Invalid("from %s is not before to %s: want an earlier one", utc(from), utc(to))
	case to > now.Add(task.ClockBound):
		return nil, refusal.Invalid("to %s is not past: want a time until now, %s; the cron itself schedules what is to come", utc(to), utc(now))
	case r.Pace > backfillPaceMax:
		return nil, refusal.Invalid("pace %d: want 1 to %d tasks per second, or 0 for no limit", r.Pace, backfillPaceMax)
	}
	c, err := s.find(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	if _, err := s.lambdaOf(ctx, c); err != nil {
		return nil, err
	}
	b, err := NewBackfill(c, from, to)
	if err != nil {
		return nil, err
	}
	count, sample, err := s.count(ctx, c, b)
	switch {
	case err != nil:
		return nil, err
	case count > backfillAllMax:
		return nil, refusal.Invalid("there are more than %d nominal times of cron %s from %s until %s: want a shorter range", backfillAllMax, c.Name, utc(from), utc(to))
	case r.DryRun:
		job, err := s.dryRun(ctx, c, b, count, sample)
		return &kinesinv1.BackfillCronResponse{Job: job}, err
	case count > backfillMax && !r.All:
		return nil, refusal.Invalid("there are %d nominal times of cron %s from %s until %s, and a backfill of more than %d has to say so: set all (--all) if that is meant, or want a shorter range",
			count, c.Name, utc(from), utc(to), backfillMax)
	}
	of, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	job, err := s.Jobs.CreateBackfill(ctx, string(of), c.Lambda, r)
	return &kinesinv1.BackfillCronResponse{Job: job}, err
}

func utc(i task.Instant) string { return i.Time().UTC().Format(time.RFC3339) }

// count returns how many nominal times a backfill has, or one more than backfillAllMax if they are more, and
// the first ones.
func (s *Service) count(ctx context.Context, c *Cron, b *Backfill) (n int64, sample []int64, err error) {
	select {
	case s.counting <- struct{}{}:
		defer func() { <-s.counting }()
	case <-ctx.Done():
		return 0, nil, ctx.Err() //nolint:wrapcheck // the caller's own
	}
	schedule, err := c.Now().Spec.Parse(c.Name)
	if err != nil {
		return 0, nil, err
	}
	to := b.To.Time()
	for at, ok := schedule.Next((b.From - 1).Time()); ok && at.Before(to) && n <= backfillAllMax; at, ok = schedule.Next(at) {
		if n++; n <= backfillSample {
			sample = append(sample, int64(task.InstantOf(at)))
		}
		if n%countCheckEvery == 0 && ctx.Err() != nil {
			return 0, nil, ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
	return n, sample, nil
}

// dryRun says what a backfill would do: with each nominal time if they are few, else how many there are.
func (s *Service) dryRun(ctx context.Context, c *Cron, b *Backfill, count int64, sample []int64) (*kinesinv1.Job, error) {
	job := &kinesinv1.Job{
		Action: "backfill", State: "counted", Matched: count, MatchedExact: true, Created: int64(s.Clock.Now()), CreatedBy: access.From(ctx).Name,
		Backfill: &kinesinv1.Backfill{Cron: c.Name, From: int64(b.From), To: int64(b.To), Sample: sample},
		Outcomes: map[string]int64{},
	}
	if count > backfillLookMax {
		job.Cost = fmt.Sprintf("schedules at most %d tasks; what became of more than %d nominal times is not looked up", count, backfillLookMax)
		if count > backfillMax {
			job.Cost += fmt.Sprintf("; more than %d are refused without all (--all)", backfillMax)
		}
		return job, nil
	}
	for after, more := b.From-1, true; more; {
		nominals, filled, err := s.nextFill(ctx, c, b, after, lookAtMost)
		if err != nil {
			return nil, err
		}
		for _, outcome := range filled.Outcomes {
			job.Outcomes[outcome]++
		}
		job.Examined += int64(len(nominals))
		after, more = filled.Last, !filled.IsLast
	}
	job.Cost = fmt.Sprintf("schedules %d tasks", job.Outcomes[scheduled])
	return job, nil
}

// Range is the inbound.Range of backfills. The position is the nominal time that one has come to.
func (s *Service) Range(ctx context.Context, of string, position []byte, limit int) (inbound.Part, error) {
	var b Backfill
	if err := json.Unmarshal([]byte(of), &b); err != nil {
		return inbound.Part{}, fmt.Errorf("%w: backfill: %w", store.ErrCorrupt, err)
	}
	var after task.Instant
	if len(position) == 8 {
		after = task.Instant(binary.BigEndian.Uint64(position))
	}
	filled, err := s.Fill(ctx, &b, after, limit)
	return inbound.Part{
		Outcomes: filled.Outcomes, Examined: len(filled.Outcomes), Next: binary.BigEndian.AppendUint64(nil, uint64(filled.Last)), IsLast: filled.IsLast,
	}, err
}

// Fill schedules the next occurrences of a backfill, at most limit, after a nominal time. It leaves alone
// what it did before.
func (s *Service) Fill(ctx context.Context, b *Backfill, after task.Instant, limit int) (Filled, error) {
	c, err := s.find(ctx, b.Cron)
	if err != nil {
		return Filled{}, refusal.Wire(err)
	}
	if err := b.CheckSame(c); err != nil {
		return Filled{}, refusal.Wire(err)
	}
	if by := access.From(ctx); !by.Grants.Allow(access.Operate, c.Lambda) || !by.Grants.AllowIn(access.Schedule, c.Lambda, c.Now().Spec.Collection) {
		return Filled{}, api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "%s may not operate lambda %s and schedule tasks in the collection of cron %s any more", by.Name, c.Lambda, c.Name)
	}
	nominals, filled, err := s.nextFill(ctx, c, b, max(after, b.From-1), min(limit, lookAtMost))
	if err != nil {
		return Filled{}, refusal.Wire(err)
	}
	var wanted []task.Instant
	for i, outcome := range filled.Outcomes {
		if outcome == scheduled {
			wanted = append(wanted, nominals[i])
		}
	}
	if len(wanted) > 0 {
		err = s.Keeper.PutBackfill(ctx, c, wanted)
	}
	return filled, refusal.Wire(err)
}

// nextFill returns the next nominal times of a backfill, and what is to become of each.
func (s *Service) nextFill(ctx context.Context, c *Cron, b *Backfill, after task.Instant, limit int) (nominals []task.Instant, filled Filled, err error) {
	l, err := s.lambdaOf(ctx, c)
	if err != nil {
		return nil, filled, err
	}
	schedule, err := c.Now().Spec.Parse(c.Name)
	if err != nil {
		return nil, filled, err
	}
	times := schedule.Between((after + 1).Time(), b.To.Time(), limit)
	nominals = make([]task.Instant, len(times))
	for i, at := range times {
		nominals[i] = task.InstantOf(at)
	}
	filled = Filled{Outcomes: make([]string, len(nominals)), Last: after, IsLast: len(nominals) < limit}
	if len(nominals) == 0 {
		return nil, filled, nil
	}
	filled.Last = nominals[len(nominals)-1]
	return nominals, filled, s.plan(ctx, c, l, nominals, filled.Outcomes)
}

// plan says what is to become of nominal times: they are scheduled, unless their occurrence ran, runs, or may
// run yet, or an earlier backfill made up for it.
func (s *Service) plan(ctx context.Context, c *Cron, l *catalog.Entry, nominals []task.Instant, outcomes []string) error {
	byCron, err := s.byCron(ctx, c, l, nominals)
	if err != nil {
		return err
	}
	earlier, err := s.backfills(ctx, c, nominals)
	if err != nil {
		return err
	}
	ranBefore, err := s.ranUnremembered(ctx, c, nominals)
	if err != nil {
		return err
	}
	pause := c.Now().Pause
	for i, at := range nominals {
		switch {
		case !earlier[i].ID.IsZero():
			outcomes[i] = backfilled
		case pause != nil && at > c.Now().From:
			outcomes[i] = paused
		case ranBefore[at]:
			outcomes[i] = ran
		case slices.Contains([]string{ran, runs, waits}, byCron[at]):
			outcomes[i] = byCron[at]
		default:
			outcomes[i] = scheduled
		}
	}
	return nil
}

// byCron returns what became of those of some nominal times for which a revision is in charge that the cron
// remembers.
func (s *Service) byCron(ctx context.Context, c *Cron, l *catalog.Entry, of []task.Instant) (map[task.Instant]string, error) {
	now := s.Clock.Now()
	first, last := of[0], of[len(of)-1]
	wanted := make(map[task.Instant]bool, len(of))
	for _, at := range of {
		wanted[at] = true
	}
	var nominals []nominal // newest first
	for _, in := range charges(c) {
		schedule, err := in.revision.Spec.Parse(c.Name)
		if err != nil {
			return nil, err
		}
		from, through := max(first, in.after+1), min(last, in.through)
		if from > through {
			continue
		}
		// Those of another expression that are not wanted may be many. Each wanted one is asked for.
		var found []nominal
		for _, at := range of {
			if at < from || at > through {
				continue
			}
			if next, fires := schedule.Next((at - 1).Time()); fires && task.InstantOf(next) == at {
				found = append(found, nominalAt(schedule, in.revision, next))
			}
		}
		slices.Reverse(found)
		nominals = append(nominals, found...)
	}
	if len(nominals) == 0 {
		return map[task.Instant]string{}, nil
	}
	rows, err := s.rows(ctx, c, l, nominals)
	if err != nil {
		return nil, err
	}
	outcomes := s.outcomes(nominals, rows, l, now)
	if err := s.noteWaiting(ctx, c, l, outcomes, now, true); err != nil {
		return nil, err
	}
	all := make(map[task.Instant]string, len(nominals))
	for i, o := range outcomes {
		all[nominals[i].at] = o.Outcome
	}
	return all, nil
}

// ranUnremembered returns those of some nominal times whose occurrence ran under a revision that the cron
// does not remember any more, of the last such revisions.
func (s *Service) ranUnremembered(ctx context.Context, c *Cron, of []task.Instant) (map[task.Instant]bool, error) {
	all := map[task.Instant]bool{}
	oldest := &c.Revisions[0]
	var old []task.Instant
	for _, at := range of {
		if at > c.Created && at <= oldest.From {
			old = append(old, at)
		}
	}
	for n := oldest.Number - 1; len(old) > 0 && n > 0 && n+forgottenMax >= oldest.Number; n-- {
		ids := make([]task.ID, len(old))
		for i, at := range old {
			ids[i] = task.OccurrenceID(c.Ref, c.Name, c.Created, task.Firing{Revision: n, Nominal: at})
		}
		rows, err := s.Store.Tasks(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if t := &rows[i]; !t.ID.IsZero() && (!t.State.IsEnd() || t.Attempt > 0) {
				all[old[i]] = true
			}
		}
	}
	return all, nil
}

// Backfill says which occurrences a job schedules: those of a cron with nominal times from From on and before
// To. It is also the stored form.
type Backfill struct {
	Cron string       `json:"cron"`
	Life task.Instant `json:"life"` // when the cron was created
	Spec []byte       `json:"spec"` // sum of its settings
	From task.Instant `json:"from"`
	To   task.Instant `json:"to"`
}

// Filled says what a backfill did with some nominal times.
type Filled struct {
	Outcomes []string     // of each
	Last     task.Instant // the last one of them
	IsLast   bool         // there are no more
}

// NewBackfill returns a backfill of a cron as it is now.
func NewBackfill(c *Cron, from, to task.Instant) (*Backfill, error) {
	sum, err := c.Now().Spec.sum()
	return &Backfill{Cron: c.Name, Life: c.Created, Spec: sum, From: from, To: to}, err
}

// CheckSame refuses a cron that is not as it was when the backfill began: its nominal times may be others.
func (b *Backfill) CheckSame(c *Cron) error {
	sum, err := c.Now().Spec.sum()
	switch {
	case err != nil:
		return err
	case b.Life != c.Created:
		return fmt.Errorf("%w backfill: cron %s was deleted and created again since", task.ErrInvalid, c.Name)
	case !bytes.Equal(b.Spec, sum):
		return fmt.Errorf("%w backfill: the settings of cron %s were changed since; begin another one, which leaves out what this one has scheduled", task.ErrInvalid, c.Name)
	}
	return nil
}

func (s *Spec) sum() ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the settings of a cron: %w", err)
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// PutBackfill puts occurrences for nominal times that have passed, by the newest revision and due now, unless
// they are there. Each has a task row from the beginning: its wake-up row is where the present time is, and
// another backfill would put one elsewhere.
func (f *Firing) PutBackfill(ctx context.Context, c *Cron, nominals []task.Instant) error {
	r := c.Now()
	s, err := r.Spec.Parse(c.Name)
	if err != nil {
		return err
	}
	all := make([]built, len(nominals))
	for i, at := range nominals {
		b, err := f.build(c, r, &task.Occurrence{Cron: c.Name, Life: c.Created, At: task.Firing{Revision: r.Number, Nominal: at}, Backfill: true}, s)
		if err != nil {
			return err
		}
		l, t := f.Lambda(c.Ref), b.task
		t.ID = task.BackfillID(c.Ref, c.Name, c.Created, at)
		t.Partition.Shard = partition.ShardOfKey(c.Name+"/"+strconv.FormatInt(int64(at), 10), l.ShardsFirst())
		t.Due = t.Created.CeilMillis() // the nominal time would put it before what is on time
		t.StartBefore = 0
		t.Wake = t.Due
		if l.StartWithin > 0 {
			t.StartBefore = t.Due.Add(l.StartWithin)
		}
		all[i] = b
	}
	return f.putBuilt(ctx, all, store.FirstWithRow)
}
