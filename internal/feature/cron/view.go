package cron

import (
	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// nextMax is how many nominal times to come a cron shows, and listedNextMax in a list.
const (
	nextMax       = api.NominalMax
	listedNextMax = 1
)

// view returns a cron as users see it, with its next nominal times.
func (s *Service) view(c *Cron, next int) *kinesinv1.Cron {
	v := c.Now().Spec.wire()
	v.Name, v.Lambda, v.ManagedBy, v.Registered = c.Name, c.Lambda, c.ManagedBy, s.isRegistered(c)
	v.Revision, v.Version = c.Now().Number, c.Version
	v.Created, v.CreatedBy, v.Updated, v.UpdatedBy = int64(c.Created), c.CreatedBy, int64(c.Updated), c.UpdatedBy
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
