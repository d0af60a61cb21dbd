package cron

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

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
