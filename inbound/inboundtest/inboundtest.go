// Package inboundtest has what tests of the roles beside inbound stand on.
package inboundtest

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// Start is when worlds begin: 2023-11-14T22:13:20Z.
const Start = task.Instant(1_700_000_000_000_000)

// World is a store in memory with its lambdas, in virtual time.
type World struct {
	T       *testing.T
	Ctx     context.Context //nolint:containedctx // of the test, with the caller
	Time    *clock.Virtual
	Clock   clock.Clock
	Store   *store.Store
	Catalog *catalog.Catalog
}

// New returns a world whose caller may do everything.
func New(t *testing.T) *World {
	t.Helper()
	v := clock.NewVirtual(Start, 1)
	w := &World{T: t, Time: v, Clock: v.Process(0)}
	w.As("ops", "*:*")
	w.Store = store.New(storemem.New(), store.Config{Clock: w.Clock})
	w.Catalog = catalog.New(w.Store, w.Clock, slog.New(slog.DiscardHandler), catalog.Limits{})
	return w
}

// Run runs a test in a world in a bubble of its own, where time moves on when nothing else happens.
func Run(t *testing.T, test func(w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Time.Settle(synctest.Wait)
		test(w)
	})
}

// As makes the calls from now on those of an identity with some grants.
func (w *World) As(name string, grants ...string) {
	w.T.Helper()
	all, err := access.ParseGrants(grants)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Ctx = access.With(w.T.Context(), access.Caller{Identity: access.Identity{Name: name, Grants: all}})
}

// Create creates a lambda.
func (w *World) Create(l task.Lambda) *catalog.Entry {
	w.T.Helper()
	entry, _, err := w.Catalog.Create(w.Ctx, l)
	if err != nil {
		w.T.Fatal(err)
	}
	return entry
}

// scheduler is told of changes, and does nothing.
type scheduler struct{}

func (scheduler) Added(*task.Task)           {}
func (scheduler) Awake(*task.Task)           {}
func (scheduler) Enqueued(*task.Task)        {}
func (scheduler) Done([]task.Task)           {}
func (scheduler) CancelRequested(*task.Task) {}

// Inbound returns an Inbound over the world's store and a queue in memory. Tasks may be due as far ahead as horizon says; 0: as
// by default.
func (w *World) Inbound(c inbound.Config, horizon time.Duration) *inbound.Inbound {
	w.T.Helper()
	ring, err := task.NewKeyring(task.Ring{Keys: []task.Key{{Number: 1, Secret: []byte(strings.Repeat("p", task.TokenKeyBytes))}}, Seals: 1})
	if err != nil {
		w.T.Fatal(err)
	}
	q := queue.New(queuemem.New(w.Clock, queuemem.Config{}), queue.Config{})
	c.Intake = intake.New(intake.Config{
		Store: w.Store, Queue: q, Catalog: w.Catalog, Sealer: ring.IDs(), Scheduler: scheduler{}, Clock: w.Clock, Horizon: horizon,
		Starter: dispatcher.NewStarter(dispatcher.StarterConfig{Queue: q, Lambdas: w.Catalog, Clock: w.Clock}),
	})
	c.Store, c.Workers, c.Pages = w.Store, scheduler{}, ring.Pages()
	return inbound.New(c)
}
