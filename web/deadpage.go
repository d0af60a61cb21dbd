package web

import (
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func deadPage(b *deadBody) g.Node {
	byVersion := b.By == byWorkerVersion
	return g.Group{
		h.H1(text("Dead letters")),
		filter(
			Prefix+"dead", search("Dead tasks of", b.Q, h.Placeholder(`lambda=mail and tag.customer=acme and error~"timeout"`)),
			choice("since", "that died", g.Map(deadTimes, func(t deadTime) g.Node { return option(t.Value, t.Name, t.Value == b.Since) })),
			g.If(b.By != "", hidden("by", b.By)), primary("Show"),
		),
		wrong(b.Problem), filterHint(b.Metered),
		quickLinks("Group", g.Group{
			link(b.path(""), "By error", current(!byVersion)), link(b.path(byWorkerVersion), "By worker version", current(byVersion)),
		}),
		deadFound(b),
		g.If(len(b.Queues) > 0 || b.MoreQueues, section(
			"queues", "Dead-letter queues of deliver lambdas", deadQueues(b.Queues),
			g.If(b.MoreQueues, meta(text("These are of the first "+strconv.Itoa(deliverAskedMax)+" deliver lambdas; for another one: "), code("kinesin dead-letter count LAMBDA"))),
		)),
		g.If(b.Inbound, section("rejected", "Rejected inbound messages", rejectedList(b))),
	}
}

// path leads to the same dead tasks in other groups. What was read already needs no confirmation.
func (b *deadBody) path(by string) string {
	return withQuery(Prefix+"dead", "by", by, "since", b.Since, "q", b.Q, "scan", either(b.Cost == nil, "yes", ""))
}

func deadFound(b *deadBody) g.Node {
	switch {
	case b.Cost != nil:
		return scanPlan(b.Cost)
	case b.By == byWorkerVersion:
		return section("versions", "By worker version", either(len(b.Versions) > 0, deadVersions(b), noneDead(b)))
	}
	return section("groups", "By error", either(len(b.Groups) > 0, deadGroups(b), noneDead(b)))
}

func noneDead(b *deadBody) g.Node {
	return empty(
		h.P(text(either(b.Q != "" || b.Since != "", "No dead task matches.", "No dead task."))),
		h.P(
			text("A task is dead when its last attempt has failed. It stays here until its lambda's retention is over, and can be redriven. "+
				"Tasks that a handler failed without a retry are not here: "),
			link(tasksPath("state=fatal_failure", "", ""), "see them"), text("."),
		),
	)
}

// deadCount returns a cell that says how many tasks there are, and leads to them.
func (b *deadBody) deadCount(to string, count int) g.Node {
	return h.Td(h.Class("n"), link(to, either(b.More, "≥", "")+number(count)))
}

func deadVersions(b *deadBody) g.Node {
	more := ""
	if b.More {
		more = " These are of the first " + number(b.Read) + " dead tasks that were read; narrow the filter to see others."
	}
	heads := g.Group{thNumber("Tasks"), th("Version"), th("Lambdas"), th("Last died"), thUnseen("Redrive")}
	return g.Group{
		list(heads, g.Map(b.Versions, func(v *deadVersion) g.Node {
			to := tasksPath(v.Where, "", "")
			return row(
				to, b.deadCount(to, v.Count),
				h.Td(either(v.Version != "", code(v.Version), h.Span(h.Class("none"), text("not said")))),
				tdText(text(strings.Join(v.Lambdas, ", "))), h.Td(moment(v.Last)), h.Td(g.If(v.Redrive, redriveAll(v.Where))),
			)
		})),
		meta(
			text("A dead task counts for each version that had an attempt of it. Workers say theirs: "), code("kinesin worker --worker-version 2.4.1"),
			text(", "), code("sdk.Version"), text("."+more),
		),
	}
}

func deadGroups(b *deadBody) g.Node {
	read := numberOf(b.Read, "dead task", "dead tasks") + " in all."
	if b.More {
		read = "These are of the first " + number(b.Read) + " dead tasks that were read; narrow the filter to see others."
	}
	if b.Others > 0 {
		read += " " + strconv.Itoa(b.Others) + " smaller groups are left out."
	}
	heads := g.Group{
		thNumber("Tasks"), th("Lambda"), th("Error of the last attempt"), th("Versions"), th("Last died"), th("First"), thUnseen("Redrive"),
	}
	return g.Group{
		list(heads, g.Map(b.Groups, func(of *deadGroup) g.Node {
			to := tasksPath(of.Where, "", "")
			failed := wrapped(short(of.Error))
			if of.Error == "" {
				failed = h.Span(h.Class("none"), text("no error: its worker was lost, or it timed out"))
			}
			return row(
				to, b.deadCount(to, of.Count), h.Td(lambdaLink(of.Lambda)), tdText(failed), td(firstVersions(of.Versions)),
				h.Td(moment(of.Last)), h.Td(moment(of.First)), h.Td(g.If(of.Redrive, redriveAll(of.Where))),
			)
		})),
		meta(text(read)),
	}
}

func firstVersions(versions []string) string {
	const shown = 3
	var said []string
	for _, v := range versions[:min(shown, len(versions))] {
		said = append(said, orDash(v != "", v))
	}
	return strings.Join(said, ", ") + either(len(versions) > shown, ", …", "")
}

func deadQueues(queues []deadQueue) g.Node {
	heads := g.Group{th("Lambda"), thNumber("Messages, about"), th("Queues"), thUnseen("Redrive")}
	return table(heads, g.Map(queues, func(q deadQueue) g.Node {
		counts := g.Map(q.Queues, func(one *kinesinv1.DeadLetterQueue) g.Node {
			return text(one.GetName() + ": " + number(one.GetCount()) + " ")
		})
		return h.Tr(h.Td(lambdaLink(q.Lambda)), tdNumber(number(q.Count)), tdText(counts), h.Td(g.If(q.May, action(
			"Redrive…", hidden("action", "redrive-queue", "lambda", q.Lambda),
			h.P(text("SQS moves about "+numberOf(q.Count, "message", "messages")+" back to the queues that they came from.")),
			fieldAs("pace-"+q.Lambda, "pace", "Messages per second", numeric(), size(6)), primary("Redrive"),
		))))
	}))
}

func rejectedPath(name string) string { return pathTo("dead/rejected", name) }

func rejectedList(b *deadBody) g.Node {
	if len(b.Rejected) == 0 {
		return none("None. A message of the inbound queue that cannot be taken is set aside here.")
	}
	heads := g.Group{
		g.If(b.Redrive, h.Th(h.Scope("col"), h.Class("tick"), h.Span(h.Class("hide"), text("Select")))),
		th("Message"), th("Reason"), th("Lambda"), th("Set aside"), thNumber("Size"),
	}
	chars := shortIDChars(b.Rejected, (*kinesinv1.Rejected).GetName)
	rejected := list(heads, g.Map(b.Rejected, func(r *kinesinv1.Rejected) g.Node {
		to := rejectedPath(r.GetName())
		return row(
			to, g.If(b.Redrive, tick("name", r.GetName())), tdShortID(to, r.GetName(), chars), tdText(text(r.GetReason()), below(text(short(r.GetText())))),
			td(r.GetLambda()), h.Td(moment(r.GetRejected())), tdNumber(bytesText(r.GetBytes())),
		)
	}))
	more := g.If(b.MoreRejected, meta(text("These are the first "+strconv.Itoa(len(b.Rejected))+". All: "), code("kinesin inbound rejected list")))
	if !b.Redrive {
		return g.Group{rejected, more}
	}
	return post(
		rejected, more, buttons(button("Accept the selected again", forAction("retry"))),
		h.P(reasonField("Reason, to delete", size(30)), text(" "), danger("Delete the selected for good", forAction("delete"))),
	)
}

func rejectedPage(b *rejectedBody) g.Node {
	return g.Group{
		h.H1(text("Rejected message")), h.P(h.Class("lead id"), text(b.GetName())),
		h.Div(h.Class("problems"), h.H2(text(b.GetReason())), h.P(text(b.GetText()))),
		facts(
			fact("Lambda", text(b.GetLambda())), fact("Task", text(b.GetId())), fact("Accepted", moment(b.GetAccepted())),
			fact("Set aside", moment(b.GetRejected())), fact("Failed retries", textf("%d", b.GetRetries())),
		),
		section("content", "Contents", contentShown(b.Content)),
		g.If(b.May, g.Group{
			post(h.Action(Prefix+"dead"), hidden("name", b.GetName()), buttons(primary("Accept it again", forAction("retry")))),
			action(
				"Delete…", h.Action(Prefix+"dead"), hidden("name", b.GetName(), "action", "delete"),
				h.P(text("The message is gone for good, and its task never runs.")),
				reasonField("Reason", h.Required(), size(30)), buttons(danger("Delete it for good")),
			),
		}),
	}
}
