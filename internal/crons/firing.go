package crons

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/cron"
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

// Config is what a Firing is made of.
type Config struct {
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
type Firing struct{ Config }

// NewFiring returns a Firing.
func NewFiring(c Config) *Firing { return &Firing{c} }

// Decide decides about occurrences that have no task row. When it returns, the row of the next one is stored.
func (f *Firing) Decide(ctx context.Context, tasks []*task.Task) []task.Verdict {
	verdicts := make([]task.Verdict, len(tasks))
	var group errgroup.Group
	group.SetLimit(readsMax)
	for i, t := range tasks {
		group.Go(func() error {
			verdicts[i] = f.decide(ctx, t)
			return nil
		})
	}
	_ = group.Wait() // each has a verdict
	return verdicts
}

func (f *Firing) decide(ctx context.Context, t *task.Task) task.Verdict {
	c, err := f.find(ctx, t)
	if err != nil {
		return task.Verdict{Err: err}
	}
	if c == nil {
		return task.Verdict{Skip: "the cron was deleted"}
	}
	if t.Occurrence.Backfill {
		return task.Verdict{} // whoever put it has decided
	}
	before, ran, err := f.past(ctx, c, t)
	if err != nil {
		return task.Verdict{Err: err}
	}
	now := f.Clock.Now()
	d, err := c.Decide(t.Occurrence, t.Due, &before, &ran, now)
	if err != nil {
		return task.Verdict{Err: err}
	}
	if d.Pause > 0 {
		return f.pause(ctx, c, &d, now)
	}
	if d.Cancel {
		f.cancel(ctx, c, t, remember(t.Occurrence, &before, &ran).Ran)
	}
	if d.Fate == Wait {
		return task.Verdict{Again: now.Add(waitAgain)}
	}
	m := remember(t.Occurrence, &before, &ran)
	if d.Next != 0 {
		next := &task.Occurrence{
			Cron: c.Name, Life: c.Created, At: task.Firing{Revision: t.Occurrence.At.Revision, Nominal: d.Next},
			Before: t.Occurrence.At, Ran: m.Ran, Failed: m.Tally.Failed, Succeeded: m.Tally.Succeeded,
		}
		if err := f.put(ctx, c, next, d.schedule); err != nil {
			return task.Verdict{Err: err}
		}
	}
	return task.Verdict{Skip: d.Reason, Succeeded: m.Tally.add(m.past).Succeeded}
}

// find reads the cron of an occurrence; nil if it was deleted.
func (f *Firing) find(ctx context.Context, t *task.Task) (*Cron, error) {
	c, err := Find(ctx, f.Store, t.Occurrence.Cron)
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
		err = Put(ctx, f.Store, c)
	}
	if err != nil {
		return task.Verdict{Err: err}
	}
	f.Log.WarnContext(ctx, "cron paused", slog.String("cron", c.Name), slog.String("reason", d.Reason))
	return task.Verdict{Skip: "the cron is paused: " + d.Reason}
}

// past reads what became of the two occurrences that one names.
func (f *Firing) past(ctx context.Context, c *Cron, t *task.Task) (before, ran Past, err error) {
	if before, err = f.pastOf(ctx, c, t, t.Occurrence.Before); err == nil {
		ran, err = f.pastOf(ctx, c, t, t.Occurrence.Ran)
	}
	return before, ran, err
}

func (f *Firing) pastOf(ctx context.Context, c *Cron, t *task.Task, at task.Firing) (Past, error) {
	row, err := f.row(ctx, c, t.Partition, at)
	if err != nil {
		return Past{}, err
	}
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
	return p, nil
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

// put stores an occurrence of a schedule as a wake-up row, unless it is there.
func (f *Firing) put(ctx context.Context, c *Cron, o *task.Occurrence, s *cron.Schedule) error {
	r := c.InCharge(o.At.Revision, o.At.Nominal)
	if r == nil {
		return nil
	}
	t, payload, err := f.build(c, r, o, s)
	if err != nil {
		return err
	}
	return f.putBuilt(ctx, c, []built{{t, payload}}, store.First)
}

// built is the task of an occurrence with its payload.
type built struct {
	task    *task.Task
	payload []byte
}

// putBuilt stores occurrences by the writes of first, unless they are there, and before that the payloads
// that are stored apart.
func (f *Firing) putBuilt(ctx context.Context, c *Cron, all []built, first func(task.Task) []store.Op) error {
	var payloads, rows []store.Op
	for _, b := range all {
		if t := b.task; t.PayloadStoredApart() {
			payloads = append(payloads, store.Op{Kind: store.PutPayload, New: true, Payload: b.payload, Task: task.Task{
				ID: t.PayloadID(), Partition: t.Partition, Due: t.Due, ExpireAt: max(t.Due, t.Created).Add(f.retention(c)),
			}})
		}
		rows = append(rows, first(*b.task)...)
	}
	if len(payloads) > 0 {
		if err := f.apply(ctx, payloads); err != nil {
			return err
		}
	}
	if err := f.apply(ctx, rows); err != nil {
		return err
	}
	for i := range rows {
		if f.Added != nil && rows[i].Kind == store.PutWakeup {
			f.Added(&rows[i].Task)
		}
	}
	return nil
}

func (f *Firing) retention(c *Cron) time.Duration {
	if l := f.Lambda(c.Ref); l != nil {
		return l.Retention
	}
	return 0
}

// apply makes writes of which each may have been made before.
func (f *Firing) apply(ctx context.Context, ops []store.Op) error {
	outcomes, err := f.Store.Apply(ctx, ops)
	for i := range outcomes {
		if outcomes[i] != nil && !errors.Is(outcomes[i], store.ErrConflict) {
			return fmt.Errorf("put an occurrence: %w", outcomes[i])
		}
	}
	if err != nil {
		return fmt.Errorf("put an occurrence: %w", err)
	}
	return nil
}

// build returns the task of an occurrence, and its payload.
func (f *Firing) build(c *Cron, r *Revision, o *task.Occurrence, s *cron.Schedule) (*task.Task, []byte, error) {
	l := f.Lambda(c.Ref)
	if l == nil {
		return nil, nil, fmt.Errorf("cron %s: its lambda is not known here", c.Name)
	}
	tags, err := task.TagsOf(r.Spec.Tags)
	if err != nil {
		return nil, nil, err
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
	return t, payload, nil
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
