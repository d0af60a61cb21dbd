package cron

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

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

// askedSettings returns what is asked for, checked as far as it needs no lambda.
func askedSettings(asked *kinesinv1.Cron) (*Spec, error) {
	jitter, err := millisOf("jitter", asked.Jitter)
	if err != nil {
		return nil, err
	}
	within, err := millisOf("catch-up within", asked.CatchUpWithin)
	if err != nil {
		return nil, err
	}
	if asked.Start < 0 || asked.End < 0 {
		return nil, refusal.Invalid("the start or the end is before 1970: want the years 1970 to 2199")
	}
	spec := &Spec{
		Schedule: strings.TrimSpace(asked.Schedule), Zone: asked.Zone, Start: task.Instant(asked.Start), End: task.Instant(asked.End), JitterMS: jitter,
		Gap: cronspec.Gap(asked.Gap), Fold: cronspec.Fold(asked.Fold), Overlap: Overlap(asked.Overlap), CatchUp: CatchUp(asked.CatchUp),
		CatchUpMax: int(asked.CatchUpMax), CatchUpWithinMS: within, FailuresMax: int(asked.FailuresMax),
		Priority: asked.Priority, Collection: asked.Collection, Tags: asked.Tags, Payload: asked.Payload,
	}
	if err := spec.Validate(asked.Name); err != nil {
		return nil, err
	}
	withoutDefaults(spec)
	return spec, nil
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

// withoutDefaults takes out what says the same as nothing, so that equal settings are stored equally.
func withoutDefaults(s *Spec) {
	isDefault(&s.Zone, "UTC")
	isDefault(&s.Gap, cronspec.GapShift)
	isDefault(&s.Fold, cronspec.FoldFirst)
	isDefault(&s.Overlap, OverlapSkip)
	isDefault(&s.CatchUp, CatchUpLast)
	isDefault(&s.CatchUpMax, CatchUpMaxDefault)
	isDefault(&s.CatchUpWithinMS, CatchUpWithinDefault.Milliseconds())
}

func isDefault[T comparable](setting *T, value T) {
	if *setting == value {
		*setting = *new(T)
	}
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
