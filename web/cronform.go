package web

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/cron"
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

func scheduleOf(k *kinesinv1.Cron) (*cron.Schedule, error) {
	config := cron.Config{
		Name: k.GetName(), Expression: k.GetSchedule(), Zone: k.GetZone(), Gap: cron.Gap(k.GetGap()), Fold: cron.Fold(k.GetFold()),
		Jitter: time.Duration(k.GetJitterMicros()) * time.Microsecond,
	}
	if k.GetStartMicros() != 0 {
		config.Start = time.UnixMicro(k.GetStartMicros())
	}
	if k.GetEndMicros() != 0 {
		config.End = time.UnixMicro(k.GetEndMicros())
	}
	return cron.Parse(config)
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

// lambdasForCrons returns the lambdas for which the viewer may create crons.
func (c *call) lambdasForCrons() (names []string, err error) {
	if !c.mayAny(access.Operate) {
		return nil, nil
	}
	response, err := c.Lambdas.ListLambdas(c.r.Context(), &kinesinv1.ListLambdasRequest{})
	for _, l := range response.GetLambdas() {
		if c.mayOperate(l.GetName()) && c.mayIn(access.Schedule, l.GetName(), "") && !l.GetDeleting() {
			names = append(names, l.GetName())
		}
	}
	return names, err
}

// typedCron returns the cron that a form describes.
func (c *call) typedCron() *kinesinv1.Cron {
	return &kinesinv1.Cron{
		Name: c.field("name"), Lambda: c.field("lambda"), Schedule: c.field("schedule"), Zone: c.field("zone"), Overlap: c.field("overlap"), CatchUp: c.field("catch-up"),
		Gap: c.field("gap"), Fold: c.field("fold"), Payload: c.payload(),
	}
}

// createCron creates a cron. Mistakes in it are said beside the form, which keeps what was typed.
func createCron(c *call) error {
	k := c.typedCron()
	response, err := c.Crons.SetCron(c.r.Context(), &kinesinv1.SetCronRequest{Cron: k})
	if err != nil {
		if p := problemOf(err); p.Status == http.StatusBadRequest || p.Status == http.StatusConflict {
			return c.cronsPage(p.Status, k, p.Text)
		}
		return err
	}
	return c.goTo(Prefix+"crons/"+url.PathEscape(response.GetCron().GetName()), "cron-created")
}

// backfillPlan is a backfill that is about to begin, with what it would schedule.
type backfillPlan struct {
	*kinesinv1.Job

	From, To, Pace string
	Many           bool // it has to be said that so many are meant
	Request        string
}

// backfillMany is how many occurrences a backfill has at most unless it is said that more are meant.
const backfillMany = 100_000

// backfill counts the occurrences of a range, and schedules them when that is confirmed.
func (c *call) backfill(name string) error {
	plan := &backfillPlan{From: c.field("from"), To: c.field("to"), Pace: c.field("pace"), Request: c.field("request")}
	request := &kinesinv1.BackfillCronRequest{Name: name, DryRun: c.field("confirmed") == "", All: c.field("all") != ""}
	var err error
	if request.FromMicros, err = c.past(plan.From); err != nil {
		return err
	}
	if request.ToMicros, err = c.past(plan.To); err != nil {
		return err
	}
	if request.Pace, err = parsePace(plan.Pace); err != nil {
		return err
	}
	if plan.Request == "" {
		plan.Request = newRequest()
	}
	request.RequestId = requestID(plan.Request)
	response, err := c.Crons.BackfillCron(c.r.Context(), request)
	if err != nil {
		return err
	}
	plan.Job = response.GetJob()
	if !request.GetDryRun() {
		return c.goTo(Prefix+"jobs/"+url.PathEscape(plan.GetId()), "job")
	}
	plan.Many = plan.GetMatched() > backfillMany
	// A typed duration stays the time that it was when it was counted.
	plan.From, plan.To = utcText(request.GetFromMicros()), utcText(request.GetToMicros())
	return c.cronPage(plan)
}

func utcText(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) }

// past reads a time that is over: a duration before now, a time, or nothing, which is now.
func (c *call) past(text string) (micros int64, err error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UnixMicro(), nil
	}
	ago := time.Duration(0)
	if text != "" {
		if ago, err = parseDuration(text); err != nil {
			return 0, invalid("time %q: want how long ago, such as 10m, 2h or 3d, or a time such as 2027-01-31T09:00:00Z", text)
		}
	}
	return c.now().Add(-ago).UnixMicro(), nil
}
