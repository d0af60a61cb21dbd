package web

import (
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
)

const (
	historyShown   = 50
	previewShown   = 8
	calendarShown  = 60
	calendarOfEach = 5
)

type cronsBody struct {
	Crons   []*kinesinv1.Cron
	Next    []fire
	Now     time.Time
	Lambdas []string // for which the viewer may create one
	New     *kinesinv1.Cron
	Preview *previewBody
	Problem string // of the one that was to be created
}

// fire is a nominal time of a cron.
type fire struct {
	Micros       int64
	Cron, Lambda string
	Day          string // of the first of each day, in UTC
}

// showCrons lists crons, and when they fire next.
func showCrons(c *call) error {
	return c.cronsPage(http.StatusOK, &kinesinv1.Cron{Lambda: c.field("lambda"), Schedule: "0 2 * * *"}, "")
}

func (c *call) cronsPage(status int, typed *kinesinv1.Cron, problem string) error {
	response, err := c.Crons.ListCrons(c.r.Context(), &kinesinv1.ListCronsRequest{})
	if err != nil {
		return err
	}
	b := &cronsBody{Crons: response.GetCrons(), Now: c.now(), New: typed, Preview: c.preview(typed, previewShown), Problem: problem}
	if b.Lambdas, err = c.lambdasForCrons(); err != nil {
		return err
	}
	for _, k := range b.Crons {
		if k.GetPause() != nil {
			continue
		}
		for _, micros := range c.nominal(k, calendarOfEach) {
			b.Next = append(b.Next, fire{Micros: micros, Cron: k.GetName(), Lambda: k.GetLambda()})
		}
	}
	slices.SortFunc(b.Next, func(x, y fire) int { return int(min(1, max(-1, x.Micros-y.Micros))) })
	b.Next = b.Next[:min(len(b.Next), calendarShown)]
	day := ""
	for i := range b.Next {
		if of := time.UnixMicro(b.Next[i].Micros).UTC().Format("Monday 2 January"); of != day {
			b.Next[i].Day, day = of, of
		}
	}
	return c.showStatus(status, "Crons", Prefix+"crons", cronsPage(b))
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

type cronBody struct {
	*kinesinv1.Cron

	Now     time.Time
	History []*kinesinv1.CronOccurrence
	Operate bool
	Run     bool
	Preview *previewBody
	Plan    *backfillPlan
}

// showCron shows a cron and what became of its nominal times.
func showCron(c *call) error { return c.cronPage(nil) }

// backfillPlan is a backfill that is about to begin, with what it would schedule.
type backfillPlan struct {
	*kinesinv1.Job

	From, To, Pace string
	Many           bool // it has to be said that so many are meant
	Request        string
}

func (c *call) cronPage(plan *backfillPlan) error {
	ctx, name := c.r.Context(), c.r.PathValue("name")
	response, err := c.Crons.GetCron(ctx, &kinesinv1.GetCronRequest{Name: name})
	if err != nil {
		return err
	}
	k := response.GetCron()
	history, err := c.Crons.CronHistory(ctx, &kinesinv1.CronHistoryRequest{Name: name, Limit: historyShown})
	if err != nil {
		return err
	}
	b := &cronBody{Cron: k, Now: c.now(), History: history.GetOccurrences(), Operate: c.mayOperate(k.GetLambda()), Plan: plan}
	b.Run = b.Operate && c.mayIn(access.Schedule, k.GetLambda(), k.GetCollection())
	b.Preview = c.preview(k, previewShown)
	return c.show(k.GetName(), Prefix+"crons", cronPage(b))
}

// typedCron returns the cron that a form describes.
func (c *call) typedCron() *kinesinv1.Cron {
	return &kinesinv1.Cron{
		Name: c.field("name"), Lambda: c.field("lambda"), Schedule: c.field("schedule"), Zone: c.field("zone"), Overlap: c.field("overlap"), CatchUp: c.field("catch-up"),
		Gap: c.field("gap"), Fold: c.field("fold"), Payload: c.payload(),
	}
}

// previewCron shows when a schedule would fire, while somebody types it.
func previewCron(c *call) error {
	k := c.typedCron()
	if name := c.field("name"); name != "" && c.field("action") == "change" {
		response, err := c.Crons.GetCron(c.r.Context(), &kinesinv1.GetCronRequest{Name: name})
		if err != nil {
			return err
		}
		k = proto.CloneOf(response.GetCron())
		k.Schedule, k.Zone = c.field("schedule"), c.field("zone")
	}
	return c.part(previewPart(c.preview(k, previewShown)))
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
	return c.goTo(cronPath(response.GetCron().GetName()), "cron-created")
}

// actOnCron pauses, resumes, runs or changes a cron.
func actOnCron(c *call) error {
	ctx, name := c.r.Context(), c.r.PathValue("name")
	path := cronPath(name)
	switch c.field("action") {
	case "pause":
		request := &kinesinv1.PauseCronRequest{Name: name, Reason: c.field("reason")}
		if text := c.field("for"); text != "" {
			d, err := parseDuration(text)
			if err != nil {
				return err
			}
			request.Until = c.now().Add(d).UnixMicro()
		}
		if _, err := c.Crons.PauseCron(ctx, request); err != nil {
			return err
		}
		return c.goTo(path, "cron-paused")
	case "resume":
		if _, err := c.Crons.ResumeCron(ctx, &kinesinv1.ResumeCronRequest{Name: name}); err != nil {
			return err
		}
		return c.goTo(path, "cron-resumed")
	case "run":
		if _, err := c.Crons.RunCron(ctx, &kinesinv1.RunCronRequest{Name: name, RequestId: requestID(c.field("request"))}); err != nil {
			return err
		}
		return c.goTo(path, "cron-ran")
	case "backfill":
		return c.backfill(name)
	case "change":
		response, err := c.Crons.GetCron(ctx, &kinesinv1.GetCronRequest{Name: name})
		if err != nil {
			return err
		}
		k := proto.CloneOf(response.GetCron())
		k.Schedule, k.Zone = c.field("schedule"), c.field("zone")
		k.Revision, k.Created, k.CreatedBy, k.Updated, k.UpdatedBy, k.Pause, k.Next = 0, 0, "", 0, "", nil, nil
		if _, err := c.Crons.SetCron(ctx, &kinesinv1.SetCronRequest{Cron: k}); err != nil {
			return err
		}
		return c.goTo(path, "cron-changed")
	}
	return invalid("action %q: want pause, resume, run, backfill or change", c.field("action"))
}

// backfillMany is how many occurrences a backfill has at most unless it is said that more are meant.
const backfillMany = 100_000

// backfill counts the occurrences of a range, and schedules them when that is confirmed.
func (c *call) backfill(name string) error {
	plan := &backfillPlan{From: c.field("from"), To: c.field("to"), Pace: c.field("pace"), Request: c.field("request")}
	request := &kinesinv1.BackfillCronRequest{Name: name, DryRun: c.field("confirmed") == "", All: c.field("all") != ""}
	var err error
	if request.From, err = c.past(plan.From); err != nil {
		return err
	}
	if request.To, err = c.past(plan.To); err != nil {
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
		return c.goTo(jobPath(plan.GetId()), "job")
	}
	plan.Many = plan.GetMatched() > backfillMany
	// A typed duration stays the time that it was when it was counted.
	plan.From, plan.To = utcText(request.GetFrom()), utcText(request.GetTo())
	return c.cronPage(plan)
}

func utcText(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) }

// past reads a time that is over: a duration before now, a time, or nothing, which is now.
func (c *call) past(text string) (micros int64, err error) {
	if at, err := jsonform.ParseInstant(text); err == nil {
		return at, nil
	}
	ago := time.Duration(0)
	if text != "" {
		if ago, err = parseDuration(text); err != nil {
			return 0, invalid("time %q: want how long ago, such as 10m, 2h or 3d, or a time such as 2027-01-31T09:00:00Z", text)
		}
	}
	return c.now().Add(-ago).UnixMicro(), nil
}

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

// nominal returns the nominal times to come.
func (c *call) nominal(k *kinesinv1.Cron, count int) (micros []int64) {
	s, err := cronspec.Parse(cronspec.ConfigOf(k))
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
	s, err := cronspec.Parse(cronspec.ConfigOf(k))
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
