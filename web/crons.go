package web

import (
	"net/url"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/cron"
)

const (
	historyShown   = 50
	previewShown   = 8
	calendarShown  = 60
	calendarOfEach = 5
)

type cronsBody struct {
	Crons []*kinesinv1.Cron
	Next  []fire
	Now   time.Time
}

// fire is a nominal time of a cron.
type fire struct {
	Micros       int64
	Cron, Lambda string
	Day          string // of the first of each day, in UTC
}

// showCrons lists crons, and when they fire next.
func showCrons(c *call) error {
	response, err := c.Crons.ListCrons(c.r.Context(), &kinesinv1.ListCronsRequest{})
	if err != nil {
		return err
	}
	b := &cronsBody{Crons: response.GetCrons(), Now: c.now()}
	for _, k := range b.Crons {
		if k.GetPause() != nil {
			continue
		}
		for _, micros := range c.preview(k, calendarOfEach).Times {
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
	return c.show("crons", "Crons", Prefix+"crons", b)
}

type cronBody struct {
	*kinesinv1.Cron

	Now     time.Time
	History []*kinesinv1.CronOccurrence
	Operate bool
	Run     bool
	Preview *previewBody
}

// showCron shows a cron and what became of its nominal times.
func showCron(c *call) error {
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
	b := &cronBody{Cron: k, Now: c.now(), History: history.GetOccurrences(), Operate: c.mayOperate(k.GetLambda())}
	b.Run = b.Operate && c.mayIn(access.Schedule, k.GetLambda(), k.GetCollection())
	b.Preview = c.preview(k, previewShown)
	return c.show("cron", k.GetName(), Prefix+"crons", b)
}

type previewBody struct {
	Times   []int64
	Zone    string
	Problem string
}

// preview tells when a schedule would fire.
func (c *call) preview(k *kinesinv1.Cron, count int) *previewBody {
	b := &previewBody{Zone: k.GetZone()}
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
	s, err := cron.Parse(config)
	if err != nil {
		b.Problem = err.Error()
		return b
	}
	for _, t := range s.After(c.now(), count) {
		b.Times = append(b.Times, t.UnixMicro())
	}
	return b
}

// previewCron shows when a schedule would fire, while somebody types it.
func previewCron(c *call) error {
	k := &kinesinv1.Cron{Name: c.field("name"), Schedule: c.field("schedule"), Zone: c.field("zone")}
	if name := c.field("name"); name != "" {
		response, err := c.Crons.GetCron(c.r.Context(), &kinesinv1.GetCronRequest{Name: name})
		if err != nil {
			return err
		}
		k = proto.CloneOf(response.GetCron())
		k.Schedule, k.Zone = c.field("schedule"), c.field("zone")
	}
	return c.part("cron", "preview", c.preview(k, previewShown))
}

// actOnCron pauses, resumes, runs or changes a cron.
func actOnCron(c *call) error {
	ctx, name := c.r.Context(), c.r.PathValue("name")
	path := Prefix + "crons/" + url.PathEscape(name)
	switch c.field("action") {
	case "pause":
		request := &kinesinv1.PauseCronRequest{Name: name, Reason: c.field("reason")}
		if text := c.field("for"); text != "" {
			d, err := parseDuration(text)
			if err != nil {
				return err
			}
			request.UntilMicros = c.now().Add(d).UnixMicro()
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
	case "change":
		response, err := c.Crons.GetCron(ctx, &kinesinv1.GetCronRequest{Name: name})
		if err != nil {
			return err
		}
		k := proto.CloneOf(response.GetCron())
		k.Schedule, k.Zone = c.field("schedule"), c.field("zone")
		k.Revision, k.CreatedMicros, k.CreatedBy, k.UpdatedMicros, k.UpdatedBy, k.Pause, k.NextMicros = 0, 0, "", 0, "", nil, nil
		if _, err := c.Crons.SetCron(ctx, &kinesinv1.SetCronRequest{Cron: k}); err != nil {
			return err
		}
		return c.goTo(path, "cron-changed")
	}
	return invalid("action %q: want pause, resume, run or change", c.field("action"))
}
