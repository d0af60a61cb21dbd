package cron

import (
	"cmp"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
)

// nextMax is how many nominal times to come a cron shows, and listedNextMax in a list.
const (
	nextMax       = api.NominalMax
	listedNextMax = 1
)

// view returns a cron as users see it, with its next nominal times.
func (s *Service) view(c *Cron, next int) *kinesinv1.Cron {
	spec := &c.Now().Spec
	v := &kinesinv1.Cron{
		Name: c.Name, Lambda: c.Lambda, Schedule: spec.Schedule, Zone: cmp.Or(spec.Zone, "UTC"), Start: int64(spec.Start), End: int64(spec.End),
		Jitter: spec.JitterMS * 1000, Gap: string(cmp.Or(spec.Gap, cronspec.GapShift)), Fold: string(cmp.Or(spec.Fold, cronspec.FoldFirst)),
		Overlap: string(cmp.Or(spec.Overlap, OverlapSkip)), CatchUp: string(cmp.Or(spec.CatchUp, CatchUpLast)), FailuresMax: uint32(spec.FailuresMax),
		Priority: spec.Priority, Collection: spec.Collection, Tags: spec.Tags, Payload: spec.Payload,
		ManagedBy: c.ManagedBy, Registered: s.isRegistered(c),
		Revision: c.Now().Number, Version: c.Version, Created: int64(c.Created), CreatedBy: c.CreatedBy, Updated: int64(c.Updated), UpdatedBy: c.UpdatedBy,
	}
	if spec.CatchUp == CatchUpAll {
		v.CatchUpMax = uint32(cmp.Or(spec.CatchUpMax, CatchUpMaxDefault))
		v.CatchUpWithin = cmp.Or(spec.CatchUpWithinMS, CatchUpWithinDefault.Milliseconds()) * 1000
	}
	if v.LambdaDeleted = s.Lambdas.ByRef(c.Ref) == nil; v.LambdaDeleted {
		return v
	}
	if p := c.Now().Pause; p != nil {
		v.Pause = &kinesinv1.CronPause{Reason: p.Reason, By: p.By, At: int64(p.At), Until: int64(p.Until)}
		return v
	}
	for _, n := range nextOf(c, s.Clock.Now(), next) {
		v.Next = append(v.Next, int64(n.at))
	}
	return v
}
