package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
)

// Cron schedules a task of a lambda whenever its Schedule says. Nominal times are those at which it says so,
// and the task of one is an occurrence.
type Cron struct {
	Name   string // cannot change
	Lambda string // a managed one; cannot change
	// Schedule is five fields (minute, hour, day of month, month, day of week), six with seconds first, a
	// word such as @daily, "@every 90s", or an RRULE. docs/reference/expressions.md describes them.
	Schedule string
	Zone     string // an IANA name, on whose clock fields and words are; empty: UTC
	// Start and End bound nominal times: from Start on, before End; zero: no bound. @every and an RRULE
	// without a DTSTART count from Start.
	Start, End time.Time
	Jitter     time.Duration // by less than this an occurrence is due later, always by the same; at most 24 h, in milliseconds
	Gap        Gap           // what becomes of a time of day that a clock change leaves out
	Fold       Fold          // what becomes of a time of day that it makes happen twice

	Overlap Overlap // what becomes of an occurrence while an earlier one has not ended
	// CatchUp says which occurrences run whose time passed while nothing could run them. CatchUpMax (at most
	// 100,000; zero: 1,000) and CatchUpWithin (at most 366 days; zero: a day) bound CatchUpAll, and go with
	// nothing else.
	CatchUp       CatchUp
	CatchUpMax    int
	CatchUpWithin time.Duration
	FailuresMax   int // so many failed occurrences in a row pause it, at most 1,000; zero: none does

	Priority   string // empty: the lambda's default
	Collection string
	Tags       map[string]string
	// Payload is that of each occurrence, at most 64 KiB. "{{nominal}}" in it becomes the nominal time in RFC
	// 3339. It is not set in lists, nor for who may not read payloads. A payload codec cannot encode it,
	// because the server makes the tasks.
	Payload   []byte
	ManagedBy string // name of the declared set that it is of (kinesin apply); empty: none

	// The fields below are read only, but for Version in Crons.Update.

	Version   uint64 // rises with each change
	Revision  uint64 // rises with each change of what fires
	Created   time.Time
	CreatedBy string // an identity
	Updated   time.Time
	UpdatedBy string
	// Registered says that the registration of the lambda made it (Terraform). Only that changes and deletes
	// it: calls are refused with sdk.ErrRegistered.
	Registered bool
	// LambdaDeleted says that its lambda was deleted. It fires no more, also if another lambda of that name
	// is created, and can only be deleted.
	LambdaDeleted bool
	Pause         *CronPause  // nil: it is not paused
	Next          []time.Time // nominal times to come, at most 5, in lists 1; none while it is paused

	// Warning says, of a cron that Create or Update returns, what its author may not have meant, such
	// as that the first of six fields is seconds, with the next three times at which it fires. Empty: nothing.
	Warning string
}

// Overlap says what becomes of an occurrence of a cron while an earlier one has not ended.
type Overlap string

// The ways to treat an occurrence while an earlier one has not ended. Empty is OverlapSkip.
const (
	OverlapSkip    Overlap = "skip"
	OverlapAllow   Overlap = "allow"
	OverlapQueue   Overlap = "queue"
	OverlapCancel  Overlap = "cancel"
	OverlapReplace Overlap = "replace"
)

// CatchUp says which occurrences of a cron run whose time passed while nothing could run them.
type CatchUp string

// The occurrences to catch up on. Empty is CatchUpLast.
const (
	CatchUpLast CatchUp = "last"
	CatchUpNone CatchUp = "none"
	CatchUpAll  CatchUp = "all"
)

// Gap says what becomes of a time of day that a clock change leaves out.
type Gap string

// The ways to treat a time of day that a clock change leaves out. Empty is GapShift.
const (
	GapShift Gap = "shift"
	GapSkip  Gap = "skip"
)

// Fold says what becomes of a time of day that a clock change makes happen twice.
type Fold string

// The ways to treat a time of day that happens twice. Empty is FoldFirst.
const (
	FoldFirst Fold = "first"
	FoldBoth  Fold = "both"
)

// CronPause says why a cron does not fire.
type CronPause struct {
	Reason string
	By     string // an identity; empty: FailuresMax was reached
	At     time.Time
	Until  time.Time // when it resumes by itself; zero: never
}

// CronOutcome is what became of a nominal time.
type CronOutcome string

// What becomes of nominal times.
const (
	CronRan       CronOutcome = "ran" // its task ended after an attempt
	CronRuns      CronOutcome = "runs"
	CronWaits     CronOutcome = "waits"
	CronSkipped   CronOutcome = "skipped"
	CronMissed    CronOutcome = "missed"    // it has no task
	CronForgotten CronOutcome = "forgotten" // its task is gone: the lambda's retention is over
)

// CronOccurrence says what became of a nominal time.
type CronOccurrence struct {
	Nominal  time.Time
	Revision uint64 // of the cron
	Outcome  CronOutcome
	Reason   string        // why it was skipped or missed
	ID       sdk.ID        // of its task; empty: it has none
	State    sdk.State     // of its task
	Late     time.Duration // how long after its due time it first started; zero: it was not started
	// Backfill says that the task is that of a backfill, which made up for the nominal time.
	Backfill bool
	// Manual says that Crons.Run has scheduled the task, at Nominal.
	Manual bool
}

// Crons has the calls about crons. Jobs.Create makes up for occurrences of the past (JobBackfill).
type Crons struct{ c *calls }

// Create creates a cron and returns it. duplicate means that it was there with the same settings. It returns ErrExists
// if it is there with others, ErrUnknownLambda without the lambda, and ErrInvalid for settings that are not allowed,
// of which the error says what is. It fires from five seconds later on.
func (s Crons) Create(ctx context.Context, cron Cron) (created Cron, duplicate bool, err error) {
	cron.Version = 0
	return s.set(ctx, "create cron", &cron, false)
}

// Check returns the error that Create, or Update for a cron with a Version, would return now, and changes nothing.
func (s Crons) Check(ctx context.Context, cron Cron) error {
	_, _, err := s.set(ctx, "check cron", &cron, true)
	return err
}

// Update changes a cron to have all of the given settings, and returns it. Version is that of the cron as it was
// read, and ErrStaleSeq means that it was changed since. Occurrences with nominal times within five seconds still are
// as before. For who may not read payloads, an empty Payload means no change of it.
func (s Crons) Update(ctx context.Context, cron Cron) (Cron, error) {
	if cron.Version == 0 {
		return Cron{}, fmt.Errorf("%w version 0 of cron %q: want the version of the cron that was read", sdk.ErrInvalid, cron.Name)
	}
	updated, _, err := s.set(ctx, "update cron", &cron, false)
	return updated, err
}

func (s Crons) set(ctx context.Context, what string, cron *Cron, dryRun bool) (Cron, bool, error) {
	if s.c.Config.Encode != nil && len(cron.Payload) > 0 {
		return Cron{}, false, fmt.Errorf("%w payload of cron %q: a payload codec encodes it for one task, and the server makes the tasks of a cron; want none", sdk.ErrInvalid, cron.Name)
	}
	r, err := call(ctx, s.c, what, s.c.Crons.SetCron, &kinesinv1.SetCronRequest{Cron: settable(wirecopy.To[kinesinv1.Cron](cron)), DryRun: dryRun})
	return wirecopy.From[Cron](r.GetCron()), r.GetDuplicate(), err
}

// Get returns a cron. It returns ErrNotFound when there is none with that name that the caller may see.
func (s Crons) Get(ctx context.Context, name string) (Cron, error) {
	r, err := call(ctx, s.c, "get cron", s.c.Crons.GetCron, &kinesinv1.GetCronRequest{Name: name})
	return wirecopy.From[Cron](r.GetCron()), err
}

// List returns the crons of a lambda, or of all, by name and without their payloads. It returns ErrTooLarge when they
// do not fit an answer of 4 MiB.
func (s Crons) List(ctx context.Context, lambda string) ([]Cron, error) {
	r, err := callSet(ctx, s.c, "list crons", s.c.Crons.ListCrons, &kinesinv1.ListCronsRequest{Lambda: lambda})
	return wirecopy.All[Cron](r.GetCrons()), err
}

// CronPauseOptions are the options of Crons.Pause.
type CronPauseOptions struct {
	Until time.Time // when it resumes by itself, within ten years; zero: never
}

// Pause has a cron fire no more, from five seconds later on. The reason is for people, and required. Another pause
// replaces it.
func (s Crons) Pause(ctx context.Context, name, reason string, o CronPauseOptions) (Cron, error) {
	request := wirecopy.To[kinesinv1.PauseCronRequest](&o)
	request.Name, request.Reason = name, reason
	r, err := call(ctx, s.c, "pause cron", s.c.Crons.PauseCron, request)
	return wirecopy.From[Cron](r.GetCron()), err
}

// Resume has a cron fire again. Its CatchUp decides about the nominal times that it missed. One that is not paused
// stays as it is.
func (s Crons) Resume(ctx context.Context, name string) (Cron, error) {
	r, err := call(ctx, s.c, "resume cron", s.c.Crons.ResumeCron, &kinesinv1.ResumeCronRequest{Name: name})
	return wirecopy.From[Cron](r.GetCron()), err
}

// Run schedules a task as the cron would, for now, and returns its id. It is no occurrence: Overlap does not apply,
// and a paused cron runs too.
func (s Crons) Run(ctx context.Context, name string) (sdk.ID, error) {
	r, err := call(ctx, s.c, "run cron", s.c.Crons.RunCron, &kinesinv1.RunCronRequest{Name: name, RequestId: s.c.RequestID()})
	return sdk.ID(r.GetId()), err
}

// Delete deletes a cron. Occurrences that were sent to workers go on, and others are skipped. It returns ErrNotFound
// when there is none with that name.
func (s Crons) Delete(ctx context.Context, name string) error {
	_, err := call(ctx, s.c, "delete cron", s.c.Crons.DeleteCron, &kinesinv1.DeleteCronRequest{Name: name})
	return err
}

// CronHistoryOptions are the options of Crons.History.
type CronHistoryOptions struct {
	From  time.Time // zero: as far back as Limit reaches
	To    time.Time // zero: now
	Limit int       // up to 1,000; zero: 20
}

// History returns what became of nominal times that have passed, newest first.
func (s Crons) History(ctx context.Context, name string, o CronHistoryOptions) ([]CronOccurrence, error) {
	request := wirecopy.To[kinesinv1.CronHistoryRequest](&o)
	request.Name = name
	r, err := callSet(ctx, s.c, "history of a cron", s.c.Crons.CronHistory, request)
	return wirecopy.All[CronOccurrence](r.GetOccurrences()), err
}
