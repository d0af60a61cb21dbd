package web

import (
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/overview"
)

type workersBody struct {
	overview.Fleet

	Now time.Time
}

func (b *workersBody) title() string {
	return either(alone(&b.Fleet), "Workers", "Workers and servers")
}

// showWorkers shows workers, and if there are several, servers and their partitions.
func showWorkers(c *call) error {
	if !c.seesFleet() {
		return c.fleetDenied()
	}
	snap := c.live.snapshot()
	if snap.err != nil {
		return snap.err
	}
	b := &workersBody{snap.fleet, c.now()}
	if c.field("part") != "" {
		return c.part(workersLive(b))
	}
	return c.show(b.title(), Prefix+"workers", workersPage(b))
}

type jobsBody struct {
	Jobs []*kinesinv1.Job
	Live bool // one is under way
}

// showJobs lists the jobs that the viewer may know of.
func showJobs(c *call) error {
	response, err := c.Jobs.ListJobs(c.r.Context(), &kinesinv1.ListJobsRequest{})
	if err != nil {
		return err
	}
	b := &jobsBody{Jobs: response.GetJobs()}
	for _, j := range b.Jobs {
		b.Live = b.Live || j.GetState() == "running"
	}
	if c.field("part") != "" {
		return c.part(jobsLive(b))
	}
	return c.show("Jobs", Prefix+"jobs", jobsPage(b))
}

type jobBody struct {
	*kinesinv1.Job

	ReadOnly bool
	Changed  int64
}

// showJob shows a job and how far it is.
func showJob(c *call) error {
	response, err := c.Jobs.GetJob(c.r.Context(), &kinesinv1.GetJobRequest{Id: c.r.PathValue("id")})
	if err != nil {
		return err
	}
	b := &jobBody{Job: response.GetJob(), ReadOnly: c.ReadOnly}
	for _, n := range b.GetOutcomes() {
		b.Changed += n
	}
	if c.field("part") != "" {
		return c.part(jobLive(b))
	}
	return c.show("Job", Prefix+"jobs", jobPage(b))
}

// actOnJob pauses, resumes or stops a job.
func actOnJob(c *call) error {
	id := c.r.PathValue("id")
	if c.field("action") == "stop" {
		if err := c.because(); err != nil {
			return err
		}
	}
	if _, err := c.Jobs.ControlJob(c.r.Context(), &kinesinv1.ControlJobRequest{Id: id, Action: c.field("action")}); err != nil {
		return err
	}
	return c.goTo(jobPath(id), "changed")
}

const (
	auditShown = 200 // on a page, or with a filter a little more
	// With a filter, records are looked through in parts of auditPart, at most auditPartsMax of them.
	auditPart, auditPartsMax = 1000, 10
)

type auditBody struct {
	Records      []*kinesinv1.AuditRecord
	Since        string
	Who, Did, To string // what the fields contain, in any case
	Next         string
	First        bool // this is the first page
	Times        []string
}

// path returns the path of the page, for a time and from a cursor on.
func (b *auditBody) path(since, after string) string {
	return withQuery(Prefix+"audit", "since", since, "who", b.Who, "did", b.Did, "to", b.To, "after", after)
}

func (b *auditBody) isFiltered() bool { return b.Who+b.Did+b.To != "" }

// shows reports whether a record is what the page is to show.
func (b *auditBody) shows(r *kinesinv1.AuditRecord) bool {
	contains := func(text, part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	return contains(r.GetIdentity(), b.Who) && contains(r.GetAction(), b.Did) && contains(r.GetTarget(), b.To)
}

// showAudit lists who did what since the time that is asked for, newest first.
func showAudit(c *call) error {
	b := &auditBody{
		Since: c.field("since"), Who: c.field("who"), Did: c.field("did"), To: c.field("to"), First: c.field("after") == "",
		Times: []string{"1h", "24h", "7d", "30d"},
	}
	if b.Since == "" {
		b.Since = "24h"
	}
	d, err := parseDuration(b.Since)
	if err != nil {
		return err
	}
	if !c.seesAudit() {
		return problemError{problem{403, "Permission denied", c.caller.Denied(access.Admin, "").Error() + ".", "The audit log is for administrators of the whole installation."}}
	}
	request := &kinesinv1.ListAuditRequest{Since: c.now().Add(-d).UnixMicro(), Limit: auditShown, After: c.field("after"), NewestFirst: true}
	if b.isFiltered() {
		request.Limit = auditPart
	}
	for part := 0; part == 0 || part < auditPartsMax && request.After != "" && len(b.Records) < auditShown && b.isFiltered(); part++ {
		response, err := c.Access.ListAudit(c.r.Context(), request)
		if err != nil {
			return err
		}
		for _, r := range response.GetRecords() {
			if b.shows(r) {
				b.Records = append(b.Records, r)
			}
		}
		request.After = response.GetNext()
	}
	if request.After != "" {
		b.Next = b.path(b.Since, request.After)
	}
	return c.show("Audit", Prefix+"audit", auditPage(b))
}
