package web

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func nowPage(b *nowBody) g.Node {
	return g.Group{
		liveTitle("Now"),
		livePart(Prefix, nowTiles(b)),
		h.Div(h.Class("plots"), g.If(b.SeesFleet, minutePlots("", b.Alone)), section(
			"due", "Due in the next 24 hours",
			plotted("/ui/plots/forecast", "Tasks that will be due in each half hour of the next day", h.Data("bars", "yes")),
			meta(
				link(Prefix+"due", "By half hour and lambda"), text(". "), h.Span(g.Attr("data-until"), text("Counted from what is stored.")),
				g.If(b.Metered, text(" Read every ten minutes: this store bills reads.")),
			),
		)),
		h.Div(h.ID("tables"), nowTables(b)),
	}
}

// minutePlots shows what happened in each minute of the last hour: of a lambda, or of all together if its name is empty.
func minutePlots(lambda string, alone bool) g.Group {
	of := func(id, title, label, series string, more ...g.Node) g.Node {
		return section(id, title, plotted(withQuery(Prefix+"plots/"+id, "lambda", lambda), label, h.Data("span", "3600"), h.Data("series", series)), g.Group(more))
	}
	return g.Group{
		of("rates", "Per second, last hour", "Tasks started and tasks ended per second, by the minute", "accent good bad",
			meta(text("As "+either(alone, "the", "this")+" server saw it since it started."))),
		of("lateness", "Lateness of starts, last hour", "How late half and nearly all of the tasks started, by the minute", "accent warn"),
		g.If(lambda != "", of("failures", "Failed attempts per minute", "Attempts that failed in each minute of the last hour", "bad")),
	}
}

// plotted returns the place where the script of the page draws.
func plotted(path, label string, attributes ...g.Node) g.Node {
	return h.Div(h.Class("plot"), h.Data("plot", path), h.Role("img"), labelled(label), g.Group(attributes))
}

// nowLive returns what changes while the page is open.
func nowLive(b *nowBody) g.Node {
	return g.Group{nowTiles(b), h.Div(h.ID("tables"), g.Attr("hx-swap-oob", "innerHTML"), nowTables(b))}
}

func nowTiles(b *nowBody) g.Node {
	live := &b.Live
	about := either(live.Exact, "", "~")
	return g.Group{
		nowProblems(b), nowChanged(b.Changed),
		h.Div(
			h.Class("tiles ten"),
			tileOf(either(live.DeadHour > 0, "tile alarm", either(live.DeadDay > 0, "tile warn", "tile")), "Died", inHour(live.DeadHour), link(
				Prefix+"dead?since=1d", number(live.DeadDay)+" dead in the last day",
			)),
			tileOf(either(live.FailedHour > 0, "tile warn", "tile"), "Failed attempts", inHour(live.FailedHour), text(
				number(live.FailedDay)+" in the last day · "+rateText(live.Failed)+"/s now",
			)),
			tile("Waiting", text(about+number(live.Waiting)), text(overdueText(live.Oldest, b.At))),
			tile("Running", text(about+number(live.Running)), text(either(b.SeesFleet, "on "+numberOf(b.Workers, "worker", "workers"), "\u00a0"))),
			tile("Started", perSecond(live.Started, ""), text("last minute"+either(b.Alone, "", ", this server"))),
			endedTile(b),
			g.Map(b.Soon, func(s soonRow) g.Node {
				how := text("exact")
				switch {
				case s.Most:
					how = g.Group{text("counted until "), at(b.SoonUntil)}
				case s.Error != 0:
					how = text("± " + number(s.Error) + ", from random shards")
				}
				return tileOf("tile soon", "Due in "+s.Name, text(s.due()), how)
			}),
		),
		g.If(b.NoSoon, meta(text("The tasks that will be due cannot be counted for now."))),
	}
}

// nowProblems says what to look at first.
func nowProblems(b *nowBody) g.Node {
	if len(b.Problems) == 0 {
		return h.P(
			h.Class("fine"), h.Role("status"), text(either(b.Alone, "Nothing is wrong that the server knows of", "This server knows of nothing that is wrong")),
			g.If(len(b.Held) > 0, g.Group{text(", but "), link("#held-title", "some work is held back")}), text("."),
		)
	}
	return h.Div(
		h.Class("problems"), h.Role("status"), h.H2(text("Look at this first")),
		notices(b.Problems),
	)
}

// nowChanged says what somebody has changed of late.
func nowChanged(all []notice) g.Node {
	return g.If(len(all) > 0, h.Div(h.Class("changed"), h.H2(text("Changed in the last hour")), notices(all)))
}

func notices(all []notice) g.Node {
	return h.Ul(g.Map(all, func(n notice) g.Node {
		return h.Li(either(n.To == "", text(n.Text), link(n.To, n.Text)), g.If(n.At != 0, g.Group{text(" "), moment(n.At)}))
	}))
}

// inHour shows how many there were in the last hour.
func inHour[N count](n N) g.Node { return g.Group{text(number(n)), h.Small(text(" last hour"))} }

func endedTile(b *nowBody) g.Node {
	first := perSecond(0, "")
	var others g.Group
	for i, e := range b.Ended {
		if i == 0 {
			first = perSecond(e.PerSecond, " "+e.Name)
		} else {
			others = append(others, text(rateText(e.PerSecond)+"/s "+e.Name))
		}
	}
	return tile("Ended", first, either(len(others) > 0, joined(" · ", others), g.Group{text("\u00a0")}))
}

func nowTables(b *nowBody) g.Node {
	return h.Div(
		h.Class("columns wide-left"),
		section("lambdas", "Lambdas", nowLambdas(b)),
		h.Div(section("held", "Held back", nowHeld(b.Held)), g.Iff(b.SeesFleet, func() g.Node { return nowFleet(b) })),
	)
}

func nowLambdas(b *nowBody) g.Node {
	if len(b.Lambdas) == 0 {
		return empty(h.P(text("No lambda yet, so nothing can be scheduled.")), h.P(text("Create one: "), code("kinesin lambda create greet")))
	}
	heads := g.Group{th("Lambda"), thNumber("Waiting"), thNumber("Running"), thNumber("Overdue for"), thNumber("Started/s"), thNumber("Late p50"), thNumber("p99")}
	return g.Group{
		table(heads, g.Map(b.Lambdas, func(s *kinesinv1.LambdaStats) g.Node {
			return h.Tr(
				h.Td(lambdaLink(s.GetLambda())), tdNumber(number(sumOf(s, waitingStates))), tdNumber(number(sumOf(s, runningStates))),
				tdNumber(ago(s.GetOldestDue(), b.At)), tdNumber(rateText(s.GetStartedPerSecond())), lateFigures(s),
			)
		})),
		g.If(b.More > 0, meta(link(Prefix+"lambdas", numberOf(b.More, "more lambda", "more lambdas")))),
	}
}

// lateFigures returns the cells that say how late half and nearly all of the tasks of a lambda started.
func lateFigures(s *kinesinv1.LambdaStats) g.Node {
	started := s.GetStartedPerSecond() != 0
	return g.Group{tdNumber(orDash(started, microsText(s.GetLatenessP50()))), tdNumber(orDash(started, microsText(s.GetLatenessP99())))}
}

func nowHeld(held []heldRow) g.Node {
	if len(held) == 0 {
		return none("Nothing.")
	}
	return table(g.Group{th("Lambda"), th("Because of"), thNumber("Tasks")}, g.Map(held, func(r heldRow) g.Node {
		return h.Tr(
			h.Td(lambdaLink(r.Lambda)), tdText(heldReason(r.HeldBy), below(text(short(r.GetText())))),
			tdNumber(orDash(r.Tasks != nil, "~"+number(r.GetTasks()))),
		)
	}))
}

// heldReason says what holds tasks back, and of which priority.
func heldReason(by *kinesinv1.HeldBy) g.Node {
	return g.Group{strong(by.GetReason()), g.If(by.GetPriority() != "", text(" ("+by.GetPriority()+")"))}
}

func nowFleet(b *nowBody) g.Node {
	fleet := &b.Fleet
	store := text("takes tasks")
	switch {
	case fleet.Store.Full:
		store = bad("full: it takes no new tasks")
	case len(fleet.Store.Damaged) > 0:
		store = bad("damaged files")
	}
	heads := g.Group{th("Over"), thNumber("p50"), thNumber("p95"), thNumber("p99"), thNumber("Started/s")}
	return g.Group{
		section("late", "Lateness of starts", table(heads, g.Map(b.Late, func(r lateRow) g.Node {
			started := r.Window.Started != 0
			return h.Tr(
				h.Th(h.Scope("row"), text(r.Name)), tdNumber(orDash(started, durationText(r.Window.Late50))),
				tdNumber(orDash(started, durationText(r.Window.Late95))), tdNumber(orDash(started, durationText(r.Window.Late99))),
				tdNumber(rateText(r.Window.Started)),
			)
		}))),
		section("fleet", "Installation", facts(
			fact("Workers", link(Prefix+"workers", numberOf(b.Workers, "worker", "workers"))),
			g.If(!b.Alone, g.Group{
				fact("Servers", text(numberOf(len(fleet.Servers), "server owns", "servers own")+" "+numberOf(fleet.Partitions, "partition", "partitions"))),
				fact("Without an owner", either(fleet.Unowned == 0, text("none"), bad(strconv.Itoa(fleet.Unowned)+" partitions"))),
			}),
			fact("Store", store),
		)),
	}
}

func duePage(b *dueBody) g.Node {
	title := h.H1(text("Due in the next 24 hours"))
	if b.Unknown {
		return g.Group{title, empty(
			h.P(text("The tasks that will be due cannot be counted for now.")),
			h.P(text("Load this page again in a while. The log of the server says why.")),
		)}
	}
	return g.Group{
		title,
		meta(
			text("Counted at "), at(b.At), text(" from what is stored."),
			g.If(!b.Until.IsZero(), g.Group{
				text(" All tasks are counted until "), at(b.Until, asClock()), text("; from then on there are at least so many (≥). "),
				code("serve --console-forecast-rows"), text(" has more of them counted."),
			}),
			g.If(b.Metered, text(" Read every ten minutes: this store bills reads.")),
		),
		list(g.Group{th("From"), thNumber("Tasks"), thUnseen("Share of the largest"), th("Lambdas")}, g.Map(b.Halves, func(half halfHour) g.Node {
			tasks := tasksPath(half.Where, "due", "")
			lambdas := joined(", ", g.Map(half.Lambdas, func(of dueOf) g.Node {
				return g.Group{lambdaLink(of.Lambda), text(" " + either(of.Most, "≥", "") + number(of.Due))}
			}))
			return row(
				tasks, h.Td(at(half.From, asClock())),
				h.Td(h.Class("n"), link(tasks, half.due()), g.If(half.Error != 0, g.Group{text(" "), note(text("± " + number(half.Error)))})),
				h.Td(bar(barPart("busy", 0, 6, half.Due*whole/max(1, b.Largest), 28))),
				tdText(g.If(len(lambdas) == 0, text("–")), lambdas, g.If(half.More > 0, g.Group{text(", "), note(text("and " + numberOf(half.More, "other", "others")))})),
			)
		})),
		meta(text("A row is a half hour. It leads to its tasks.")),
	}
}

// due says how many tasks will be due, and how sure that is.
func (s *soonRow) due() string {
	switch {
	case s.Most:
		return "≥" + number(s.Due)
	case s.Error != 0:
		return "~" + number(s.Due)
	}
	return number(s.Due)
}
