package web

import (
	"maps"
	"slices"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func cronsPage(b *cronsBody) g.Node {
	return g.Group{h.H1(text("Crons")), g.If(len(b.Lambdas) > 0, actions(newCron(b))), cronsList(b)}
}

// previewed makes a field show when a schedule would fire, on events of htmx.
func previewed(trigger string) g.Node {
	return g.Group{
		g.Attr("hx-get", Prefix+"crons/preview"), g.Attr("hx-include", "closest form"), g.Attr("hx-trigger", trigger), g.Attr("hx-target", "#preview"),
	}
}

// scheduleFields asks when a cron fires, with a preview that follows what is typed.
func scheduleFields(k *kinesinv1.Cron, preview *previewBody, hint g.Node) g.Node {
	typed := previewed("input changed delay:300ms")
	return g.Group{
		field("schedule", "Schedule", h.Value(k.GetSchedule()), h.Required(), size(24), asTyped(), g.If(hint != nil, describedBy("schedule-hint")), typed),
		hint,
		fieldAs("zone-name", "zone", "Zone", h.Value(k.GetZone()), size(20), asTyped(), h.Placeholder("UTC"), typed),
		h.Div(h.ID("preview"), h.Aria("live", "polite"), previewPart(preview)),
	}
}

func newCron(b *cronsBody) g.Node {
	policy := func(id, label, now string, all ...string) g.Node {
		return choice(id, label, previewed("change"), plainOptions(all, now))
	}
	k := b.New
	return details(
		"action wide", "Create…", g.If(b.Problem != "" || k.GetLambda() != "", g.Attr("open")),
		post(
			h.Action(Prefix+"crons"), wrong(b.Problem), field("name", "Name", h.Value(k.GetName()), h.Required(), size(24), unaided()),
			choice("lambda", "Lambda", plainOptions(b.Lambdas, k.GetLambda())),
			scheduleFields(k, b.Preview, hintBelow(
				"schedule-hint", text("Five or six fields such as "), code("0 2 * * *"), text(", "), code("@daily"),
				text(", "), code("@every 90s"), text(", or an RRULE."),
			)),
			policy("gap", "A time that clocks skip", k.GetGap(), "shift", "skip"),
			policy("fold", "A time that clocks show twice", k.GetFold(), "first", "both"),
			policy("overlap", "While the one before runs", k.GetOverlap(), "skip", "allow", "queue", "cancel", "replace"),
			policy("catch-up", "Missed occurrences", k.GetCatchUp(), "last", "none", "all"),
			payloadField("Payload", 3, string(k.GetPayload()), describedBy("payload-hint")),
			hintBelow("payload-hint", code("{{nominal}}"), text(" in it becomes the nominal time.")),
			primary("Create"),
		),
	)
}

func cronState(k *kinesinv1.Cron) g.Node {
	switch {
	case k.GetLambdaDeleted():
		return state("lambda deleted")
	case k.GetPause() != nil:
		return state("paused")
	}
	return state("active")
}

func zoneName(k *kinesinv1.Cron) string { return either(k.GetZone() != "", k.GetZone(), "UTC") }

func cronsList(b *cronsBody) g.Node {
	if len(b.Crons) == 0 {
		return empty(
			h.P(text("No cron yet. A cron schedules tasks of a lambda again and again.")),
			h.P(
				text(either(len(b.Lambdas) > 0, "Create one with the button above, or by: ", "Create one: ")),
				code("kinesin cron create nightly --lambda LAMBDA --schedule '0 2 * * *' --zone Europe/Paris"),
			),
		)
	}
	all := list(g.Group{th("Cron"), th("Lambda"), th("Schedule"), th("State"), th("Next")}, g.Map(b.Crons, func(k *kinesinv1.Cron) g.Node {
		next := text("–")
		if times := k.GetNext(); len(times) > 0 {
			next = moment(times[0])
		}
		return row(
			cronPath(k.GetName()), h.Td(link(cronPath(k.GetName()), k.GetName())), h.Td(lambdaLink(k.GetLambda())),
			h.Td(code(k.GetSchedule()), text(" "), note(text(zoneName(k)))), h.Td(cronState(k)), h.Td(next),
		)
	}))
	next := h.Ol(h.Class("calendar"), g.Map(b.Next, func(f fire) g.Node {
		return g.Group{
			g.If(f.Day != "", h.Li(h.Class("day"), text(f.Day+" (UTC)"))), h.Li(moment(f.Micros, asClock()), text(" "), link(cronPath(f.Cron), f.Cron)),
		}
	}))
	return h.Div(
		h.Class("columns wide-left"), section("all", "All", all),
		section("next", "Next fires", either(len(b.Next) > 0, next, none("None: all are paused, or over."))),
	)
}

// previewPart shows when a schedule would fire.
func previewPart(b *previewBody) g.Node {
	times := func(all []nominal) g.Node {
		return h.Ol(h.Class("calendar"), g.Map(all, func(n nominal) g.Node { return h.Li(moment(n.Micros, asClock()), text(" "), note(text(n.Local))) }))
	}
	switch {
	case b.Problem != "":
		return h.P(h.Class("wrong"), text(b.Problem))
	case len(b.Times) == 0:
		return none("It would never fire.")
	}
	return g.Group{
		meta(text("It would fire:")), times(b.Times),
		g.If(b.Change != 0, g.Group{meta(text("Around the change of clocks at "), moment(b.Change, asClock()), text(":")), times(b.Around)}),
	}
}

func cronPage(b *cronBody) g.Node {
	return g.Group{
		h.Div(h.Class("title"), h.H1(text(b.GetName())), cronState(b.Cron)),
		h.P(h.Class("lead"), lambdaLink(b.GetLambda()), text(" · "), code(b.GetSchedule()), text(" · "+zoneName(b.Cron))),
		g.Iff(b.GetPause() != nil, func() g.Node { return cronPaused(b.GetPause()) }),
		g.If(b.Operate, cronActions(b)),
		columns(
			section("next", "Next fires", either(len(b.GetNext()) > 0, calendar(b.GetNext()), none("None."))),
			section("settings", "Settings", facts(
				g.If(b.GetStart() != 0, fact("From", moment(b.GetStart()))), g.If(b.GetEnd() != 0, fact("Until", moment(b.GetEnd()))),
				fact("Overlap", text(b.GetOverlap())), fact("Catch-up", text(b.GetCatchUp()), g.If(b.GetCatchUp() == "all", note(
					text(" of at most "+strconv.Itoa(int(b.GetCatchUpMax()))+", of the last "+microsText(b.GetCatchUpWithin())),
				))),
				fact("Clock changes", text("gap: "+b.GetGap()+", fold: "+b.GetFold())),
				g.If(b.GetJitter() != 0, fact("Jitter", text("up to "+microsText(b.GetJitter())))),
				g.If(b.GetFailuresMax() != 0, fact("Pauses itself", textf("after %d failures in a row", b.GetFailuresMax()))),
				shown(b.Cron),
				g.Map(slices.Sorted(maps.Keys(b.GetTags())), func(name string) g.Node { return fact("Tag "+name, text(b.GetTags()[name])) }),
				g.If(len(b.GetPayload()) > 0, fact("Payload", text(numberOf(len(b.GetPayload()), "byte", "bytes")))),
				g.If(b.GetManagedBy() != "", fact("Declared in", text("the set "+b.GetManagedBy()))),
				g.If(b.GetRegistered(), fact("Declared in", text("the registration of its lambda, which alone changes it"))),
				fact("Created", moment(b.GetCreated()), text(" by "+b.GetCreatedBy())),
				fact("Changed", moment(b.GetUpdated()), text(" by "+b.GetUpdatedBy())),
			)),
		),
		section("history", "History", either(len(b.History) > 0, cronHistory(b.History), none("It has not fired yet."))),
	}
}

func cronPaused(p *kinesinv1.CronPause) g.Node {
	by := either(p.GetBy() != "", p.GetBy(), "its failure limit")
	return h.Div(h.Class("problems"), h.Role("status"), h.H2(text("Paused")), h.P(text(p.GetReason()+" "), note(
		text(by+", "), moment(p.GetAt()), g.If(p.GetUntil() != 0, g.Group{text(", until "), moment(p.GetUntil(), asClock())}),
	)))
}

func cronActions(b *cronBody) g.Node {
	pause := action(
		"Pause…", hidden("action", "pause"), h.P(text("The cron does not fire until it is resumed. Tasks that it has scheduled go on.")),
		field("reason", "Reason", h.Required(), size(30)), field("for", "For", size(8), h.Placeholder("1h")),
		meta(text("Empty: until somebody resumes it.")), danger("Pause"),
	)
	if b.GetPause() != nil {
		decides := titled("Its catch-up policy decides about the occurrences that it missed: " + b.GetCatchUp())
		pause = post(hidden("action", "resume"), primary("Resume", decides))
	}
	return actions(
		g.If(b.Run, post(
			hidden("action", "run", "request", newRequest()), button("Run now", titled("Schedules one task now, besides the occurrences")),
		)),
		pause,
		g.Iff(b.Run, func() g.Node { return backfillAction(b.Plan) }),
		wideAction(
			"Change the schedule…", hidden("action", "change", "name", b.GetName()), scheduleFields(b.Cron, b.Preview, nil), primary("Change"),
		),
	)
}

// backfillAction asks which times are to be filled back, and then whether they are.
func backfillAction(p *backfillPlan) g.Node {
	if p == nil {
		hint := describedBy("from-hint")
		return action(
			"Backfill…", hidden("action", "backfill"), h.P(text("It schedules the occurrences of a past range.")),
			field("from", "From", h.Required(), size(22), h.Placeholder("1d"), hint), field("to", "Until", size(22), h.Placeholder("now"), hint),
			hintBelow("from-hint", text("How long ago, such as 2h or 3d, or a time such as 2027-01-31T09:00:00Z.")),
			field("pace", "Tasks per second", numeric(), size(6)), primary("Count them"),
		)
	}
	pace := ""
	if p.Pace != "" {
		pace = ", " + p.Pace + " per second"
	}
	samples := p.GetBackfill().GetSample()
	return details("action", "Backfill…", g.Attr("open"), post(
		hidden("action", "backfill", "from", p.From, "to", p.To, "pace", p.Pace, "request", p.Request, "confirmed", "yes"),
		h.P(
			h.Role("status"), text("It would schedule "), strong(numberOf(p.GetMatched(), "task", "tasks")),
			text(pace+", with nominal times from "+p.From+" until "+p.To+". It runs as a job, which you can watch, pause and stop."),
		),
		g.If(len(samples) > 0, calendar(samples)), g.If(p.Many, agree("all", "Yes, schedule that many", h.Required())),
		buttons(g.If(p.GetMatched() > 0, g.Group{primary("Backfill"), text(" ")}), buttonLink("?", "Do nothing")),
	))
}

func cronHistory(all []*kinesinv1.CronOccurrence) g.Node {
	chars := shortIDChars(all, (*kinesinv1.CronOccurrence).GetId)
	heads := g.Group{th("Nominal time"), th("Outcome"), th("Task"), th("State"), thNumber("Late"), th("Why")}
	return list(heads, g.Map(all, func(o *kinesinv1.CronOccurrence) g.Node {
		to := taskPath(o.GetId())
		made := o.GetId() != ""
		return h.Tr(
			g.If(made, h.Data("href", to)), h.Td(moment(o.GetNominal(), asClock())), h.Td(state(o.GetOutcome())),
			either(made, tdShortID(to, o.GetId(), chars), h.Td(h.Class("id"), text("–"))), h.Td(g.If(o.GetState() != "", state(o.GetState()))),
			tdNumber(orDash(o.GetLate() != 0, microsText(o.GetLate()))), tdText(text(o.GetReason())),
		)
	}))
}
