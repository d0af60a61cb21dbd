package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func cronRoutes() []route {
	const path = "/v1/crons/{name}"
	return []route{
		op("GET", "/v1/crons", "listCrons", "List crons, without their payloads", listCrons, notFound, takes(param{"lambda", kindText, "only of this lambda"})),
		op("POST", "/v1/crons", "createCron", "Create a cron", createCron, without("version"), success(http.StatusCreated, http.StatusOK), notFound, conflict),
		op("GET", path, "getCron", "Read a cron", getCron, notFound),
		op("PUT", path, "updateCron", "Replace the settings of a cron", updateCron, without("name"), notFound, conflict, fails(http.StatusPreconditionFailed)),
		op("DELETE", path, "deleteCron", "Delete a cron", deleteCron, notFound),
		op("POST", path+"/pause", "pauseCron", "Have a cron fire no more", pauseCron, notFound, without("name")),
		op("POST", path+"/resume", "resumeCron", "Have a cron fire again", resumeCron, notFound),
		op("POST", path+"/run", "runCron", "Schedule a task as the cron would, now", runCron, success(http.StatusCreated), notFound, fails(http.StatusInsufficientStorage)),
		op("POST", path+"/backfill", "backfillCron", "Schedule the occurrences of a past range, as a job", backfillCron, without("name"),
			success(http.StatusCreated, http.StatusOK), notFound),
		op("GET", path+"/history", "getCronHistory", "See what became of nominal times, newest first", getCronHistory, notFound, takes(
			param{"limit", kindNumber, "20 when not set, at most 1000"}, param{"from", kindText, "a time by RFC 3339; as far back as limit reaches when not set"},
			param{"to", kindText, "a time by RFC 3339; now when not set"})),
	}
}

func createCron(c *call, r *kinesinv1.SetCronRequest) (int, *kinesinv1.Cron, error) {
	response, err := c.Crons.SetCron(c.r.Context(), r)
	return created(!r.GetDryRun() && !response.GetExisted()), response.GetCron(), err
}

func updateCron(c *call, r *kinesinv1.SetCronRequest) (int, *kinesinv1.Cron, error) {
	if r.GetCron().GetVersion() == 0 {
		return 0, nil, invalid("version is missing: want that of the cron as it was read; POST /v1/crons creates one")
	}
	r.Cron.Name = c.vars["name"]
	response, err := c.Crons.SetCron(c.r.Context(), r)
	return http.StatusOK, response.GetCron(), err
}

func listCrons(c *call, _ *none) (int, *kinesinv1.ListCronsResponse, error) {
	response, err := c.Crons.ListCrons(c.r.Context(), &kinesinv1.ListCronsRequest{Lambda: c.query.Get("lambda")})
	return http.StatusOK, response, err
}

func getCron(c *call, _ *none) (int, *kinesinv1.Cron, error) {
	response, err := c.Crons.GetCron(c.r.Context(), &kinesinv1.GetCronRequest{Name: c.vars["name"]})
	return http.StatusOK, response.GetCron(), err
}

func deleteCron(c *call, _ *none) (int, *kinesinv1.DeleteCronResponse, error) {
	response, err := c.Crons.DeleteCron(c.r.Context(), &kinesinv1.DeleteCronRequest{Name: c.vars["name"]})
	return http.StatusOK, response, err
}

func pauseCron(c *call, r *kinesinv1.PauseCronRequest) (int, *kinesinv1.Cron, error) {
	r.Name = c.vars["name"]
	response, err := c.Crons.PauseCron(c.r.Context(), r)
	return http.StatusOK, response.GetCron(), err
}

func resumeCron(c *call, _ *none) (int, *kinesinv1.Cron, error) {
	response, err := c.Crons.ResumeCron(c.r.Context(), &kinesinv1.ResumeCronRequest{Name: c.vars["name"]})
	return http.StatusOK, response.GetCron(), err
}

func runCron(c *call, _ *none) (int, *kinesinv1.RunCronResponse, error) {
	response, err := c.Crons.RunCron(c.r.Context(), &kinesinv1.RunCronRequest{Name: c.vars["name"]})
	return http.StatusCreated, response, err
}

func backfillCron(c *call, r *kinesinv1.BackfillCronRequest) (int, *kinesinv1.Job, error) {
	r.Name = c.vars["name"]
	response, err := c.Crons.BackfillCron(c.r.Context(), r)
	return created(!r.GetDryRun()), response.GetJob(), err
}

func getCronHistory(c *call, _ *none) (int, *kinesinv1.CronHistoryResponse, error) {
	limit, err := c.number("limit", 1000)
	if err != nil {
		return 0, nil, err
	}
	request := &kinesinv1.CronHistoryRequest{Name: c.vars["name"], Limit: limit}
	for name, into := range map[string]*int64{"from": &request.From, "to": &request.To} {
		if *into, err = c.moment(name); err != nil {
			return 0, nil, err
		}
	}
	response, err := c.Crons.CronHistory(c.r.Context(), request)
	return http.StatusOK, response, err
}

// moment returns a parameter that is a time; 0 when it is not there.
func (c *call) moment(name string) (int64, error) {
	text := c.query.Get(name)
	if text == "" {
		return 0, nil
	}
	at, err := jsonform.ParseInstant(text)
	if err != nil {
		return 0, invalid("parameter %s: %v", name, err)
	}
	return at, nil
}
