package web

import (
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
)

type previewBody struct {
	Times   []nominal
	Change  int64     // when the clocks of the zone change next; 0: they do not, or it does not fire around then
	Around  []nominal // nominal times before and after it
	Zone    string
	Problem string
}

// nominal is a nominal time, also as the clocks of the cron's zone show it.
type nominal struct {
	Micros int64
	Local  string
}

func scheduleOf(k *kinesinv1.Cron) (*cronspec.Schedule, error) {
	config := cronspec.Config{
		Name: k.GetName(), Expression: k.GetSchedule(), Zone: k.GetZone(), Gap: cronspec.Gap(k.GetGap()), Fold: cronspec.Fold(k.GetFold()),
		Jitter: time.Duration(k.GetJitter()) * time.Microsecond,
	}
	if k.GetStart() != 0 {
		config.Start = time.UnixMicro(k.GetStart())
	}
	if k.GetEnd() != 0 {
		config.End = time.UnixMicro(k.GetEnd())
	}
	return cronspec.Parse(config)
}

// nominal returns the nominal times to come.
func (c *call) nominal(k *kinesinv1.Cron, count int) (micros []int64) {
	s, err := scheduleOf(k)
	if err != nil {
		return nil
	}
	for _, t := range s.After(c.now(), count) {
		micros = append(micros, t.UnixMicro())
	}
	return micros
}

// Of the nominal times around a change of clocks, which is where people err, a preview shows some before and
// after it.
const (
	aroundWithin = 36 * time.Hour
	aroundShown  = 3
	aroundMax    = 10_000 // that are looked at; one that fires more often needs no preview of that
)

// preview tells when a schedule would fire.
func (c *call) preview(k *kinesinv1.Cron, count int) *previewBody {
	b := &previewBody{Zone: k.GetZone()}
	s, err := scheduleOf(k)
	if err != nil {
		b.Problem = err.Error()
		return b
	}
	b.Times = nominals(s.After(c.now(), count), s.Zone())
	change := clockChange(c.now().In(s.Zone()))
	if change.IsZero() {
		return b
	}
	before, after := s.Between(change.Add(-aroundWithin), change, aroundMax), s.Between(change, change.Add(aroundWithin), aroundShown)
	if before = before[max(0, len(before)-aroundShown):]; len(before)+len(after) > 0 {
		b.Change, b.Around = change.UnixMicro(), nominals(slices.Concat(before, after), s.Zone())
	}
	return b
}

// clockChange returns when the clocks of the zone of a time change next, within a year or two; zero: they do
// not.
func clockChange(t time.Time) time.Time {
	const boundsMax = 5 // a zone also has some at which no clock changes
	_, before := t.Zone()
	for range boundsMax {
		_, end := t.ZoneBounds()
		if end.IsZero() {
			break
		}
		if _, after := end.Zone(); after != before {
			return end
		}
		t = end
	}
	return time.Time{}
}

func nominals(times []time.Time, zone *time.Location) (all []nominal) {
	for _, t := range times {
		all = append(all, nominal{t.UnixMicro(), t.In(zone).Format("Mon 2 Jan 15:04:05 MST")})
	}
	return all
}
