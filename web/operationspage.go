package web

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/overview"
)

func workersPage(b *workersBody) g.Node {
	return g.Group{
		liveTitle(b.title()),
		livePart(Prefix+"workers", workersLive(b)),
	}
}

func workersLive(b *workersBody) g.Node {
	if alone(&b.Fleet) {
		return workersList(b)
	}
	return g.Group{section("workers", "Workers", workersList(b)), section("servers", "Servers", serversList(b))}
}

// workerTasks leads to the tasks that a worker runs.
func workerTasks(id string) string {
	return tasksPath("worker="+quote(id)+" and state in (claimed,processing)", "", "")
}

func workersList(b *workersBody) g.Node {
	if len(b.Workers) == 0 {
		return empty(h.P(text("No worker has a lease, so nothing runs.")), h.P(text("Start one: "), code("kinesin worker --lambda LAMBDA -- COMMAND")))
	}
	heads := g.Group{
		th("Worker"), th("Version"), th("Lambdas"), thNumber("Slots used"), th("Last heartbeat"), thNumber("Lease"), th("Identity"), th("Lease id"),
	}
	return g.Group{
		list(heads, g.Map(b.Workers, func(w overview.Worker) g.Node {
			to := workerTasks(w.ID)
			return row(
				to, td(w.Name), td(orDash(w.Version != "", w.Version)), td(either(len(w.Lambdas) > 0, strings.Join(w.Lambdas, ", "), "any")),
				tdNumber(orDash(w.Here, slotsText(w))), h.Td(at(w.Heard)), tdNumber(durationText(w.Lease)), td(w.Owner),
				h.Td(h.Class("id"), link(to, w.ID, titled("The tasks that it runs"))),
			)
		})),
		meta(
			text(either(alone(&b.Fleet), "", "Slots are shown of workers that are connected to this server. ")+"The id of a lease leads to the tasks that its worker runs."),
			g.If(b.WorkersMax, text(" Only some are listed.")),
		),
	}
}

func slotsText(w overview.Worker) string {
	return strconv.Itoa(w.Used) + " of " + strconv.Itoa(w.Slots)
}

func serversList(b *workersBody) g.Node {
	if len(b.Servers) == 0 {
		return none("This server does not have the role scheduler, so it does not know who owns the partitions.")
	}
	owners := text(", all with an owner")
	if b.Unowned > 0 {
		owners = g.Group{text(", "), bad(strconv.Itoa(b.Unowned) + " without an owner that handles them")}
	}
	return g.Group{
		table(g.Group{th("Server"), th("Version"), th("State"), thNumber("Partitions"), th("Which")}, g.Map(b.Servers, func(s overview.Server) g.Node {
			return h.Tr(
				h.Td(text(s.Name), g.If(s.Self, g.Group{text(" "), badge("calm", "this one")})), td(orDash(s.Version != "", s.Version)),
				h.Td(state(either(s.Alive, s.State, "silent"))), tdNumber(number(s.Partitions)), tdText(either(len(s.Owns) > 0, owned(s.Owns), text("–"))),
			)
		})),
		meta(text(numberOf(b.Partitions, "partition", "partitions")), owners, text("."), g.If(b.OwnedMax, text(" Not all are listed."))),
		h.H3(text("Hand-overs to and from this server")), moves(b.Moves),
	}
}

func owned(all []overview.Owned) g.Node {
	return shownOnDemand(h.Ul(h.Class("plain"), g.Map(all, func(o overview.Owned) g.Node {
		return h.Li(lambdaLink(o.Lambda), text(" "), note(text(o.Priority+", shards "+ranges(o.Shards))))
	})))
}

func moves(all []overview.Moved) g.Node {
	if len(all) == 0 {
		return none("None since this server started.")
	}
	return g.Group{
		table(g.Group{th("When"), thNumber("Partitions gained"), thNumber("Given up"), thNumber("Read ahead in")}, g.Map(all, func(m overview.Moved) g.Node {
			return h.Tr(h.Td(at(m.At)), tdNumber(number(m.Gained)), tdNumber(number(m.Lost)), tdNumber(orDash(m.Warm != 0, durationText(m.Warm))))
		})),
		meta(textf("The newest %d since this server started. Partitions also come with a lambda that is created, and go with one that is deleted.", len(all))),
	}
}

func jobsPage(b *jobsBody) g.Node {
	return g.Group{h.H1(text("Jobs")), g.If(b.Live, ticks()), livePart(Prefix+"jobs", jobsLive(b))}
}

func jobsLive(b *jobsBody) g.Node {
	if len(b.Jobs) == 0 {
		return empty(
			h.P(text("No job. A job changes all tasks of a filter.")),
			h.P(text("Begin one on the page "), link(Prefix+"tasks", "Tasks"), text(": choose “all that match the filter”.")),
		)
	}
	chars := shortIDChars(b.Jobs, (*kinesinv1.Job).GetId)
	heads := g.Group{th("Job"), th("Does"), th("Filter"), th("State"), thNumber("Met"), thNumber("Per second"), th("Began"), th("By")}
	return list(heads, g.Map(b.Jobs, func(j *kinesinv1.Job) g.Node {
		to := jobPath(j.GetId())
		return row(
			to, tdShortID(to, j.GetId(), chars), td(j.GetAction()), tdText(jobFilter(short(j.GetWhere()))), h.Td(state(j.GetState())),
			tdNumber(number(j.GetMatched())), tdNumber(orDash(j.GetPace() > 0, strconv.Itoa(int(j.GetPace())))),
			h.Td(moment(j.GetCreated())), td(j.GetCreatedBy()),
		)
	}))
}

func jobFilter(where string) g.Node { return either(where != "", wrapped(where), text("every task")) }

func jobPage(b *jobBody) g.Node {
	to, chars := jobPath(b.GetId()), shortIDChars(b.GetRefused(), (*kinesinv1.JobRefusal).GetId)
	return g.Group{
		h.H1(text("Job")), h.P(h.Class("lead id"), text(b.GetId())), g.If(b.GetState() == "running", ticks()), livePart(to, jobLive(b)),
		g.If(!b.ReadOnly && b.GetEnded() == 0, action(
			"Stop…", h.Action(to), hidden("action", "stop"), h.P(text("The job ends. Tasks that it has changed stay changed.")),
			reasonField("Reason", h.Required(), size(30)), buttons(danger("Stop the job")),
		)),
		g.If(len(b.GetRefused()) > 0, section("refused", "Tasks that it could not change", list(
			g.Group{th("Task"), th("Why")}, g.Map(b.GetRefused(), func(r *kinesinv1.JobRefusal) g.Node {
				return row(taskPath(r.GetId()), tdShortID(taskPath(r.GetId()), r.GetId(), chars), tdText(text(r.GetText())))
			}),
		))),
	}
}

func jobLive(b *jobBody) g.Node {
	pace := "as fast as the store allows"
	if b.GetPace() > 0 {
		pace = numberOf(b.GetPace(), "task", "tasks") + " per second"
	}
	change := button("Pause", forAction("pause"))
	if b.GetState() == "paused" {
		change = primary("Resume", forAction("resume"))
	}
	return g.Group{
		h.Div(
			h.Class("tiles"), h.Role("status"), tile("State", state(b.GetState()), text(b.GetAction())),
			tile("Met", text(number(b.GetMatched())), text("tasks that match, so far")),
			g.Map(slices.Sorted(maps.Keys(b.GetOutcomes())), func(outcome string) g.Node {
				return tile(outcome, text(number(b.GetOutcomes()[outcome])), text("tasks"))
			}),
		),
		g.If(b.GetProblem() != "", h.Div(h.Class("problems"), h.H2(text("Problem")), h.P(text(b.GetProblem())))),
		facts(
			fact("Filter", jobFilter(b.GetWhere())), fact("Pace", text(pace)), fact("Rows read", text(number(b.GetExamined()))),
			fact("Began", moment(b.GetCreated()), text(" by "+b.GetCreatedBy())),
			g.If(b.GetEnded() != 0, fact("Ended", moment(b.GetEnded()))),
		),
		g.If(!b.ReadOnly && b.GetEnded() == 0, post(h.Action(jobPath(b.GetId())), buttons(change))),
	}
}

func auditPage(b *auditBody) g.Node {
	pages := h.Nav(h.Class("pages"), labelled("Pages"), g.If(!b.First, link(b.path(b.Since, ""), "Newest records")), nextPage(b.Next, "Earlier records"))
	heads := g.Group{th("When"), th("Who"), th("From"), th("Did"), th("To"), th("Outcome"), thNumber("Times"), th("Change")}
	records := list(heads, g.Map(b.Records, func(r *kinesinv1.AuditRecord) g.Node {
		return h.Tr(
			h.Td(moment(r.GetAt())), td(r.GetIdentity()), td(r.GetFrom()), td(r.GetAction()), tdText(text(short(r.GetTarget()))),
			tdText(state(r.GetOutcome())), tdNumber(strconv.Itoa(int(max(1, r.GetCount())))), tdText(auditChange(r)),
		)
	}))
	switch {
	case len(b.Records) == 0 && b.isFiltered():
		records = empty(h.P(text(either(b.Next == "", "Nothing of that was recorded in this time.", "Nothing of that is among the records that were looked through."))))
	case len(b.Records) == 0:
		records = empty(
			h.P(text("Nothing was recorded in this time.")),
			h.P(text("The audit log records changes, refusals and reads of payloads, with the name of who made them.")),
		)
	}
	part := func(id, label, value string) g.Node { return field(id, label, h.Value(value), unaided()) }
	return g.Group{
		h.H1(text("Audit")),
		filter(Prefix+"audit", hidden("since", b.Since), part("who", "Who", b.Who), part("did", "Did", b.Did), part("to", "To", b.To), primary("Show")),
		quickLinks("Time", g.Map(b.Times, func(t string) g.Node { return link(b.path(t, ""), "Last "+t, current(t == b.Since)) })),
		meta(text("Newest first.")), records, g.If(len(b.Records) > 0 || b.Next != "", pages),
	}
}

func auditChange(r *kinesinv1.AuditRecord) g.Node {
	part := func(name, value string) g.Node { return g.If(value != "", g.Group{meta(text(name)), failure(value)}) }
	return g.If(r.GetBefore() != "" || r.GetAfter() != "", shownOnDemand(part("Before", r.GetBefore()), part("After", r.GetAfter())))
}
