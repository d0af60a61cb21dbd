package sdk

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// Cron schedules a task of a lambda whenever its Schedule says. Nominal times are those at which it says so,
// and the task of one is an occurrence.
type Cron struct {
	Name   string // cannot change
	Lambda string // a managed one; cannot change
	// Schedule is five fields (minute, hour, day of month, month, day of week), six with seconds first, a
	// word such as @daily, "@every 90s", or an RRULE. docs/cron.md describes them.
	Schedule string
	Zone     string // an IANA name, on whose clock fields and words are; empty: UTC
	// Start and End bound nominal times: from Start on, before End; zero: no bound. @every and an RRULE
	// without a DTSTART count from Start.
	Start, End time.Time
	Jitter     time.Duration // by less than this an occurrence is due later, always by the same; at most 24 h, in milliseconds
	Gap        string        // a time of day that a clock change leaves out: "shift" (default) or "skip"
	Fold       string        // a time of day that it makes happen twice: "first" (default) or "both"

	// Overlap says what becomes of an occurrence while an earlier one has not ended: "skip" (default),
	// "allow", "queue", "cancel" or "replace".
	Overlap string
	// CatchUp says which occurrences run whose time passed while nothing could run them: "last" (default),
	// "none" or "all". CatchUpMax (at most 100,000; zero: 1,000) and CatchUpWithin (at most 366 days; zero: a
	// day) bound "all", and go with nothing else.
	CatchUp       string
	CatchUpMax    int
	CatchUpWithin time.Duration
	FailuresMax   int // so many failed occurrences in a row pause it, at most 1,000; zero: none does

	Priority   string // empty: the lambda's default
	Collection string
	Tags       map[string]string
	// Payload is that of each occurrence, at most 64 KiB. "{{nominal}}" in it becomes the nominal time in RFC
	// 3339. It is not set in lists, nor for who may not read payloads. A payload codec cannot encode it,
	// because the server makes the tasks.
	Payload []byte
	// ManagedBy names the declared set that it is of (kinesin apply). In UpdateCron an empty one means no
	// change of it, and "none" that it is of none.
	ManagedBy string

	// The fields below are read only, but for Version in UpdateCron.

	Version   uint64 // rises with each change
	Revision  uint64 // rises with each change of what fires
	Created   time.Time
	CreatedBy string // an identity
	Updated   time.Time
	UpdatedBy string
	// Registered says that the registration of the lambda made it (Terraform). Only that changes and deletes
	// it: calls are refused with ErrRegistered.
	Registered bool
	// LambdaDeleted says that its lambda was deleted. It fires no more, also if another lambda of that name
	// is created, and can only be deleted.
	LambdaDeleted bool
	Pause         *CronPause  // nil: it is not paused
	Next          []time.Time // nominal times to come, at most 5, in lists 1; none while it is paused

	// Warning says, of a cron that CreateCron or UpdateCron returns, what its author may not have meant, such
	// as that the first of six fields is seconds, with the next three times at which it fires. Empty: nothing.
	Warning string
}

// CronPause says why a cron does not fire.
type CronPause struct {
	Reason string
	By     string // an identity; empty: FailuresMax was reached
	At     time.Time
	Until  time.Time // when it resumes by itself; zero: never
}

// CronOccurrence says what became of a nominal time.
type CronOccurrence struct {
	Nominal  time.Time
	Revision uint64 // of the cron
	// Outcome is "ran" (its task ended after an attempt), "runs", "waits", "skipped", "missed" (it has no
	// task) or "forgotten" (its task is gone: the lambda's retention is over).
	Outcome string
	Reason  string        // why it was skipped or missed
	ID      ID            // of its task; empty: it has none
	State   State         // of its task
	Late    time.Duration // how long after its due time it first started; zero: it was not started
	// Backfill says that the task is that of a backfill, which made up for the nominal time.
	Backfill bool
	// Manual says that RunCron has scheduled the task, at Nominal.
	Manual bool
}

// CreateCron creates a cron and returns it. existed means that it was there with the same settings. It
// returns ErrExists if it is there with others, ErrUnknownLambda without the lambda, and ErrInvalid for
// settings that are not allowed, of which the error says what is. It fires from five seconds later on.
func (c *Client) CreateCron(ctx context.Context, cron Cron) (created Cron, existed bool, err error) {
	cron.Version = 0
	return c.setCron(ctx, "create cron", &cron, false)
}

// CheckCron returns the error that CreateCron, or UpdateCron for a cron with a Version, would return now, and
// changes nothing.
func (c *Client) CheckCron(ctx context.Context, cron Cron) error {
	_, _, err := c.setCron(ctx, "check cron", &cron, true)
	return err
}

// UpdateCron changes a cron to have all of the given settings, and returns it. Version is that of the cron as
// it was read, and ErrStaleSeq means that it was changed since. Occurrences with nominal times within five
// seconds still are as before. For who may not read payloads, an empty Payload means no change of it.
func (c *Client) UpdateCron(ctx context.Context, cron Cron) (Cron, error) {
	if cron.Version == 0 {
		return Cron{}, fmt.Errorf("%w version 0 of cron %q: want the version of the cron that was read", ErrInvalid, cron.Name)
	}
	updated, _, err := c.setCron(ctx, "update cron", &cron, false)
	return updated, err
}

func (c *Client) setCron(ctx context.Context, what string, cron *Cron, dryRun bool) (Cron, bool, error) {
	if c.cfg.Encode != nil && len(cron.Payload) > 0 {
		return Cron{}, false, fmt.Errorf("%w payload of cron %q: a payload codec encodes it for one task, and the server makes the tasks of a cron; want none", ErrInvalid, cron.Name)
	}
	r, err := call(ctx, c, what, c.backend.crons.SetCron, &kinesinv1.SetCronRequest{DryRun: dryRun, Cron: &kinesinv1.Cron{
		Name: cron.Name, Version: cron.Version, Lambda: cron.Lambda, Schedule: cron.Schedule, Zone: cron.Zone,
		Start: int64(task.InstantOf(cron.Start)), End: int64(task.InstantOf(cron.End)), Jitter: cron.Jitter.Microseconds(),
		Gap: cron.Gap, Fold: cron.Fold, Overlap: cron.Overlap, CatchUp: cron.CatchUp, CatchUpMax: countOf(cron.CatchUpMax),
		CatchUpWithin: cron.CatchUpWithin.Microseconds(), FailuresMax: countOf(cron.FailuresMax),
		Priority: cron.Priority, Collection: cron.Collection, Tags: cron.Tags, Payload: cron.Payload,
		ManagedBy: cron.ManagedBy,
	}})
	set := cronOf(r.GetCron())
	set.Warning = r.GetCron().GetWarning()
	return set, r.GetExisted(), err
}

// countOf returns a number as the wire has it. One below 0 becomes one that the server refuses.
func countOf(n int) uint32 {
	if n < 0 || n > math.MaxInt32 {
		return math.MaxInt32
	}
	return uint32(n)
}

// Cron returns a cron. It returns ErrNotFound when there is none with that name that the caller may see.
func (c *Client) Cron(ctx context.Context, name string) (Cron, error) {
	r, err := call(ctx, c, "get cron", c.backend.crons.GetCron, &kinesinv1.GetCronRequest{Name: name})
	return cronOf(r.GetCron()), err
}

// Crons returns the crons of a lambda, or, with an empty name, of all that the caller may read, by name and
// without their payloads. It returns ErrTooLarge when they do not fit an answer of 4 MiB.
func (c *Client) Crons(ctx context.Context, lambda string) ([]Cron, error) {
	r, err := callSet(ctx, c, "list crons", c.backend.crons.ListCrons, &kinesinv1.ListCronsRequest{Lambda: lambda})
	return listOf(r.GetCrons(), cronOf), err
}

// PauseCron has a cron fire no more, from five seconds later on, until it is resumed, or until a time within
// ten years; zero: until it is resumed. The reason is for people, and required. Another pause replaces it.
func (c *Client) PauseCron(ctx context.Context, name, reason string, until time.Time) (Cron, error) {
	r, err := call(ctx, c, "pause cron", c.backend.crons.PauseCron, &kinesinv1.PauseCronRequest{Name: name, Reason: reason, Until: int64(task.InstantOf(until))})
	return cronOf(r.GetCron()), err
}

// ResumeCron has a cron fire again. Its CatchUp decides about the nominal times that it missed. One that is
// not paused stays as it is.
func (c *Client) ResumeCron(ctx context.Context, name string) (Cron, error) {
	r, err := call(ctx, c, "resume cron", c.backend.crons.ResumeCron, &kinesinv1.ResumeCronRequest{Name: name})
	return cronOf(r.GetCron()), err
}

// RunCron schedules a task as the cron would, for now, and returns its id. It is no occurrence: Overlap does
// not apply, and a paused cron runs too.
func (c *Client) RunCron(ctx context.Context, name string) (ID, error) {
	r, err := call(ctx, c, "run cron", c.backend.crons.RunCron, &kinesinv1.RunCronRequest{Name: name, RequestId: requestIDs(c.cfg.Clock, 1)[0]})
	return ID(r.GetId()), err
}

// backfillCron makes the job of a backfill, or counts what it would do.
func (c *Client) backfillCron(ctx context.Context, spec *JobSpec, dryRun bool) (Job, error) {
	r, err := callSet(ctx, c, "backfill cron", c.backend.crons.BackfillCron, &kinesinv1.BackfillCronRequest{
		Name: spec.Cron, From: int64(task.InstantOf(spec.From)), To: int64(task.InstantOf(spec.To)), Pace: uint32(max(0, spec.Pace)),
		DryRun: dryRun, All: spec.All, RequestId: requestIDs(c.cfg.Clock, 1)[0],
	})
	return jobOf(r.GetJob()), err
}

// DeleteCron deletes a cron. Occurrences that were sent to workers go on, and others are skipped. It returns
// ErrNotFound when there is none with that name.
func (c *Client) DeleteCron(ctx context.Context, name string) error {
	_, err := call(ctx, c, "delete cron", c.backend.crons.DeleteCron, &kinesinv1.DeleteCronRequest{Name: name})
	return err
}

// CronHistory returns what became of nominal times that have passed, newest first: at most limit, up to 1,000
// (zero: 20), from one time through another (zero: as far back as limit reaches, and now).
func (c *Client) CronHistory(ctx context.Context, name string, from, to time.Time, limit int) ([]CronOccurrence, error) {
	r, err := callSet(ctx, c, "history of a cron", c.backend.crons.CronHistory, &kinesinv1.CronHistoryRequest{
		Name: name, From: int64(task.InstantOf(from)), To: int64(task.InstantOf(to)), Limit: countOf(limit),
	})
	all := make([]CronOccurrence, 0, len(r.GetOccurrences()))
	for _, o := range r.GetOccurrences() {
		all = append(all, CronOccurrence{
			Nominal: timeOf(o.Nominal), Revision: o.Revision, Outcome: o.Outcome, Reason: o.Reason, ID: ID(o.Id), State: State(o.State),
			Late: task.Micros(o.Late), Backfill: o.Backfill, Manual: o.Manual,
		})
	}
	return all, err
}

func cronOf(w *kinesinv1.Cron) Cron {
	if w == nil {
		return Cron{}
	}
	c := Cron{
		Name: w.Name, Lambda: w.Lambda, Schedule: w.Schedule, Zone: w.Zone, Start: timeOf(w.Start), End: timeOf(w.End), Jitter: task.Micros(w.Jitter),
		Gap: w.Gap, Fold: w.Fold, Overlap: w.Overlap, CatchUp: w.CatchUp, CatchUpMax: int(w.CatchUpMax), CatchUpWithin: task.Micros(w.CatchUpWithin),
		FailuresMax: int(w.FailuresMax), Priority: w.Priority, Collection: w.Collection, Tags: w.Tags, Payload: w.Payload,
		ManagedBy: w.ManagedBy, Registered: w.Registered, LambdaDeleted: w.LambdaDeleted,
		Version: w.Version, Revision: w.Revision, Created: timeOf(w.Created), CreatedBy: w.CreatedBy, Updated: timeOf(w.Updated), UpdatedBy: w.UpdatedBy,
	}
	if p := w.Pause; p != nil {
		c.Pause = &CronPause{Reason: p.Reason, By: p.By, At: timeOf(p.At), Until: timeOf(p.Until)}
	}
	for _, next := range w.Next {
		c.Next = append(c.Next, timeOf(next))
	}
	return c
}
