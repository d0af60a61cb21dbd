// Package lambdas serves the LambdaService of the wire contract: it creates, changes and deletes lambdas, by
// calls and by registrations. It keeps lambdas in the catalog and leaves their tasks to inbound; the tests of
// both are there.
package lambdas

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks finds and ends the tasks of lambdas.
type Tasks interface {
	// Settled returns a channel that is closed when all calls that have begun, and may have seen lambdas as
	// they were before, are over.
	Settled() <-chan struct{}
	// AnyLive reports whether any task of some partitions lives.
	AnyLive(ctx context.Context, some []task.Partition) (bool, error)
	// DropLive ends live tasks of some partitions, or asks them to stop, and returns the partitions of all of
	// them; none only if no task lives.
	DropLive(ctx context.Context, l *catalog.Entry, some []task.Partition) (ended, told int, of []task.Partition, err error)
}

// Backlog is what is known of the tasks in the inbound buffer.
type Backlog interface {
	// Life returns how long a task may be in the buffer; 0 where there is none.
	Life() time.Duration
	// Doubt returns why tasks that were acknowledged a while ago may be in the buffer; unknown says that
	// nothing is known.
	Doubt() (unknown bool, err error)
	// Passed reports whether what was accepted until a moment has come out of the buffer, as far as can be
	// seen here.
	Passed(until task.Instant) bool
}

// Queue has the queues of lambdas.
type Queue interface {
	Drop(ctx context.Context, lambda uint32) error
	CheckLambda(l task.Lambda, planned ...task.Lambda) error
	Provision(ctx context.Context, l task.Lambda) error
	Missing(ctx context.Context, l task.Lambda) ([]string, error)
}

// Quotas has the quotas of lambdas.
type Quotas interface {
	// Register sets the quotas of a lambda to those of the registration with that digest, if that was not
	// done before.
	Register(ctx context.Context, l *catalog.Entry, sum string, limits []catalog.Limit) error
	// IsRegistered reports whether that was done, as far as is known here.
	IsRegistered(l *catalog.Entry, sum string, limits []catalog.Limit) bool
	// Refresh reads what other processes have done.
	Refresh(ctx context.Context) error
}

// Declared makes a part of what registrations declare beside their lambdas.
type Declared interface {
	// Check refuses what a registration declares, before anything is made of it. l is the lambda; nil: it is
	// not there yet.
	Check(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error
	// Make makes what the registration of a lambda declares, and takes away what an earlier one did. It
	// writes all of it, also what is so already: see catalog.CheckCurrent.
	Make(ctx context.Context, l *catalog.Entry, r *catalog.Registration) error
	// Remove takes away what the registration of a lambda declared.
	Remove(ctx context.Context, l *catalog.Entry) error
}

// Config is what a Service is made of.
type Config struct {
	Store   Registered
	Queue   Queue
	Catalog *catalog.Catalog
	Tasks   Tasks
	Backlog Backlog
	Quotas  Quotas // nil: registrations set none
	Clock   clock.Clock
	// Declared make what registrations declare beside lambdas.
	Declared []Declared
	// CronsOf names the crons of a lambda, for the refusal to delete one with live tasks. nil: it names none.
	CronsOf func(ctx context.Context, l *catalog.Entry) ([]string, error)
	Hooks   Hooks

	// Unregister returns how to delete the registration of a lambda by hand, for the refusal to delete that
	// lambda. nil: the refusal does not say.
	Unregister func(lambda string) string

	// Live returns the live figures of a lambda, with counts that take reading tasks if it is told to; nil
	// for a caller who may not read the whole lambda. A nil Live: there are none.
	Live func(ctx context.Context, l *catalog.Entry, count bool) (*kinesinv1.LambdaStats, error)

	// CheckTarget refuses, with task.ErrInvalid, a target that servers do not call. nil: none is refused.
	CheckTarget func(t *task.Target) error

	// Shared says that other processes may use the same store: what they do to lambdas is known here a while
	// later.
	Shared bool
}

// Hooks observe a Service. A nil hook is not called.
type Hooks struct {
	// Registered: the registration of a lambda has one of the outcomes in Registrations; err says why it was
	// refused, kept or not read.
	Registered func(ctx context.Context, lambda, outcome string, err error)
	// Registrations: how many registrations are in each of RegistrationStates; a state that is not named has
	// none.
	Registrations func(states map[string]int)
	// Internal: a part of a call failed, which its answer does not say.
	Internal func(ctx context.Context, procedure string, err error)
}

// Service serves the owners of lambdas. It is safe for concurrent use.
type Service struct{ Config }

// New returns a Service.
func New(c Config) *Service { return &Service{c} }
