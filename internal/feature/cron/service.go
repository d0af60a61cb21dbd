package cron

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// countsMax is how many backfills a server counts at once.
	countsMax = 2
)

// Keeper stores crons so that they fire.
type Keeper interface {
	// Change changes a cron as control.Book.Set does, and puts its first occurrence.
	Change(ctx context.Context, name string, edit func(c *Cron) (control.Do, error)) (*Cron, error)
	// PutBackfill puts occurrences for nominal times that have passed, due now, unless they are there.
	PutBackfill(ctx context.Context, c *Cron, nominals []task.Instant) error
}

// Jobs runs backfills.
type Jobs interface {
	// CreateBackfill starts the job of a backfill, in its stored form, of a cron of a lambda.
	CreateBackfill(ctx context.Context, of, lambda string, r *kinesinv1.BackfillCronRequest) (*kinesinv1.Job, error)
}

// Lambdas finds lambdas, also those that another process created a moment ago.
type Lambdas interface {
	Find(ctx context.Context, name string) (*catalog.Entry, error)
	FindRef(ctx context.Context, ref uint32) (*catalog.Entry, error)
	ByRef(ref uint32) *catalog.Entry
	CheckCurrent(ctx context.Context, e *catalog.Entry) error
}

// Tasks schedules, reads and cancels tasks.
type Tasks interface {
	Get(ctx context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error)
	Cancel(ctx context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error)
	Schedule(ctx context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error)
}

// ServiceConfig is what a Service is made of.
type ServiceConfig struct {
	Store   Store
	Keeper  Keeper
	Jobs    Jobs
	Lambdas Lambdas
	Tasks   Tasks
	// FirstRow returns the key of the row with which the occurrence of a nominal time waits. It has the id of
	// the occurrence's task.
	FirstRow func(c *Cron, l *catalog.Entry, revision *Revision, nominal, due task.Instant) store.WakeKey
	// PublicID returns the id of a task as users see it.
	PublicID func(t *task.Task) string
	// PayloadBytesMax is the largest payload that the store takes; 0: it takes that of any cron.
	PayloadBytesMax int
	Clock           clock.Clock
	// Traced returns the span of a call, for a cron that it makes; empty: it has none. It may be nil.
	Traced func(ctx context.Context) string
}

// Service serves crons. It is safe for concurrent use.
type Service struct {
	ServiceConfig

	crons    *control.Book[Cron]
	runs     *control.Book[manualRuns]
	counting chan struct{}
	created  atomic.Int64 // when the last cron was created, in microseconds
}

// NewService returns a Service.
func NewService(c ServiceConfig) *Service {
	return &Service{
		ServiceConfig: c, crons: NewBook(c.Store, c.Clock), runs: control.NewBook(c.Store, runsAsRows, c.Clock), counting: make(chan struct{}, countsMax),
	}
}

var errBusy = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the cron kept changing; try again")

func noCron(name string) error {
	return api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "there is no cron %.80q", name)
}

func (s *Service) find(ctx context.Context, name string) (*Cron, error) {
	if task.CheckName("cron", name) != nil {
		return nil, noCron(name)
	}
	c, err := s.crons.Find(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noCron(name)
	}
	return c, err
}

// change changes a cron, which has version 0 if it is not there.
func (s *Service) change(ctx context.Context, name string, edit func(c *Cron) (control.Do, error)) (*Cron, error) {
	c, err := s.Keeper.Change(ctx, name, edit)
	if errors.Is(err, store.ErrConflict) {
		err = errBusy
	}
	return c, err
}

// lambdaOf returns the lambda of a cron, unless it was deleted.
func (s *Service) lambdaOf(ctx context.Context, c *Cron) (*catalog.Entry, error) {
	l, err := s.Lambdas.FindRef(ctx, c.Ref)
	if err == nil && l == nil {
		err = refusal.Invalid("lambda %s of cron %s was deleted, and the cron fires no more: delete it, and create it again for a lambda that is there", c.Lambda, c.Name)
	}
	if err == nil && l.Deleting {
		err = api.Errorf(kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, "lambda %s of cron %s is being deleted", c.Lambda, c.Name)
	}
	return l, err
}

// SetCron creates a cron, or changes the version that the request has. A dry run answers what it would be.
func (s *Service) SetCron(ctx context.Context, r *kinesinv1.SetCronRequest) (_ *kinesinv1.SetCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	asked := r.GetCron()
	if asked == nil {
		return nil, refusal.Invalid("no cron given")
	}
	spec, l, err := s.specOf(ctx, asked)
	if err != nil {
		return nil, err
	}
	if asked.ManagedBy != "" {
		if err := task.CheckName("managed by", asked.ManagedBy); err != nil {
			return nil, err
		}
	}
	duplicate := false
	c, err := s.change(ctx, asked.Name, func(c *Cron) (control.Do, error) {
		isNew := c.Version == 0
		switch {
		case isNew && asked.Version > 0:
			return control.Keep, noCron(asked.Name)
		case isNew:
			*c = *s.newCron(asked.Name, spec, l, access.From(ctx).Name)
			c.ManagedBy = asked.ManagedBy
			if s.Traced != nil {
				c.Traceparent = s.Traced(ctx)
			}
		case isSame(c, spec, l) && c.ManagedBy == asked.ManagedBy: // also a call that is made again
			duplicate = true
			return control.Keep, nil
		case s.isRegistered(c):
			return control.Keep, registered(c)
		case isSame(c, spec, l) && asked.Version == c.Version:
			c.ManagedBy = asked.ManagedBy
		default:
			if err := s.give(ctx, c, asked, spec, l); err != nil {
				return control.Keep, err
			}
		}
		if r.DryRun {
			return control.Keep, nil
		}
		return control.Store, nil
	})
	if err != nil {
		return nil, err
	}
	if !duplicate && !r.DryRun {
		s.cancelOccurrences(ctx, c, replacedOf(c))
	}
	return s.answer(c, duplicate)
}

func (s *Service) answer(c *Cron, duplicate bool) (*kinesinv1.SetCronResponse, error) {
	response := &kinesinv1.SetCronResponse{Cron: s.view(c, nextMax), Duplicate: duplicate}
	if schedule, err := c.Now().Spec.Parse(c.Name); err == nil {
		response.Cron.Warning = schedule.Note(schedule.After(s.Clock.Now().Add(ChangeAfter).Time(), nextMax))
	}
	return response, nil
}

// differing names the settings of a request that a cron does not have, for people.
func differing(c *Cron, asked *kinesinv1.Cron, spec *Spec) string {
	var names []string
	have, want := settingsOf(&c.Now().Spec), settingsOf(spec)
	all := maps.Clone(have)
	maps.Copy(all, want)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != "class" && !bytes.Equal(have[name], want[name]) { // that goes with the priority
			names = append(names, strings.TrimSuffix(name, "_ms"))
		}
	}
	if c.ManagedBy != asked.ManagedBy {
		names = append(names, "managed_by")
	}
	return strings.Join(names, ", ")
}

func settingsOf(s *Spec) map[string]json.RawMessage {
	settings := map[string]json.RawMessage{}
	if data, err := json.Marshal(s); err == nil {
		_ = json.Unmarshal(data, &settings) // it is an object
	}
	return settings
}

// give gives a cron other settings.
func (s *Service) give(ctx context.Context, c *Cron, asked *kinesinv1.Cron, spec *Spec, l *catalog.Entry) error {
	version := asked.Version
	switch {
	case version == 0 && c.Ref != l.Ref:
		return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "cron %s exists, of another lambda: want another name", c.Name)
	case version == 0:
		return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "cron %s exists with other settings (%s): want another name, or a change of its version %d (kinesin cron set)",
			c.Name, differing(c, asked, spec), c.Version)
	case version != c.Version:
		return stale(c, version)
	case c.Ref != l.Ref:
		return refusal.Invalid("cron %s is of another lambda than %s, or of an earlier one of that name, and that cannot change: delete it and create another one", c.Name, l.Name)
	}
	now := s.Clock.Now()
	if err := c.Change(*spec, now); err != nil {
		return err
	}
	c.ManagedBy = asked.ManagedBy
	c.Updated, c.UpdatedBy = now, access.From(ctx).Name
	return nil
}

func stale(c *Cron, version uint64) error {
	return api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "cron %s is at version %d, not at %d: it was changed meanwhile; read it and change it again", c.Name, c.Version, version)
}
