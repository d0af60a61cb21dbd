// Package periodic serves the CronService of the wire contract: it stores crons, pauses, resumes and deletes
// them, runs them out of turn and shows what became of their nominal times. A cron is a control row (package
// crons). The package reads the rows of occurrences, and neither decides about them nor changes them.
package periodic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/cron"
	"github.com/kinesin-io/kinesin/internal/crons"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// casTriesMax bounds how often a change is tried again because somebody else made one.
	casTriesMax = 16
	// nextMax is how many nominal times to come a cron shows, and listedNextMax in a list.
	nextMax       = api.NominalMax
	listedNextMax = 1
	// listBytesMax bounds a list.
	listBytesMax = api.MessageBytesMax / 4
	// pauseMax bounds for how long a cron may be paused before it resumes by itself.
	pauseMax = 10 * 366 * 24 * time.Hour
)

// Keeper stores crons so that they fire.
type Keeper interface {
	// Save stores a cron in place of the version that it was read at, and puts its first occurrence;
	// store.ErrConflict says that there is another version.
	Save(ctx context.Context, c *crons.Cron) error
	// PutBackfill puts occurrences for nominal times that have passed, due now, unless they are there.
	PutBackfill(ctx context.Context, c *crons.Cron, nominals []task.Instant) error
}

// Jobs runs backfills.
type Jobs interface {
	// CreateBackfill starts the job of a backfill of a cron of a lambda.
	CreateBackfill(ctx context.Context, b *crons.Backfill, lambda string, r *kinesinv1.BackfillCronRequest) (*kinesinv1.Job, error)
}

// Lambdas finds lambdas, also those that another process created a moment ago.
type Lambdas interface {
	Find(ctx context.Context, name string) (*catalog.Entry, error)
	FindRef(ctx context.Context, ref uint32) (*catalog.Entry, error)
	ByRef(ref uint32) *catalog.Entry
	CheckCurrent(ctx context.Context, e *catalog.Entry) error
}

// Tasks schedules and cancels tasks.
type Tasks interface {
	Cancel(ctx context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error)
	Schedule(ctx context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error)
}

// Config is what a Service is made of.
type Config struct {
	Store   crons.Store
	Keeper  Keeper
	Jobs    Jobs
	Lambdas Lambdas
	Tasks   Tasks
	// FirstRow returns the key of the row with which the occurrence of a nominal time waits. It has the id of
	// the occurrence's task.
	FirstRow func(c *crons.Cron, l *catalog.Entry, revision *crons.Revision, nominal, due task.Instant) store.WakeKey
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
	Config

	counting chan struct{}
}

// New returns a Service.
func New(c Config) *Service { return &Service{c, make(chan struct{}, countsMax)} }

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
	for range casTriesMax {
		c, err := crons.Find(ctx, s.Store, asked.Name)
		isNew := errors.Is(err, store.ErrNotFound)
		switch {
		case isNew && asked.Version > 0:
			return nil, noCron(asked.Name)
		case isNew:
			c = s.newCron(asked.Name, spec, l, access.From(ctx).Name)
			c.ManagedBy = managedBy(c, asked)
			if s.Traced != nil {
				c.Traceparent = s.Traced(ctx)
			}
		case err != nil:
			return nil, err
		case isSame(c, spec, l) && c.ManagedBy == managedBy(c, asked): // also a call that is made again
			return s.answer(c, true)
		case s.isRegistered(c):
			return nil, registered(c)
		case isSame(c, spec, l) && asked.Version == c.Version:
			// Nothing else fires, so that there is no first occurrence to put.
			c.ManagedBy = managedBy(c, asked)
			if r.DryRun {
				return s.answer(c, false)
			}
			if err := crons.Put(ctx, s.Store, c); !errors.Is(err, store.ErrConflict) {
				if err != nil {
					return nil, err
				}
				return s.answer(c, false)
			}
			continue
		default:
			if err := s.change(ctx, c, asked, spec, l); err != nil {
				return nil, err
			}
		}
		if r.DryRun {
			return s.answer(c, false)
		}
		err = s.Keeper.Save(ctx, c)
		switch {
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil:
			return nil, err
		}
		s.cancelOccurrences(ctx, c, replacedOf(c))
		return s.answer(c, false)
	}
	return nil, errBusy
}

func (s *Service) answer(c *crons.Cron, existed bool) (*kinesinv1.SetCronResponse, error) {
	response := &kinesinv1.SetCronResponse{Cron: s.view(c, nextMax), Existed: existed}
	if schedule, err := c.Now().Spec.Parse(c.Name); err == nil {
		response.Warning = schedule.SecondsNote(schedule.After(s.Clock.Now().Add(crons.ChangeAfter).Time(), nextMax))
	}
	return response, nil
}

var errBusy = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the cron kept changing; try again")

func noCron(name string) error {
	return api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "there is no cron %.80q", name)
}

// specOf returns what a request says about a cron, checked, and its lambda.
func (s *Service) specOf(ctx context.Context, asked *kinesinv1.Cron) (*crons.Spec, *catalog.Entry, error) {
	jitter, err := millisOf("jitter", asked.JitterMicros)
	if err != nil {
		return nil, nil, err
	}
	within, err := millisOf("catch-up within", asked.CatchUpWithinMicros)
	if err != nil {
		return nil, nil, err
	}
	if asked.StartMicros < 0 || asked.EndMicros < 0 {
		return nil, nil, refusal.Invalid("the start or the end is before 1970: want the years 1970 to 2199")
	}
	spec := &crons.Spec{
		Schedule: strings.TrimSpace(asked.Schedule), Zone: asked.Zone, Start: task.Instant(asked.StartMicros), End: task.Instant(asked.EndMicros), JitterMS: jitter,
		Gap: cron.Gap(asked.Gap), Fold: cron.Fold(asked.Fold), Overlap: crons.Overlap(asked.Overlap), CatchUp: crons.CatchUp(asked.CatchUp),
		CatchUpMax: int(asked.CatchUpMax), CatchUpWithinMS: within, FailuresMax: int(asked.FailuresMax),
		Priority: asked.Priority, Collection: asked.Collection, Tags: asked.Tags, Payload: asked.Payload,
	}
	if err := spec.Validate(asked.Name); err != nil {
		return nil, nil, err
	}
	withoutDefaults(spec)
	l, err := s.Lambdas.Find(ctx, asked.Lambda)
	if err != nil {
		return nil, nil, err
	}
	if l.Mode == task.Deliver {
		return nil, nil, delivers(l.Name)
	}
	if spec.Class, err = l.Priority(spec.Priority); err != nil {
		return nil, nil, err
	}
	schedule, err := spec.Parse(asked.Name)
	if err != nil {
		return nil, nil, err
	}
	if err := s.checkPayload(spec); err != nil {
		return nil, nil, err
	}
	if err := s.checkFires(spec, schedule); err != nil {
		return nil, nil, err
	}
	return spec, l, nil
}

// checkFires refuses a cron whose time is over.
func (s *Service) checkFires(spec *crons.Spec, schedule *cron.Schedule) error {
	now := s.Clock.Now()
	if _, fires := schedule.Next(now.Add(crons.ChangeAfter).Time()); !fires {
		return refusal.Invalid("%q fires no more after %s: want a later end, UNTIL or COUNT", spec.Schedule, now.Time().UTC().Format(time.RFC3339))
	}
	return nil
}

func (s *Service) checkPayload(spec *crons.Spec) error {
	if n := payloadBytes(spec); s.PayloadBytesMax > 0 && n > s.PayloadBytesMax {
		return api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "payload of %d bytes, with the nominal time in it: want at most %d", n, s.PayloadBytesMax)
	}
	return nil
}

// payloadBytes returns how large the payload of an occurrence may be.
func payloadBytes(s *crons.Spec) int {
	const name, longest = "{{nominal}}", "2027-01-31T09:00:00+01:00"
	return len(s.Payload) + bytes.Count(s.Payload, []byte(name))*(len(longest)-len(name))
}

// millisOf returns a duration of a request, which has whole milliseconds.
func millisOf(what string, micros int64) (int64, error) {
	if micros < 0 || micros%1000 != 0 {
		return 0, refusal.Invalid("%s %s: want whole milliseconds, and not less than 0", what, task.Micros(micros))
	}
	return micros / 1000, nil
}

// withoutDefaults takes out what says the same as nothing, so that equal settings are stored equally.
func withoutDefaults(s *crons.Spec) {
	isDefault(&s.Zone, "UTC")
	isDefault(&s.Gap, cron.GapShift)
	isDefault(&s.Fold, cron.FoldFirst)
	isDefault(&s.Overlap, crons.OverlapSkip)
	isDefault(&s.CatchUp, crons.CatchUpLast)
	isDefault(&s.CatchUpMax, crons.CatchUpMaxDefault)
	isDefault(&s.CatchUpWithinMS, crons.CatchUpWithinDefault.Milliseconds())
}

func isDefault[T comparable](setting *T, value T) {
	if *setting == value {
		*setting = *new(T)
	}
}

// newCron returns a cron that is in charge of the nominal times from a moment after now on.
func (s *Service) newCron(name string, spec *crons.Spec, l *catalog.Entry, by string) *crons.Cron {
	now := s.Clock.Now()
	return &crons.Cron{
		Name: name, Lambda: l.Name, Ref: l.Ref, Created: now, CreatedBy: by, Updated: now, UpdatedBy: by,
		Revisions: []crons.Revision{{Number: 1, From: now.Add(crons.ChangeAfter), Spec: *spec}},
	}
}

// isSame reports whether a cron has these settings already.
func isSame(c *crons.Cron, spec *crons.Spec, l *catalog.Entry) bool {
	have, errHave := json.Marshal(c.Now().Spec)
	want, errWant := json.Marshal(spec)
	return errHave == nil && errWant == nil && c.Ref == l.Ref && bytes.Equal(have, want)
}

// differing names the settings of a request that a cron does not have, for people.
func differing(c *crons.Cron, asked *kinesinv1.Cron, spec *crons.Spec) string {
	var names []string
	have, want := settingsOf(&c.Now().Spec), settingsOf(spec)
	all := maps.Clone(have)
	maps.Copy(all, want)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != "class" && !bytes.Equal(have[name], want[name]) { // that goes with the priority
			names = append(names, strings.TrimSuffix(name, "_ms"))
		}
	}
	if c.ManagedBy != managedBy(c, asked) {
		names = append(names, "managed_by")
	}
	return strings.Join(names, ", ")
}

func settingsOf(s *crons.Spec) map[string]json.RawMessage {
	settings := map[string]json.RawMessage{}
	if data, err := json.Marshal(s); err == nil {
		_ = json.Unmarshal(data, &settings) // it is an object
	}
	return settings
}

// nobody is the ManagedBy of a request that takes a cron out of its set.
const nobody = "none"

// managedBy returns the set of which a cron is after a request.
func managedBy(c *crons.Cron, asked *kinesinv1.Cron) string {
	switch asked.ManagedBy {
	case "":
		return c.ManagedBy
	case nobody:
		return ""
	}
	return asked.ManagedBy
}

// change gives a cron other settings.
func (s *Service) change(ctx context.Context, c *crons.Cron, asked *kinesinv1.Cron, spec *crons.Spec, l *catalog.Entry) error {
	version := asked.Version
	switch {
	case version == 0 && c.Ref != l.Ref:
		return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "cron %s exists, of another lambda: want another name", c.Name)
	case version == 0:
		return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "cron %s exists with other settings (%s): want another name, or a change of its version %d (kinesin cron update)",
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
	c.ManagedBy = managedBy(c, asked)
	c.Updated, c.UpdatedBy = now, access.From(ctx).Name
	return nil
}

func stale(c *crons.Cron, version uint64) error {
	return api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "cron %s is at version %d, not at %d: it was changed meanwhile; read it and change it again", c.Name, c.Version, version)
}

// PauseCron has a cron fire no more, from a moment later on.
func (s *Service) PauseCron(ctx context.Context, r *kinesinv1.PauseCronRequest) (_ *kinesinv1.PauseCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	reason := strings.TrimSpace(r.Reason)
	if err := crons.CheckReason(reason); err != nil {
		return nil, err
	}
	now, until := s.Clock.Now(), task.Instant(r.UntilMicros)
	if r.UntilMicros != 0 && (until <= now || until > now.Add(pauseMax)) {
		return nil, refusal.Invalid("until %s: want a time to come, within ten years, or none for a pause that lasts", time.UnixMicro(r.UntilMicros).UTC().Format(time.RFC3339))
	}
	c, err := s.changeNamed(ctx, r.Name, func(c *crons.Cron, now task.Instant) (bool, error) {
		by := access.From(ctx).Name
		if p := c.Now().Pause; p != nil && p.Reason == reason && p.Until == until && p.By == by {
			return false, nil
		}
		return true, c.PauseAt(crons.Pause{Reason: reason, By: by, At: now, Until: until}, now)
	})
	if err != nil {
		return nil, err
	}
	return &kinesinv1.PauseCronResponse{Cron: s.view(c, nextMax)}, nil
}

// ResumeCron has a cron fire again. One that is not paused stays as it is.
func (s *Service) ResumeCron(ctx context.Context, r *kinesinv1.ResumeCronRequest) (_ *kinesinv1.ResumeCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	c, err := s.changeNamed(ctx, r.Name, func(c *crons.Cron, now task.Instant) (bool, error) {
		if c.Now().Pause == nil {
			return false, nil
		}
		return true, c.Resume(now)
	})
	if err != nil {
		return nil, err
	}
	return &kinesinv1.ResumeCronResponse{Cron: s.view(c, nextMax)}, nil
}

// changeNamed changes a cron and stores it, unless change says that there is nothing to do.
func (s *Service) changeNamed(ctx context.Context, name string, change func(c *crons.Cron, now task.Instant) (changed bool, err error)) (*crons.Cron, error) {
	for range casTriesMax {
		c, err := s.find(ctx, name)
		if err != nil {
			return nil, err
		}
		if _, err := s.lambdaOf(ctx, c); err != nil {
			return nil, err
		}
		now := s.Clock.Now()
		changed, err := change(c, now)
		if err != nil || !changed {
			return c, err
		}
		c.Updated, c.UpdatedBy = now, access.From(ctx).Name
		err = s.Keeper.Save(ctx, c)
		if !errors.Is(err, store.ErrConflict) {
			return c, err
		}
	}
	return nil, errBusy
}

// DeleteCron deletes a cron. Its occurrences that were not dispatched are skipped, and the next one is
// cancelled at once, so that it does not wait for a time at which nothing happens.
func (s *Service) DeleteCron(ctx context.Context, r *kinesinv1.DeleteCronRequest) (_ *kinesinv1.DeleteCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	for range casTriesMax {
		c, err := s.find(ctx, r.Name)
		if err != nil {
			return nil, err
		}
		if s.isRegistered(c) {
			return nil, registered(c)
		}
		err = crons.Delete(ctx, s.Store, c)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			s.cancelNext(ctx, c)
		}
		return &kinesinv1.DeleteCronResponse{}, err
	}
	return nil, errBusy
}

// cancelNext cancels the next occurrence of a cron that is deleted.
func (s *Service) cancelNext(ctx context.Context, c *crons.Cron) {
	s.cancelOccurrences(ctx, c, slices.Concat(nextOf(c, s.Clock.Now(), 1), replacedOf(c)))
}

// cancelOccurrences cancels occurrences that will not run. If that fails they are skipped when they are due.
func (s *Service) cancelOccurrences(ctx context.Context, c *crons.Cron, all []nominal) {
	l, err := s.Lambdas.FindRef(ctx, c.Ref)
	if err != nil || l == nil {
		return
	}
	for _, n := range all {
		rows, err := s.Store.Wakeups(ctx, []store.WakeKey{s.FirstRow(c, l, n.revision, n.at, n.due)})
		if err == nil && len(rows) > 0 && !rows[0].ID.IsZero() {
			_, _ = s.Tasks.Cancel(ctx, &kinesinv1.CancelRequest{Ids: []string{s.PublicID(&rows[0])}}) // see above
		}
	}
}

func (s *Service) find(ctx context.Context, name string) (*crons.Cron, error) {
	if task.CheckName("cron", name) != nil {
		return nil, noCron(name)
	}
	c, err := crons.Find(ctx, s.Store, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noCron(name)
	}
	return c, err
}

// GetCron returns a cron.
func (s *Service) GetCron(ctx context.Context, r *kinesinv1.GetCronRequest) (_ *kinesinv1.GetCronResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	c, err := s.find(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	if _, err := s.Lambdas.FindRef(ctx, c.Ref); err != nil { // it may have been created a moment ago
		return nil, err
	}
	return &kinesinv1.GetCronResponse{Cron: s.view(c, nextMax)}, nil
}

// ListCrons returns the crons of a lambda, or of all lambdas that the caller may read, by name, without their
// payloads and each with the next nominal time only. A cron that would not fit an answer is refused.
func (s *Service) ListCrons(ctx context.Context, r *kinesinv1.ListCronsRequest) (_ *kinesinv1.ListCronsResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if r.Lambda != "" {
		if _, err := s.Lambdas.Find(ctx, r.Lambda); err != nil {
			return nil, err
		}
	}
	all, err := crons.All(ctx, s.Store)
	if err != nil {
		return nil, err
	}
	grants, size := access.From(ctx).Grants, 0
	response := &kinesinv1.ListCronsResponse{}
	for _, c := range all {
		if r.Lambda != "" && c.Lambda != r.Lambda || !grants.AllowSome(access.Read, c.Lambda) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v := s.view(c, listedNextMax)
		v.Payload = nil
		if size += v.SizeVT(); size > listBytesMax {
			return nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "the first %d crons fill an answer, which has %d bytes at most: want those of one lambda, or one cron", len(response.Crons), listBytesMax)
		}
		response.Crons = append(response.Crons, v)
	}
	slices.SortFunc(response.Crons, func(a, b *kinesinv1.Cron) int { return cmp.Compare(a.Name, b.Name) })
	return response, nil
}

// LambdaOf returns the lambda and the collection of a cron, for whoever decides who may see and change it.
func (s *Service) LambdaOf(ctx context.Context, name string) (lambda, collection string, err error) {
	c, err := s.find(ctx, name)
	if err != nil {
		return "", "", refusal.Wire(err)
	}
	return c.Lambda, c.Now().Spec.Collection, nil
}

// view returns a cron as users see it, with its next nominal times.
func (s *Service) view(c *crons.Cron, next int) *kinesinv1.Cron {
	spec := &c.Now().Spec
	v := &kinesinv1.Cron{
		Name: c.Name, Lambda: c.Lambda, Schedule: spec.Schedule, Zone: cmp.Or(spec.Zone, "UTC"), StartMicros: int64(spec.Start), EndMicros: int64(spec.End),
		JitterMicros: spec.JitterMS * 1000, Gap: string(cmp.Or(spec.Gap, cron.GapShift)), Fold: string(cmp.Or(spec.Fold, cron.FoldFirst)),
		Overlap: string(cmp.Or(spec.Overlap, crons.OverlapSkip)), CatchUp: string(cmp.Or(spec.CatchUp, crons.CatchUpLast)), FailuresMax: uint32(spec.FailuresMax),
		Priority: spec.Priority, Collection: spec.Collection, Tags: spec.Tags, Payload: spec.Payload,
		ManagedBy: c.ManagedBy, Registered: s.isRegistered(c),
		Revision: c.Now().Number, Version: c.Version, CreatedMicros: int64(c.Created), CreatedBy: c.CreatedBy, UpdatedMicros: int64(c.Updated), UpdatedBy: c.UpdatedBy,
	}
	if spec.CatchUp == crons.CatchUpAll {
		v.CatchUpMax = uint32(cmp.Or(spec.CatchUpMax, crons.CatchUpMaxDefault))
		v.CatchUpWithinMicros = cmp.Or(spec.CatchUpWithinMS, crons.CatchUpWithinDefault.Milliseconds()) * 1000
	}
	if v.LambdaDeleted = s.Lambdas.ByRef(c.Ref) == nil; v.LambdaDeleted {
		return v
	}
	if p := c.Now().Pause; p != nil {
		v.Pause = &kinesinv1.CronPause{Reason: p.Reason, By: p.By, AtMicros: int64(p.At), UntilMicros: int64(p.Until)}
		return v
	}
	for _, n := range nextOf(c, s.Clock.Now(), next) {
		v.NextMicros = append(v.NextMicros, int64(n.at))
	}
	return v
}
