package cron

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Overlap says what becomes of an occurrence whose time comes while an earlier one has not ended.
type Overlap string

// The policies. The empty one is OverlapSkip.
const (
	OverlapAllow   Overlap = "allow"   // both run
	OverlapSkip    Overlap = "skip"    // it does not run
	OverlapQueue   Overlap = "queue"   // it waits; of several that would, the last one
	OverlapCancel  Overlap = "cancel"  // the earlier one is cancelled, and it runs after that
	OverlapReplace Overlap = "replace" // an earlier one that has not started is cancelled, else it waits
)

// CatchUp says what becomes of occurrences whose time passed while nothing could run them.
type CatchUp string

// The policies. The empty one is CatchUpLast.
const (
	CatchUpNone CatchUp = "none"
	CatchUpLast CatchUp = "last"
	CatchUpAll  CatchUp = "all" // one after the other
)

// Spec is what an operator says about a cron.
type Spec struct {
	Schedule string        `json:"schedule"`
	Zone     string        `json:"zone,omitempty"` // empty: UTC
	Start    task.Instant  `json:"start,omitempty"`
	End      task.Instant  `json:"end,omitempty"`
	JitterMS int64         `json:"jitter_ms,omitempty"`
	Gap      cronspec.Gap  `json:"gap,omitempty"`
	Fold     cronspec.Fold `json:"fold,omitempty"`

	Overlap         Overlap `json:"overlap,omitempty"`
	CatchUp         CatchUp `json:"catch_up,omitempty"`
	CatchUpMax      int     `json:"catch_up_max,omitempty"`       // of CatchUpAll; 0: as cronspec.Defaults
	CatchUpWithinMS int64   `json:"catch_up_within_ms,omitempty"` // of CatchUpAll; 0: as cronspec.Defaults
	FailuresMax     int     `json:"failures_max,omitempty"`       // so many in a row pause the cron; 0: none does

	Priority   string            `json:"priority,omitempty"`
	Class      uint8             `json:"class,omitempty"` // the index of Priority
	Collection string            `json:"collection,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
	Payload    []byte            `json:"payload,omitempty"` // {{nominal}} in it becomes the nominal time
}

// waits reports whether an occurrence waits until the one before it has ended.
func (s *Spec) waits() bool {
	return s.Overlap == OverlapQueue || s.Overlap == OverlapCancel || s.Overlap == OverlapReplace
}

// Parse returns the nominal times of a spec.
func (s *Spec) Parse(name string) (*cronspec.Schedule, error) {
	parsed, err := cronspec.Parse(cronspec.Config{
		Name: name, Expression: s.Schedule, Zone: s.Zone, Start: timeOf(s.Start), End: timeOf(s.End),
		Jitter: time.Duration(s.JitterMS) * time.Millisecond, Gap: s.Gap, Fold: s.Fold,
	})
	if err != nil {
		return nil, fmt.Errorf("%w schedule: %w", task.ErrInvalid, err)
	}
	return parsed, nil
}

func timeOf(i task.Instant) time.Time {
	if i.IsZero() {
		return time.Time{}
	}
	return i.Time()
}

// Validate checks what an operator gave, the priority and its lambda aside.
func (s *Spec) Validate(name string) error {
	_, err := s.Parse(name)
	errs := []error{task.CheckName("cron", name), err}
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w "+format, append([]any{task.ErrInvalid}, args...)...))
	}
	if !slices.Contains([]Overlap{"", OverlapAllow, OverlapSkip, OverlapQueue, OverlapCancel, OverlapReplace}, s.Overlap) {
		refuse("overlap %.20q: want allow, skip, queue, cancel or replace", s.Overlap)
	}
	if !slices.Contains([]CatchUp{"", CatchUpNone, CatchUpLast, CatchUpAll}, s.CatchUp) {
		refuse("catch-up %.20q: want none, last or all", s.CatchUp)
	}
	if bounded := s.CatchUpMax != 0 || s.CatchUpWithinMS != 0; bounded && s.CatchUp != CatchUpAll {
		refuse("catch-up: a bound of number or time goes with all, not with %s", cmp.Or(s.CatchUp, CatchUpLast))
	}
	if s.CatchUpMax < 0 || s.CatchUpMax > CatchUpMax {
		refuse("catch-up max %d: want 1 to %d", s.CatchUpMax, CatchUpMax)
	}
	if s.CatchUpWithinMS < 0 || s.CatchUpWithinMS > CatchUpWithinMax.Milliseconds() {
		refuse("catch-up within %s: want at most %s", time.Duration(s.CatchUpWithinMS)*time.Millisecond, CatchUpWithinMax)
	}
	if s.FailuresMax < 0 || s.FailuresMax > 1000 {
		refuse("failures max %d: want 0 (none) to 1000", s.FailuresMax)
	}
	if len(s.Payload) > PayloadBytesMax {
		refuse("payload of %d bytes: want at most %d, since each occurrence holds it", len(s.Payload), PayloadBytesMax)
	}
	if len(s.Collection) > 128 || !utf8.ValidString(s.Collection) || strings.ContainsFunc(s.Collection, unicode.IsControl) {
		refuse("collection: want at most 128 bytes of UTF-8 text without control characters")
	}
	_, err = task.TagsOf(s.Tags)
	return errors.Join(append(errs, err)...)
}

// askedSettings returns what is asked for, checked as far as it needs no lambda, and without what says the same as nothing.
func askedSettings(asked *kinesinv1.Cron) (*Spec, error) {
	spec, err := settings(asked)
	if err == nil && (asked.Start < 0 || asked.End < 0) {
		err = refusal.Invalid("the start or the end is before 1970: want the years 1970 to 2199")
	}
	if err == nil {
		err = spec.Validate(asked.Name)
	}
	if err != nil {
		return nil, err
	}
	return settings(cronspec.Stripped(asked))
}

// settings returns the settings of a cron of the wire.
func settings(w *kinesinv1.Cron) (*Spec, error) {
	jitter, err := millisOf("jitter", w.Jitter)
	if err != nil {
		return nil, err
	}
	within, err := millisOf("catch-up within", w.CatchUpWithin)
	return &Spec{
		Schedule: strings.TrimSpace(w.Schedule), Zone: w.Zone, Start: task.Instant(w.Start), End: task.Instant(w.End), JitterMS: jitter,
		Gap: cronspec.Gap(w.Gap), Fold: cronspec.Fold(w.Fold), Overlap: Overlap(w.Overlap), CatchUp: CatchUp(w.CatchUp),
		CatchUpMax: int(w.CatchUpMax), CatchUpWithinMS: within, FailuresMax: int(w.FailuresMax),
		Priority: w.Priority, Collection: w.Collection, Tags: w.Tags, Payload: w.Payload,
	}, err
}

// wire returns the settings as users see them, with the defaults.
func (s *Spec) wire() *kinesinv1.Cron {
	return cronspec.Completed(&kinesinv1.Cron{
		Schedule: s.Schedule, Zone: s.Zone, Start: int64(s.Start), End: int64(s.End), Jitter: s.JitterMS * 1000,
		Gap: string(s.Gap), Fold: string(s.Fold), Overlap: string(s.Overlap), CatchUp: string(s.CatchUp),
		CatchUpMax: uint32(s.CatchUpMax), CatchUpWithin: s.CatchUpWithinMS * 1000, FailuresMax: uint32(s.FailuresMax),
		Priority: s.Priority, Collection: s.Collection, Tags: s.Tags, Payload: s.Payload,
	})
}

func delivers(lambda string) error {
	return api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED, "lambda %s delivers to SQS, and crons of such lambdas are not supported yet: want a managed lambda", lambda)
}

// specOf returns what a request says about a cron, checked, and its lambda.
func (s *Service) specOf(ctx context.Context, asked *kinesinv1.Cron) (*Spec, *catalog.Entry, error) {
	spec, err := askedSettings(asked)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.Lambdas.Find(ctx, asked.Lambda)
	if err != nil {
		return nil, nil, err
	}
	schedule, err := s.fit(spec, asked.Name, &l.Lambda)
	if err != nil {
		return nil, nil, err
	}
	return spec, l, s.checkFires(spec, schedule)
}

// fit checks the settings of a cron with a name against its lambda, and completes them.
func (s *Service) fit(spec *Spec, name string, l *task.Lambda) (schedule *cronspec.Schedule, err error) {
	if l.Mode == task.Deliver {
		return nil, delivers(l.Name)
	}
	if spec.Class, err = l.Priority(spec.Priority); err != nil {
		return nil, err
	}
	if schedule, err = spec.Parse(name); err != nil {
		return nil, err
	}
	return schedule, s.checkPayload(spec)
}

// checkFires refuses a cron whose time is over.
func (s *Service) checkFires(spec *Spec, schedule *cronspec.Schedule) error {
	now := s.Clock.Now()
	if _, fires := schedule.Next(now.Add(ChangeAfter).Time()); !fires {
		return refusal.Invalid("%q fires no more after %s: want a later end, UNTIL or COUNT", spec.Schedule, now.Time().UTC().Format(time.RFC3339))
	}
	return nil
}

func (s *Service) checkPayload(spec *Spec) error {
	if n := payloadBytes(spec); s.PayloadBytesMax > 0 && n > s.PayloadBytesMax {
		return api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "payload of %d bytes, with the nominal time in it: want at most %d", n, s.PayloadBytesMax)
	}
	return nil
}

// payloadBytes returns how large the payload of an occurrence may be.
func payloadBytes(s *Spec) int {
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

// newCron returns a cron that is in charge of the nominal times from a moment after now on.
func (s *Service) newCron(name string, spec *Spec, l *catalog.Entry, by string) *Cron {
	now := s.Clock.Now()
	return &Cron{
		Name: name, Lambda: l.Name, Ref: l.Ref, Created: s.stamp(now), CreatedBy: by, Updated: now, UpdatedBy: by,
		Revisions: []Revision{{Number: 1, From: now.Add(ChangeAfter), Spec: *spec}},
	}
}

// stampsAheadMax bounds how far stamps are ahead of the clock.
const stampsAheadMax = time.Second

// stamp returns now, or the first instant after it that no other cron of this process was created at. The ids of
// occurrences follow from it: those of a cron that was deleted have ended, and if its clock stands still, as in a test, a
// cron of the same name must not take them for its own.
func (s *Service) stamp(now task.Instant) task.Instant {
	for {
		last := task.Instant(s.created.Load())
		at := now
		if last >= now && last < now.Add(stampsAheadMax) {
			at = last + 1
		}
		if s.created.CompareAndSwap(int64(last), int64(at)) {
			return at
		}
	}
}

// isSame reports whether a cron has these settings already.
func isSame(c *Cron, spec *Spec, l *catalog.Entry) bool {
	have, errHave := json.Marshal(c.Now().Spec)
	want, errWant := json.Marshal(spec)
	return errHave == nil && errWant == nil && c.Ref == l.Ref && bytes.Equal(have, want)
}
