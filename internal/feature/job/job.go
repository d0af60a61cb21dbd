// Package job changes sets of tasks: a job is a control row that says what to do with which tasks, how far
// it has come, and who is at it. It survives its client and its servers. Any server with inbound's role goes
// on with a job whose server is gone, from the last batch that was noted, so that a batch may be applied
// twice: each action leaves a task that it has changed already as it is.
//
// A job has one writer, by a lease in its row, and acts with the grants that its maker had and still has. The
// package reads and changes tasks by inbound alone.
package job

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/room"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of jobs.
const (
	// RunningMax is how many jobs one server runs at once; more wait.
	RunningMax = 16
	// ActiveMax is how many jobs there are at once that have not ended.
	ActiveMax = 100
	// KeptMax is how many ended jobs are kept, and KeptFor for how long.
	KeptMax = 1000
	KeptFor = 30 * 24 * time.Hour
	// RefusedMax is how many refused ids a job keeps.
	RefusedMax = 1000
	// PaceMax is the highest pace, in tasks per second.
	PaceMax = 1_000_000
	// SampleMax is how many tasks a dry run shows.
	SampleMax = 10

	batchTasksMax       = 1000
	refusedTextBytesMax = 120
	refusedBytesMax     = 200 << 10
	leaseFor            = 10 * time.Second
	lookEvery           = 5 * time.Second // for jobs of servers that are gone; what happens here is known at once
	tidyEvery           = time.Hour
	// napMax is how long a paced job sleeps before it renews its lease and looks whether it is to pause.
	napMax = time.Second
)

// Kinds of control rows.
const (
	kindActive  = "job"
	kindEnded   = "job-ended"
	kindRefused = "job-refused" // ids that a job could not change, by the job's id
	kindPlan    = "job-plan"    // parts of the list of tasks that a job works off, by the job's id and a number
)

// Store is what jobs need of a store.
type Store = store.ControlRows

// Tasks reads and changes sets of tasks.
type Tasks interface {
	Page(ctx context.Context, of *inbound.Selection, position []byte, limit int) (inbound.Page, error)
	CountOrEstimate(ctx context.Context, of *inbound.Selection) (n, examined int64, exact bool, err error)
	CancelRows(ctx context.Context, rows []inbound.Row) []inbound.Changed
	ExpireRows(ctx context.Context, rows []inbound.Row) []inbound.Changed
	DeleteRows(ctx context.Context, rows []inbound.Row) []inbound.Changed
	RedriveRows(ctx context.Context, rows []inbound.Row, force bool) []inbound.Changed
	RescheduleRows(ctx context.Context, rows []inbound.Row, to func(t *task.Task) (task.Instant, error)) []inbound.Changed
	RowsOf(ctx context.Context, ids []string) ([]inbound.Row, error)
	PublicID(row *inbound.Row) string
	View(row *inbound.Row) *kinesinv1.Task
	Names(row *inbound.Row) (lambda, priority string)
}

// Config is what a Service is made of.
type Config struct {
	Store Store
	Tasks Tasks
	Clock clock.Clock
	Log   *slog.Logger
	// Shared says that other processes may run jobs of the same store. Otherwise a job whose lease another
	// process holds is one of a process that is gone.
	Shared bool
	// Metered says that each row that is read or written costs money.
	Metered bool
	// Recovery returns the pace of a redrive that has none of its own, of the tasks that a filter may select;
	// 0: no limit. It may be nil.
	Recovery func(where string) (pace uint32, err error)
	// GrantsOf returns what an identity may do now; an error of permission_denied if it may do nothing any
	// more, which ends its jobs. nil: jobs keep the grants that they were made with.
	GrantsOf func(ctx context.Context, identity string) (access.Grants, error)
	// Backfills schedule occurrences of crons; nil: there are none.
	Backfills inbound.Range
	// Members are those of groups, to cancel; nil: no job does. It seals a group first.
	Members inbound.Range
	// Ended is called when a job has ended; it may be nil.
	Ended func(ctx context.Context, j *kinesinv1.Job)
	// Traced returns the span of a call, for a job that it makes, and Step begins that of a step of such a
	// job. Both may be nil.
	Traced func(ctx context.Context) string
	Step   func(ctx context.Context, job, action, made string) (_ context.Context, end func(tasks int, err error))
	// Rested is called when something waits of which Rests tells. It may be nil.
	Rested func()
}

// Service serves jobs and runs them. It is safe for concurrent use.
type Service struct {
	Config

	jobs     *control.Book[job]
	refusals *control.Book[refusals]
	room     *room.Room // jobs that have not ended
	process  string     // name of this process in leases
	running  *control.Keeper[string, job, struct{}]
	tidied   task.Instant // when old jobs were deleted last, by clock.Steady; 0: never
}

// New returns a Service.
func New(c Config) *Service {
	const keptPart = 10 // of the jobs, for admins and for jobs that cancel
	s := &Service{
		jobs: control.NewBook(c.Store, jobAsRows, c.Clock), refusals: control.NewBook(c.Store, refusalsAsRows, c.Clock),
		room:   room.New("jobs", ActiveMax, ActiveMax/keptPart),
		Config: c, process: fmt.Sprintf("%016x", c.Clock.Uint64()),
	}
	s.running = control.NewKeeper(control.KeeperConfig[string, job, struct{}]{
		Clock: c.Clock, Every: lookEvery, Max: RunningMax, Retry: stepRetry, Scan: s.takeUp, ScansAfter: true, Step: s.work, Rested: c.Rested,
		ScanFailed: func(ctx context.Context, err error) {
			c.Log.WarnContext(ctx, "cannot look for jobs", slog.Any("error", err))
		},
		StepFailed: func(ctx context.Context, id string, err error) {
			c.Log.WarnContext(ctx, "a step of a job failed", slog.String("job", id), slog.Any("error", err))
		},
	})
	return s
}

// Room returns what those share who make jobs.
func (s *Service) Room() *room.Room { return s.room }

// Rests reports whether no job works now, and when the first of them goes on; never, if none runs.
func (s *Service) Rests() (until task.Instant, ok bool) {
	until, _, ok = s.running.Rests()
	return until, ok
}
