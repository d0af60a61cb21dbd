package web

import (
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

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
