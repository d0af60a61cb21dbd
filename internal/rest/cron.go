package rest

import (
	"encoding/json"
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// cronSettings are what a cron is about, as whoever sets it says.
type cronSettings struct {
	payload

	Lambda        string            `json:"lambda" jsonschema:"a managed lambda; cannot change"`
	Schedule      string            `json:"schedule" jsonschema:"five or six fields, @daily, @every 90s or an RRULE"`
	Zone          string            `json:"zone,omitempty" jsonschema:"an IANA name; UTC when not set"`
	Start         moment            `json:"start,omitzero" jsonschema:"no nominal time before it"`
	End           moment            `json:"end,omitzero" jsonschema:"no nominal time at or after it"`
	Jitter        duration          `json:"jitter,omitzero" jsonschema:"an occurrence is due later by less than this; at most 24h, in milliseconds"`
	Gap           string            `json:"gap,omitempty" jsonschema:"a time of day that a clock change leaves out: shift (when not set) or skip"`
	Fold          string            `json:"fold,omitempty" jsonschema:"a time of day that a clock change makes happen twice: first (when not set) or both"`
	Overlap       string            `json:"overlap,omitempty" jsonschema:"while an earlier occurrence has not ended: skip (when not set), allow, queue, cancel or replace"`
	CatchUp       string            `json:"catch_up,omitempty" jsonschema:"which missed occurrences run: last (when not set), none or all"`
	CatchUpMax    uint32            `json:"catch_up_max,omitempty" jsonschema:"of all: so many; 1000 when not set"`
	CatchUpWithin duration          `json:"catch_up_within,omitzero" jsonschema:"of all: those of so long; 24h when not set"`
	FailuresMax   uint32            `json:"failures_max,omitempty" jsonschema:"so many failed occurrences in a row pause it; 0: none does"`
	Priority      string            `json:"priority,omitempty" jsonschema:"of its tasks; the lambda's default when not set"`
	Collection    string            `json:"collection,omitempty" jsonschema:"of its tasks"`
	Tags          map[string]string `json:"tags,omitempty" jsonschema:"of its tasks"`
	ManagedBy     string            `json:"managed_by,omitempty" jsonschema:"the declared set that it is of; in a change: none takes it out, and it stays when not set"`
}

type cronRequest struct {
	Name string `json:"name"`

	cronSettings
}

type cronChange struct {
	Version uint64 `json:"version,omitempty" jsonschema:"of the cron as it was read; when not set the cron is created"`

	cronSettings
}

type pauseRequest struct {
	Reason string `json:"reason" jsonschema:"for those who miss its occurrences"`
	Until  moment `json:"until,omitzero" jsonschema:"when it resumes by itself; never when not set"`
}

type backfillRequest struct {
	From   moment `json:"from" jsonschema:"nominal times from here on"`
	To     moment `json:"to" jsonschema:"and before this, which has passed"`
	Pace   uint32 `json:"pace,omitempty" jsonschema:"tasks per second; 0: the recovery quota of the lambda, or as fast as the store allows"`
	All    bool   `json:"all,omitempty" jsonschema:"allows more than 100000 occurrences, up to 20 million"`
	DryRun bool   `json:"dry_run,omitempty" jsonschema:"only count"`
}

func cronRoutes() []route {
	const path = "/v1/crons/{name}"
	return []route{
		op("GET", "/v1/crons", "listCrons", "List crons, without their payloads", listCrons, notFound, takes(param{"lambda", kindText, "only of this lambda"})),
		op("POST", "/v1/crons", "createCron", "Create a cron", createCron, success(http.StatusCreated, http.StatusOK), notFound, conflict),
		op("GET", path, "getCron", "Read a cron", getCron, notFound),
		op("PUT", path, "updateCron", "Replace the settings of a cron, or create it", updateCron, success(http.StatusOK, http.StatusCreated), notFound, conflict, fails(http.StatusPreconditionFailed)),
		op("DELETE", path, "deleteCron", "Delete a cron", deleteCron, notFound),
		op("POST", path+"/pause", "pauseCron", "Have a cron fire no more", pauseCron, notFound),
		op("POST", path+"/resume", "resumeCron", "Have a cron fire again", resumeCron, notFound),
		op("POST", path+"/run", "runCron", "Schedule a task as the cron would, now", runCron, success(http.StatusCreated), notFound, fails(http.StatusInsufficientStorage)),
		op("POST", path+"/backfill", "backfillCron", "Schedule the occurrences of a past range, as a job", backfillCron,
			success(http.StatusCreated, http.StatusOK), notFound),
		op("GET", path+"/history", "getCronHistory", "See what became of nominal times, newest first", getCronHistory, notFound, takes(
			param{"limit", kindNumber, "20 when not set, at most 1000"}, param{"from", kindText, "a time by RFC 3339; as far back as limit reaches when not set"},
			param{"to", kindText, "a time by RFC 3339; now when not set"})),
	}
}

func (s *cronSettings) wire(name string, version uint64) (*kinesinv1.SetCronRequest, error) {
	data, err := s.bytes()
	if err != nil {
		return nil, invalid("%v", err)
	}
	return &kinesinv1.SetCronRequest{Cron: &kinesinv1.Cron{
		Name: name, Version: version, Lambda: s.Lambda, Schedule: s.Schedule, Zone: s.Zone, Start: int64(s.Start), End: int64(s.End),
		Jitter: s.Jitter.micros(), Gap: s.Gap, Fold: s.Fold, Overlap: s.Overlap, CatchUp: s.CatchUp, CatchUpMax: s.CatchUpMax,
		CatchUpWithin: s.CatchUpWithin.micros(), FailuresMax: s.FailuresMax, Priority: s.Priority, Collection: s.Collection, Tags: s.Tags, Payload: data,
		ManagedBy: s.ManagedBy,
	}}, nil
}

func createCron(c *call, r *cronRequest) (int, *kinesinv1.Cron, error) {
	return setCron(c, &r.cronSettings, r.Name, 0)
}

func setCron(c *call, s *cronSettings, name string, version uint64) (int, *kinesinv1.Cron, error) {
	request, err := s.wire(name, version)
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Crons.SetCron(c.r.Context(), request)
	return created(!response.GetExisted()), response.GetCron(), err
}

func updateCron(c *call, r *cronChange) (int, *kinesinv1.Cron, error) {
	status, view, err := setCron(c, &r.cronSettings, c.vars["name"], r.Version)
	if r.Version > 0 && err == nil {
		status = http.StatusOK // it was there
	}
	return status, view, err
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

func pauseCron(c *call, r *pauseRequest) (int, *kinesinv1.Cron, error) {
	response, err := c.Crons.PauseCron(c.r.Context(), &kinesinv1.PauseCronRequest{Name: c.vars["name"], Reason: r.Reason, Until: int64(r.Until)})
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

func backfillCron(c *call, r *backfillRequest) (int, *kinesinv1.Job, error) {
	response, err := c.Crons.BackfillCron(c.r.Context(), &kinesinv1.BackfillCronRequest{
		Name: c.vars["name"], From: int64(r.From), To: int64(r.To), Pace: r.Pace, All: r.All, DryRun: r.DryRun,
	})
	return created(!r.DryRun), response.GetJob(), err
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
	quoted, err := json.Marshal(text)
	if err != nil {
		return 0, invalid("parameter %s: %v", name, err)
	}
	var m moment
	if err := m.fromJSON(quoted); err != nil {
		return 0, invalid("parameter %s: %v", name, err)
	}
	return int64(m), nil
}
