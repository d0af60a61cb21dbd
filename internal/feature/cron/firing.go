package cron

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// readsMax bounds the crons that are read at once.
	readsMax = 16
	// waitAgain is how soon an occurrence is decided that has to wait.
	waitAgain = time.Second
	// nominalText in a payload becomes the nominal time of the occurrence.
	nominalText = "{{nominal}}"
)

// FiringConfig is what a Firing is made of.
type FiringConfig struct {
	Store Store
	// Lambda returns a lambda; nil if it is not known.
	Lambda func(ref uint32) *task.Lambda
	// InlineMax is the largest payload that a row holds, in bytes.
	InlineMax int
	// Added tells the scheduler of a task that waits as a wake-up row.
	Added func(t *task.Task)
	// Cancel asks for the end of a task.
	Cancel func(ctx context.Context, t *task.Task)
	Clock  clock.Clock
	Log    *slog.Logger
	// Fired returns the traceparent of an occurrence that is put; made is that of the call that set the cron.
	// It may be nil.
	Fired func(t *task.Task, made string) string
}

// Firing decides about occurrences when their time comes, and puts the next ones. It is safe for concurrent
// use, by several processes too.
type Firing struct {
	FiringConfig

	crons *control.Book[Cron]
	todos *control.Book[todo]
}

// NewFiring returns a Firing.
func NewFiring(c FiringConfig) *Firing {
	return &Firing{c, NewBook(c.Store, c.Clock), control.NewBook(c.Store, todoAsRows, c.Clock)}
}

// Decide decides about occurrences that have no task row. When it returns, the row of the next one is stored.
// The rows of all next ones are put together: 100,000 crons may be due at one instant.
func (f *Firing) Decide(ctx context.Context, tasks []*task.Task) []task.Verdict {
	verdicts, next := make([]task.Verdict, len(tasks)), make([]built, len(tasks))
	var readers sync.WaitGroup
	for first := range min(readsMax, len(tasks)) {
		readers.Go(func() { // a goroutine for each cron would spend a quarter of its time on growing its stack
			for i := first; i < len(tasks); i += readsMax {
				verdicts[i], next[i] = f.decide(ctx, tasks[i])
			}
		})
	}
	readers.Wait()
	for i, err := range f.putEach(ctx, next, store.First) {
		if err != nil {
			verdicts[i] = task.Verdict{Err: err}
		}
	}
	return verdicts
}

// decide decides about an occurrence. It returns the next one, which is to be put before it is dispatched, if
// there is one.
func (f *Firing) decide(ctx context.Context, t *task.Task) (v task.Verdict, next built) {
	c, err := f.find(ctx, t)
	if err != nil {
		return task.Verdict{Err: err}, next
	}
	if c == nil {
		return task.Verdict{Skip: "the cron was deleted"}, next
	}
	if t.Occurrence.Backfill {
		return v, next // whoever put it has decided
	}
	known, before, ran, err := f.past(ctx, c, t.Partition, t.Occurrence)
	if err != nil {
		return task.Verdict{Err: err}, next
	}
	now := f.Clock.Now()
	d, err := c.Decide(&known, t.Due, &before, &ran, now)
	if err != nil {
		return task.Verdict{Err: err}, next
	}
	if d.Pause > 0 {
		return f.pause(ctx, c, &d, now), next
	}
	m := remember(&known, &before, &ran)
	if d.Cancel {
		f.cancel(ctx, c, t, m.Ran)
	}
	if d.Fate == Wait {
		return task.Verdict{Again: now.Add(waitAgain)}, next
	}
	if d.Next != 0 {
		o := &task.Occurrence{
			Cron: c.Name, Life: c.Created, At: task.Firing{Revision: t.Occurrence.At.Revision, Nominal: d.Next},
			Before: t.Occurrence.At, Ran: m.Ran, Failed: m.Tally.Failed, Succeeded: m.Tally.Succeeded,
		}
		if next, err = f.of(c, o, d.schedule); err != nil {
			return task.Verdict{Err: err}, built{}
		}
	}
	return task.Verdict{Skip: d.Reason, Succeeded: m.Tally.add(m.past).Succeeded}, next
}

// find reads the cron of an occurrence; nil if it was deleted.
func (f *Firing) find(ctx context.Context, t *task.Task) (*Cron, error) {
	c, err := f.crons.Find(ctx, t.Occurrence.Cron)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, err
	case c.Created != t.Occurrence.Life || c.Ref != t.Partition.Lambda:
		return nil, nil //nolint:nilnil // it is another of the same name
	}
	return c, nil
}

// pause pauses a cron whose occurrences fail.
func (f *Firing) pause(ctx context.Context, c *Cron, d *Decision, now task.Instant) task.Verdict {
	err := c.PauseAt(Pause{Reason: d.Reason, At: now}, now)
	if err == nil {
		c.Updated, c.UpdatedBy = now, ""
		err = f.crons.Put(ctx, c)
	}
	if err != nil {
		return task.Verdict{Err: err}
	}
	f.Log.WarnContext(ctx, "cron paused", slog.String("cron", c.Name), slog.String("reason", d.Reason))
	return task.Verdict{Skip: "the cron is paused: " + d.Reason}
}

// past reads what became of the two occurrences that one names, and returns it with all that it knows of
// those before it.
func (f *Firing) past(ctx context.Context, c *Cron, p task.Partition, o *task.Occurrence) (known task.Occurrence, before, ran Past, err error) {
	known = *o
	row, err := f.row(ctx, c, p, o.Before)
	if err != nil {
		return known, before, ran, err
	}
	before = pastOf(&row, o.Before)
	isFirst := o.Before.Revision < o.At.Revision && o.At.Revision+revisionsMax > c.Now().Number // which bounds how far it goes back
	if isFirst && row.Occurrence != nil && !before.Undecided {
		if err := f.inherit(ctx, c, p, &known, row.Occurrence); err != nil {
			return known, before, ran, err
		}
	}
	row, err = f.row(ctx, c, p, known.Ran)
	return known, before, pastOf(&row, known.Ran), err
}

// inherit has the first occurrence of a revision know what the last one of the revision before knew: of one
// that has not ended, and which one succeeded. Failures are counted anew.
func (f *Firing) inherit(ctx context.Context, c *Cron, p task.Partition, first, last *task.Occurrence) error {
	known, before, ran, err := f.past(ctx, c, p, last)
	if err != nil {
		return err
	}
	m := remember(&known, &before, &ran)
	if m.past.Live {
		first.Ran = m.Ran
	}
	first.Succeeded = m.Tally.add(m.past).Succeeded
	return nil
}

// pastOf returns what a row, which may be none, says became of an occurrence.
func pastOf(row *task.Task, at task.Firing) Past {
	p := Past{Nominal: at.Nominal}
	switch {
	case row.ID.IsZero():
	case row.State == task.Dropped && row.FirstStarted.IsZero() && row.Attempt == 0:
		p.Skipped, p.Ended = true, row.Ended
	case row.State.IsEnd():
		p.Succeeded, p.Ended = row.State == task.Success || row.State == task.Delivered, row.Ended
		p.Failed = row.State == task.FatalFailure || row.State == task.Dead
	case row.State == task.Scheduled && row.Attempt == 0 && row.Seq == row.WakeRow.Seq:
		p.Undecided = true
	default:
		p.Live, p.Started = true, row.State.IsRunning() || !row.FirstStarted.IsZero()
	}
	return p
}

// row reads the row of an occurrence: its task row or, if there is none, its wake-up row; a zero ID if there
// is neither.
func (f *Firing) row(ctx context.Context, c *Cron, p task.Partition, at task.Firing) (task.Task, error) {
	if at.IsZero() {
		return task.Task{}, nil
	}
	id := task.OccurrenceID(c.Ref, c.Name, c.Created, at)
	rows, err := f.Store.Tasks(ctx, []task.ID{id})
	if err != nil || !rows[0].ID.IsZero() {
		return first(rows), err
	}
	for i := range c.Revisions {
		if r := &c.Revisions[i]; r.Number == at.Revision {
			s, err := r.Spec.Parse(c.Name)
			if err != nil {
				return task.Task{}, err
			}
			p.Priority = r.Spec.Class // of its own revision
			due := task.InstantOf(s.Due(at.Nominal.Time()))
			rows, err = f.Store.Wakeups(ctx, []store.WakeKey{{Partition: p, Wake: due, ID: id}})
			return first(rows), err
		}
	}
	return task.Task{}, nil
}

func first(rows []task.Task) task.Task {
	if len(rows) == 0 {
		return task.Task{}
	}
	return rows[0]
}

// cancel asks for the end of the newest occurrence that ran.
func (f *Firing) cancel(ctx context.Context, c *Cron, t *task.Task, at task.Firing) {
	row, err := f.row(ctx, c, t.Partition, at)
	if err != nil || row.ID.IsZero() || row.State.IsEnd() {
		return // it is asked again
	}
	f.Cancel(ctx, &row)
}

// of returns an occurrence of a schedule; none if no revision is in charge of it.
func (f *Firing) of(c *Cron, o *task.Occurrence, s *cronspec.Schedule) (built, error) {
	r := c.InCharge(o.At.Revision, o.At.Nominal)
	if r == nil {
		return built{}, nil
	}
	return f.build(c, r, o, s)
}

// built is the task of an occurrence with its payload; the zero value is none.
type built struct {
	task    *task.Task
	payload []byte
	keep    time.Duration // the retention of its lambda
}

// putBuilt stores occurrences by the writes of first, unless they are there.
func (f *Firing) putBuilt(ctx context.Context, all []built, first func(task.Task) []store.Op) error {
	for _, err := range f.putEach(ctx, all, first) {
		if err != nil {
			return err
		}
	}
	return nil
}

// putEach is putBuilt with an outcome for each. Payloads that are stored apart come first.
func (f *Firing) putEach(ctx context.Context, all []built, first func(task.Task) []store.Op) []error {
	outcomes := make([]error, len(all))
	f.apply(ctx, all, outcomes, func(b *built) []store.Op {
		t := b.task
		if !t.PayloadStoredApart() {
			return nil
		}
		return []store.Op{{Kind: store.PutPayload, New: true, Payload: b.payload, Task: task.Task{
			ID: t.PayloadID(), Partition: t.Partition, Due: t.Due, ExpireAt: max(t.Due, t.Created).Add(b.keep),
		}}}
	})
	rows := f.apply(ctx, all, outcomes, func(b *built) []store.Op { return first(*b.task) })
	for i := range rows {
		if f.Added != nil && rows[i].Kind == store.PutWakeup {
			f.Added(&rows[i].Task)
		}
	}
	return outcomes
}

// apply makes writes for each occurrence that has not failed, of which each may have been made before. It
// returns those that were made.
func (f *Firing) apply(ctx context.Context, all []built, outcomes []error, writes func(b *built) []store.Op) (made []store.Op) {
	var ops []store.Op
	var of []int // which occurrence
	for i := range all {
		if all[i].task == nil || outcomes[i] != nil {
			continue
		}
		for _, op := range writes(&all[i]) {
			ops, of = append(ops, op), append(of, i)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	results, err := f.Store.Apply(ctx, ops)
	for k := range ops {
		result := err
		if k < len(results) && (results[k] != nil || err == nil) {
			result = results[k]
		}
		if result != nil && !errors.Is(result, store.ErrConflict) {
			outcomes[of[k]] = fmt.Errorf("put an occurrence: %w", result)
			continue
		}
		made = append(made, ops[k])
	}
	return made
}

// build returns an occurrence.
func (f *Firing) build(c *Cron, r *Revision, o *task.Occurrence, s *cronspec.Schedule) (built, error) {
	l := f.Lambda(c.Ref)
	if l == nil {
		return built{}, fmt.Errorf("cron %s: its lambda is not known here", c.Name)
	}
	tags, err := task.TagsOf(r.Spec.Tags)
	if err != nil {
		return built{}, err
	}
	payload := PayloadAt(r.Spec.Payload, o.At.Nominal, s.Zone())
	t := &task.Task{
		ID: task.OccurrenceID(c.Ref, c.Name, c.Created, o.At), Partition: PartitionOf(l, r.Spec.Class, c.Name),
		State: task.Scheduled, Seq: 1, Created: f.Clock.Now(), Due: task.InstantOf(s.Due(o.At.Nominal.Time())),
		Collection: r.Spec.Collection, Tags: tags, Occurrence: o, PayloadSize: uint32(len(payload)),
	}
	if len(payload) <= f.InlineMax {
		t.Payload = payload
	}
	if l.StartWithin > 0 {
		t.StartBefore = t.Due.Add(l.StartWithin)
	}
	if f.Fired != nil {
		t.Traceparent = f.Fired(t, c.Traceparent)
	}
	return built{t, payload, l.Retention}, nil
}

// PartitionOf returns the partition of the occurrences of a cron.
func PartitionOf(l *task.Lambda, class uint8, name string) task.Partition {
	return task.Partition{Lambda: l.Ref, Priority: class, Shard: partition.ShardOfKey(name, l.ShardsFirst())}
}

// PayloadAt returns the payload of the occurrence of a nominal time.
func PayloadAt(template []byte, nominal task.Instant, zone *time.Location) []byte {
	if len(template) == 0 {
		return nil
	}
	return []byte(strings.ReplaceAll(string(template), nominalText, nominal.Time().In(zone).Format(time.RFC3339)))
}
