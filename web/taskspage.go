package web

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func tasksPage(b *tasksBody) g.Node {
	return g.Group{
		h.Div(h.Class("title"), h.H1(text("Tasks")), g.If(b.Schedules, buttonLink(Prefix+"tasks/new", "Schedule…"))),
		filter(
			Prefix+"tasks",
			search(
				"Search", b.Q, h.Placeholder(`words, an id, or a filter: lambda=mail and state=dead and error~"timeout"`),
				g.If(b.Problem != "", g.Group{h.Aria("invalid", "true"), describedBy("wrong")}),
			),
			choice(
				"order", "Order", option("", "Newest first", b.Order != orderLive), option(orderLive, "Live first", b.Order == orderLive),
				option("due", "Next due first", b.Order == "due"), option("-ended", "Newest end first", b.Order == "-ended"),
			),
			primary("Show"),
		),
		wrong(b.Problem, h.ID("wrong")),
		quickLinks("Filters", g.Map(b.Quick, func(q quick) g.Node { return link(tasksPath(q.Where, "", ""), q.Name, current(q.On)) })),
		g.If(b.Where != b.Q, meta(text("Looked for in ids, lambdas, collections, keys, values of tags and last errors. As a filter: "), code(b.Where))),
		filterHint(b.Metered),
		g.If(b.Newest != "", meta(
			text("Live tasks come first, since the newest can only be found by reading "),
			text(either(b.Metered, "all tasks, which this store bills. ", "more than 20,000 tasks. ")), link(b.Newest, "Newest first"),
		)),
		tasksFound(b),
	}
}

func tasksFound(b *tasksBody) g.Node {
	switch {
	case b.Cost != nil:
		return scanPlan(b.Cost)
	case len(b.Tasks) > 0:
		return g.Group{tasksList(b), h.Nav(
			h.Class("pages"), labelled("Pages"), g.If(b.First != "", link(b.First, "First page")), nextPage(b.Next, "Next page"),
		)}
	case b.Problem != "":
		return nil
	case b.Q == "":
		return empty(h.P(text("No task yet.")), h.P(text("Schedule one: "), code("kinesin schedule LAMBDA --in 5s --payload hello")))
	}
	return empty(
		h.P(text("No task matches.")),
		h.P(text("A wider filter finds more, or "), link(Prefix+"tasks", "show all"), text(". Tasks that you may not read are not listed.")),
		g.If(b.Next != "", h.P(text("None was found in the rows that were read so far. "), link(b.Next, "Look further"))),
	)
}

func tasksList(b *tasksBody) g.Node {
	may, chars := len(b.Actions) > 0, shortIDChars(b.Tasks, (*kinesinv1.Task).GetId)
	heads := g.Group{
		g.If(may, h.Th(h.Scope("col"), h.Class("tick"), h.Input(h.Type("checkbox"), h.ID("tick-all"), labelled("Select all on this page")))),
		th("Task"), th("Lambda"), th("State"), th("Due, or ended"), thNumber("Late"), thNumber("Attempts"), th("Key"), th("Tags"), th("Waits, or last error"),
	}
	rows := make(g.Group, len(b.Tasks))
	for i, t := range b.Tasks {
		to := taskPath(t.GetId())
		rows[i] = row(
			to, g.If(may, tick("id", t.GetId())), tdShortID(to, t.GetId(), chars), h.Td(lambdaLink(t.GetLambda())), h.Td(state(t.GetState())),
			tdWhen(t), tdNumber(lateness(t, b.Now)), tdNumber(strconv.Itoa(int(t.GetAttempt()))), tdLine(t.GetKey()), tdLine(tagsText(t.GetTags())),
			tdLine(cmp.Or(b.Waits[i], lastError(t))),
		)
	}
	tasks := listOf("rows tasks", heads, rows)
	if !may {
		return tasks
	}
	return post(h.Action(Prefix+"tasks"), hidden("q", b.Where), h.Div(
		h.Class("bulk"), h.Role("group"), labelled("Change tasks"), h.Label(h.For("action"), text("With")),
		h.Select(
			h.Name("scope"), h.ID("scope"), labelled("Tasks to change"),
			option("", "selected tasks", false), option("all", "all that match the filter", false),
		),
		h.Select(h.Name("action"), h.ID("action"), g.Map(b.Actions, func(a setAction) g.Node { return option(a.Value, a.Name, false) })),
		button("Review…"), h.Span(h.Class("meta"), h.ID("selected"), h.Role("status")),
	), tasks)
}

// tdWhen returns a cell with when a task has ended, or is due.
func tdWhen(t *kinesinv1.Task) g.Node {
	if t.GetEnded() == 0 {
		return h.Td(moment(t.GetDue()))
	}
	return h.Td(text("ended "), moment(t.GetEnded()))
}

// tagsText shows the tags of a task in order of their names.
func tagsText(tags map[string]string) string {
	all := make([]string, 0, len(tags))
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, name+"="+tags[name])
	}
	return strings.Join(all, ", ")
}

func reviewPage(v *review) g.Node {
	tasks, job := numberOf(len(v.IDs), "task", "tasks"), v.Job
	about := either(job.GetMatchedExact(), "", "about ")
	if job != nil {
		tasks = about + numberOf(job.GetMatched(), "task", "tasks")
	}
	do := either(v.Action.Stops, danger, primary)
	return g.Group{
		h.H1(text(v.Action.Name + ": " + tasks)), h.P(text(v.Does)),
		g.If(job != nil, facts(
			fact("Filter", either(v.Q != "", code(v.Q), text("none: every task"))), fact("Tasks now", text(about+number(job.GetMatched()))),
			g.If(job.GetCost() != "", fact("Cost", text(job.GetCost()))),
		)),
		post(
			h.Action(Prefix+"tasks"), h.Class("confirm"), hidden("q", v.Q, "action", v.Action.Value, "request", v.Request, "confirmed", "yes"),
			g.If(v.All, hidden("all", "all")), g.Map(v.IDs, func(id string) g.Node { return hidden("id", id) }),
			g.If(v.Action.Stops, h.P(reasonField("Reason", h.Required(), size(40)))),
			g.If(v.NeedsFor, h.P(hinted(
				"over", either(v.Action.Value == "spread", "Over the next", "From now"), "such as 90s, 10m, 2h or 3d", h.Value(v.Over), h.Required(), size(8),
			))),
			g.If(v.All, g.Group{
				h.P(hinted("pace", "Tasks per second", "empty: as fast as the store allows", h.Value(v.Pace), numeric(), size(8))),
				h.P(agree("really-all", "Go on even if the filter matches every task there is", g.If(v.Q == "", h.Required()))),
				meta(text("It runs as a job, which you can watch, pause and stop. " +
					"It acts on each task that matches at the time when it gets there.")),
			}),
			buttons(do(v.Action.Name), text(" "), buttonLink(tasksPath(v.Q, "", ""), "Do nothing")),
		),
		g.If(len(job.GetSample()) > 0, g.Group{
			h.H2(text("Some of them")), sampleList(job.GetSample()),
		}),
	}
}

func sampleList(tasks []*kinesinv1.Task) g.Node {
	chars := shortIDChars(tasks, (*kinesinv1.Task).GetId)
	return list(g.Group{th("Task"), th("Lambda"), th("State"), th("Due"), th("Key")}, g.Map(tasks, func(t *kinesinv1.Task) g.Node {
		to := taskPath(t.GetId())
		return row(
			to, tdShortID(to, t.GetId(), chars), h.Td(lambdaLink(t.GetLambda())), h.Td(state(t.GetState())), h.Td(moment(t.GetDue())), td(t.GetKey()),
		)
	}))
}

func outcomesPage(b *outcomesBody) g.Node {
	chars := shortIDChars(b.Outcomes, func(o outcome) string { return o.ID })
	said := numberOf(b.Done, "task was changed", "tasks were changed")
	if b.Refused > 0 {
		said += ", " + numberOf(b.Refused, "was refused", "were refused")
	}
	return g.Group{
		h.H1(text(b.Name)), h.P(h.Role("status"), text(said+".")),
		list(g.Group{th("Task"), th("Now"), th("Refused because")}, g.Map(b.Outcomes, func(o outcome) g.Node {
			return row(taskPath(o.ID), tdShortID(taskPath(o.ID), o.ID, chars), h.Td(g.If(o.Text != "", state(o.Text))), tdText(text(o.Problem)))
		})),
		h.P(buttonLink(tasksPath(b.Q, "", ""), "Back to the tasks")),
	}
}
