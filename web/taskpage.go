package web

import (
	"maps"
	"slices"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func taskPage(b *taskBody) g.Node {
	return g.Group{
		h.Div(
			h.Class("title"), h.H1(h.Class("id"), text(b.GetId())), state(b.GetState()),
			g.If(b.GetCancelRequested(), badge("warn", "cancel requested")), g.If(b.GetSuspect(), badge("bad", "suspect")),
		),
		h.P(h.Class("lead"), lambdaLink(b.GetLambda()), g.If(b.Late != "", text(" · "+b.Late))),
		g.Iff(b.Wait != nil, func() g.Node { return taskWaits(b) }),
		g.If(b.Cancel || b.Move || b.Redrive, taskActions(b)),
		columns(taskTimeline(b.Steps), taskSettings(b)),
		g.Iff(b.Related != nil, func() g.Node { return relatedParts(b.Related) }),
		section("tries", "Attempts", taskTries(b.Tries)),
		columns(section("payload", "Payload", taskPayload(b)), section("result", "Result", taskResult(b))),
	}
}

func taskWaits(b *taskBody) g.Node {
	until := b.Wait.GetUntil()
	return h.Div(
		h.Class("problems"), h.Role("status"), h.H2(text(waitsText(b.Wait.GetReason()))),
		h.P(
			text(b.Wait.GetText()), g.If(until != 0, g.Group{text(" Until "), moment(until), text(".")}), text(" "),
			link(lambdaPath(b.GetLambda()), "See what holds "+b.GetLambda()+" back"),
		),
	)
}

// succeeded reports whether a task has done what it was for.
func (b *taskBody) succeeded() bool { return b.GetState() == "success" || b.GetState() == "delivered" }

func taskActions(b *taskBody) g.Node {
	about := "This task starts anew under the same id. Its attempts count anew; the history stays."
	if b.succeeded() {
		about = "It succeeded. It would run once more."
	}
	return actions(
		g.If(b.Move, g.Group{
			post(hidden("action", "run-now"), button("Run now", titled("It is due now, and starts as soon as a worker is free"))),
			action(
				"Reschedule…", hidden("action", "reschedule"),
				field("when", "Due in, or at", h.Value("10m"), h.Required(), size(22), describedBy("when-hint")),
				hintBelow("when-hint", text(sentence(whenWant))), ownZone(""),
				primary("Reschedule"),
			),
		}),
		g.If(b.Redrive, action(
			"Redrive…", hidden("action", "redrive", "request", newRequest()), g.If(b.succeeded(), hidden("force", "yes")), h.P(text(about)), primary("Redrive"),
		)),
		g.If(b.Cancel, action(
			"Cancel…", hidden("action", "cancel"), h.P(text(either(b.Running, "Its worker is asked to stop it.", "This one task never starts."))),
			field("reason", "Reason", h.Required(), reasonMax(), size(30)), danger("Cancel the task"),
		)),
	)
}

func taskTimeline(steps []step) g.Node {
	return section("life", "Timeline", h.Ol(h.Class("timeline"), g.Map(steps, func(s step) g.Node {
		return h.Li(
			g.If(s.Ahead, h.Class("ahead")), h.Span(h.Class("what"), text(s.Name)), text(" "), moment(s.Micros), text(" "),
			h.Span(h.Class("meta n"), text(s.After)),
		)
	})))
}

func taskSettings(b *taskBody) g.Node {
	attempts := strconv.Itoa(int(b.GetFailures())) + " failed of " + strconv.Itoa(int(b.GetMaxAttempts()))
	if n := b.GetWorkerLost(); n > 0 {
		attempts += "; " + strconv.Itoa(int(n)) + " lost with their worker"
	}
	occurrence := b.GetOccurrence()
	return section("facts", "Settings", facts(
		g.If(b.GetKey() != "", fact("Key", code(b.GetKey()))),
		shown(b.Task, "key"),
		fact("Attempts", text(attempts)),
		g.If(b.GetWorker() != "", fact("Worker", link(tasksPath("worker="+quote(b.GetWorker()), "", ""), b.GetWorker()))),
		g.If(b.GetStartBefore() != 0, fact("Start before", moment(b.GetStartBefore()))),
		g.If(b.GetTimeout() != 0, fact("Timeout", text(microsText(b.GetTimeout())))),
		g.If(b.GetBackoffMin() != 0, fact("Backoff", text(microsText(b.GetBackoffMin())+" to "+microsText(b.GetBackoffMax())))),
		g.If(occurrence != nil, fact(
			"Cron", link(cronPath(occurrence.GetCron()), occurrence.GetCron()),
			text(either(occurrence.GetBackfill(), ", a backfill for ", ", for ")), moment(occurrence.GetNominal()),
		)),
		g.Map(slices.Sorted(maps.Keys(b.GetTags())), func(name string) g.Node {
			value := b.GetTags()[name]
			return fact("Tag "+name, link(tasksPath("tag."+name+"="+quote(value), "", ""), value))
		}),
		g.If(b.GetTraceparent() != "", fact(
			"Trace", g.If(b.Trace != "", g.Group{link(b.Trace, "Show the trace", h.Rel("noreferrer")), h.Br()}), code(b.GetTraceparent()),
		)),
	))
}

// relatedParts shows the chain and the group of a task.
func relatedParts(r *related) g.Node {
	return g.Group{
		g.Map(r.Missing, func(what string) g.Node { return meta(text(what)) }),
		g.Iff(r.Chain != nil, func() g.Node {
			return section(
				"chain", "Chain",
				meta(
					state(r.Chain.GetState()), text(" "+numberOf(r.Chain.GetCount(), "task is there", "tasks are there")),
					text(either(r.Chain.GetMore(), "; only some are shown.", ".")),
				),
				h.Ol(h.Class("tree"), chainTask(r.Chain.GetRoot(), r.Self)),
			)
		}),
		g.Iff(r.Group != nil, func() g.Node { return groupPart(r) }),
	}
}

// chainTask shows a task of a chain, and those that follow it.
func chainTask(t *kinesinv1.ChainTask, self string) g.Node {
	var when g.Node
	switch {
	case t.GetEnded() != 0:
		when = g.Group{text("ended "), moment(t.GetEnded())}
	case t.GetStarted() != 0:
		when = g.Group{text("started "), moment(t.GetStarted())}
	case t.GetDue() != 0:
		when = g.Group{text("due "), moment(t.GetDue())}
	case t.GetDelay() != 0:
		when = text(microsText(t.GetDelay()) + " later")
	}
	return h.Li(
		h.Span(
			h.Class("node"),
			g.If(t.GetEdge() != "", g.Group{note(text(t.GetEdge())), text(" ")}),
			either(t.GetId() != "", link(taskPath(t.GetId()), t.GetLambda(), current(t.GetId() == self)), text(t.GetLambda())),
			text(" "), state(t.GetState()), g.If(t.GetPaused(), g.Group{text(" "), state("paused")}), text(" "),
			note(
				when, g.If(t.GetAttempt() > 1, textf(", attempt %d", t.GetAttempt())), g.If(t.GetWaitsFor() != "", text("; waits for "+t.GetWaitsFor())),
				g.If(t.GetBeforeRedrive(), text(" (from before a redrive)")),
			),
			g.If(t.GetError() != "", g.Group{text(" "), wrapped(short(t.GetError()))}),
		),
		g.Iff(len(t.GetFollowups()) > 0, func() g.Node {
			return h.Ol(g.Map(t.GetFollowups(), func(next *kinesinv1.ChainTask) g.Node { return chainTask(next, self) }))
		}),
	)
}

func groupPart(r *related) g.Node {
	of, chars := r.Group, shortIDChars(r.Members, func(m *kinesinv1.MemberOfGroup) string { return m.GetTask().GetId() })
	followUp := text("Its follow-up, when all have ended:")
	if of.GetFollowUp() != "" {
		followUp = link(taskPath(of.GetFollowUp()), "Its follow-up", current(of.GetFollowUp() == r.Self))
	}
	return section(
		"group", "Group",
		meta(
			state(of.GetState()), text(" "+numberOf(of.GetMembers(), "member", "members")),
			g.Map(r.Ends, func(e end) g.Node { return text(" · " + number(e.Count) + " " + e.State) }),
			g.If(of.GetExpires() != 0, g.Group{text(" · expires "), moment(of.GetExpires())}),
			g.If(of.GetProblem() != "", g.Group{text(" · "), bad(of.GetProblem())}),
		),
		h.Ol(h.Class("tree"), h.Li(
			h.Span(
				h.Class("node"), followUp, text(" "), lambdaLink(of.GetThen()),
				g.If(of.GetElse() != "", g.Group{text(", or if one fails "), lambdaLink(of.GetElse())}),
			),
			h.Ol(g.Map(r.Members, func(m *kinesinv1.MemberOfGroup) g.Node { return h.Li(groupMember(m, r.Self, chars)) })),
		)),
		g.If(r.More, meta(text("Only some of its members are shown."))),
	)
}

func groupMember(m *kinesinv1.MemberOfGroup, self string, chars int) g.Node {
	t := m.GetTask()
	if t == nil {
		return h.Span(h.Class("node none"), textf("member %d: not kept, or not yours to read", m.GetIndex()))
	}
	when := g.Group{text("due "), moment(t.GetDue())}
	if t.GetEnded() != 0 {
		when = g.Group{text("ended "), moment(t.GetEnded())}
	}
	name := either(t.GetKey() != "", t.GetKey(), api.ShortID(t.GetId(), chars))
	return h.Span(
		h.Class("node"), link(taskPath(t.GetId()), name, titled(t.GetId()), current(t.GetId() == self)), text(" "), state(t.GetState()), text(" "), note(when),
	)
}

func taskTries(tries []try) g.Node {
	if len(tries) == 0 {
		return none("None yet.")
	}
	heads := g.Group{thNumber("No."), th("Outcome"), th("Began"), thNumber("Took"), th("When"), th("Worker"), th("Error")}
	return table(heads, g.Map(tries, func(t try) g.Node {
		outcome := either(t.Running, "running", t.GetOutcome())
		return h.Tr(
			tdNumber(strconv.Itoa(int(t.GetNumber()))), h.Td(state(outcome)), h.Td(moment(t.GetStart())), tdNumber(t.Took),
			h.Td(g.If(t.W != 0, bar(barPart("track", 0, 18, whole, 4), barPart(tone(t.GetOutcome()), t.X, 6, t.W, 28)))),
			tdText(text(t.GetWorker()), g.If(t.GetVersion() != "", below(text("version "+t.GetVersion())))),
			tdText(g.If(t.GetError() != "", failure(t.GetError()))),
		)
	}))
}

func taskPayload(b *taskBody) g.Node {
	bytes := bytesText(b.GetPayloadBytes())
	switch {
	case !b.Sees:
		return h.P(h.Class("none"), text(bytes+". You need the grant "), code("read-payload"), text(" to see it."))
	case b.GetBlob() != nil:
		return h.P(text(bytesText(b.GetBlob().GetBytes()) + ", kept as a blob by its clients."))
	case b.Payload == nil:
		return g.Group{
			h.P(text(bytes+". "), buttonLink("?payload=show", "Show its beginning")), meta(text("All of it: "), code("kinesin get "+b.GetId()+" --payload")),
		}
	}
	const unlessChanged = " Refused if anybody has changed it since this page was shown."
	seq := strconv.FormatUint(b.GetSeq(), 10)
	return g.Group{
		contentShown(b.Payload), meta(text("The audit log notes who reads a payload.")),
		g.If(b.Replace, wideAction(
			"Replace…", hidden("action", "replace", "seq", seq), payloadField("New payload", 8, b.Text),
			meta(text("The task keeps its id and its time."+unlessChanged)), primary("Replace"),
		)),
		g.If(b.Redrive && b.Editable, wideAction(
			"Edit and redrive…", hidden("action", "redrive-with", "seq", seq, "request", newRequest()), g.If(b.succeeded(), hidden("force", "yes")),
			payloadField("New payload", 8, b.Text), meta(text("This task starts anew under the same id, with this payload."+unlessChanged)),
			primary("Redrive with it"),
		)),
	}
}

func taskResult(b *taskBody) g.Node {
	switch {
	case b.Result != nil:
		return contentShown(b.Result)
	case b.GetResultBytes() != 0:
		return h.P(h.Class("none"), text(bytesText(b.GetResultBytes())+". You need the grant "), code("read-payload"), text(" to see it."))
	}
	return none("None.")
}
