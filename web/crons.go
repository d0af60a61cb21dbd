package web

import (
	"net/http"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
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
