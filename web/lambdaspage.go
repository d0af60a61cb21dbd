package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/overview"
)

func lambdasPage(b *lambdasBody) g.Node {
	order := func(by, name string) g.Node {
		return link(withQuery(Prefix+"lambdas", "order", by, "q", b.Q), name, current(b.Order == by))
	}
	return g.Group{
		h.H1(text("Lambdas")),
		filter(Prefix+"lambdas", search("Name contains", b.Q), primary("Show")),
		quickLinks("Order", g.Group{order("", "By name"), order("budget", "Least error budget first"), order("late", "Longest overdue first")}),
		lambdasList(b),
	}
}

func lambdasList(b *lambdasBody) g.Node {
	if len(b.Rows) == 0 {
		return empty(
			h.P(text(either(b.Q != "", "No lambda has that in its name.", "No lambda that you may read."))),
			h.P(text("Create one: "), code("kinesin lambda create greet")),
		)
	}
	heads := g.Group{
		th("Lambda"), th("Mode"), thNumber("Waiting"), thNumber("Running"), thNumber("Overdue for"), thNumber("Started/s"), thNumber("Ended/s"),
		thNumber("Failed/s"), thNumber("Late p50"), thNumber("p99"), thNumber("Budget left"), th("Held back by"),
	}
	return list(heads, g.Map(b.Rows, func(r lambdaRow) g.Node {
		return row(
			lambdaPath(r.GetName()), h.Td(lambdaLink(r.GetName()), g.If(r.GetDeleting(), g.Group{text(" "), badge("warn", "being deleted")})),
			td(r.GetMode()), lambdaFigures(r.Stats, r.Objective, b.Now),
		)
	}))
}

// lambdaFigures returns the cells with what is live.
func lambdaFigures(s *kinesinv1.LambdaStats, o *objective, now time.Time) g.Node {
	if s == nil {
		return g.Group{h.Td(h.Class("n"), h.ColSpan("9"), text("–")), h.Td()}
	}
	budget := text("–")
	if o != nil {
		budget = badge(o.Tone, o.Left)
	}
	return g.Group{
		tdNumber(either(s.GetExact(), "", "~") + number(sumOf(s, waitingStates))), tdNumber(number(sumOf(s, runningStates))),
		tdNumber(ago(s.GetOldestDue(), now)), tdNumber(rateText(s.GetStartedPerSecond())), tdNumber(rateText(s.GetEndedPerSecond())),
		tdNumber(rateText(s.GetFailedPerSecond())), lateFigures(s), h.Td(h.Class("n"), budget),
		h.Td(g.Map(s.GetHeldBy(), func(by *kinesinv1.HeldBy) g.Node {
			return g.Group{badge("warn", by.GetReason(), titled(by.GetText())), text(" ")}
		})),
	}
}

func lambdaPage(b *lambdaBody) g.Node {
	where := "lambda=" + quote(b.GetName())
	overdue := " and due<-1s and " + waitsFilter
	return g.Group{
		h.Div(
			h.Class("title"), h.H1(text(b.GetName())), badge("calm", b.GetMode()), g.If(b.GetDeleting(), badge("warn", "being deleted")),
			g.Map(b.Gates, func(gate *kinesinv1.Gate) g.Node {
				of := named(": ", "", gate.GetPriority(), "", gate.GetCollection(), "", gate.GetTag())
				return badge("warn", either(gate.GetAction() == "drop", "drops", "paused")+of)
			}),
			g.If(b.Operate && b.Plan == nil && !isPaused(b.Gates), post(hidden("action", "pause-all", "request", newRequest()), button("Pause"))),
		),
		h.P(h.Class("lead"), joined(" · ", g.Group{
			link(tasksPath(where, "", ""), "Tasks"), link(tasksPath(where+overdue, "due", ""), "Overdue"), link(tasksPath(where+" and state=dead", "", ""), "Dead"),
			link(withQuery(Prefix+"dead", "q", where), "Dead by error"),
		}), g.If(b.Schedules, g.Group{text(" · "), link(withQuery(Prefix+"tasks/new", "lambda", b.GetName()), "Schedule a task…")})),
		g.Iff(b.Plan != nil, func() g.Node { return gatePlanned(b.Plan) }),
		gatesNow(b),
		g.Iff(b.Live != nil, func() g.Node {
			return g.Group{h.Div(h.Class("plots"), minutePlots(b.GetName(), b.Alone)), lambdaLive(b.Live, b.Now)}
		}),
		g.If(b.Live == nil, h.P(h.Class("none"), text("You need the grant "), code("read"), text(" on the whole lambda to see live figures."))),
		columns(
			g.If(b.Live != nil, section("errors", "Errors", errorsTable(b))),
			section("objective", "Objective", objectiveShown(b.Objective), g.If(b.Operate, objectiveActions(b.Objective))),
		),
		g.If(len(b.HeldKeys) > 0, section("keys", "Limit keys that are held back", heldKeysList(b))),
		columns(
			section("gates", "Gates", g.If(len(b.Gates) == 0, none("None: nothing is paused.")), g.If(b.Operate, gateActions(b)), g.If(len(b.Ended) > 0, endedGates(b.Ended))),
			section("quotas", "Quotas", quotasTable(b.Quotas), g.If(b.Operate, actions(action(
				"Set a quota…", hidden("action", "quota"), field("rate", "Starts per second", decimal(), size(8)), agree("no-rate", "No bound of starts"),
				field("concurrency", "Running at once", numeric(), size(8)), agree("no-concurrency", "No bound of what runs"),
				meta(text("Empty: as it is."+either(b.Alone, "", " It holds over all servers."))), primary("Set"),
			)))),
		),
		columns(
			g.If(b.Fleet, section("workers", "Workers", lambdaWorkers(b))),
			g.If(len(b.Crons) > 0, section("crons", "Crons", heldList(g.Map(b.Crons, func(k *kinesinv1.Cron) g.Node {
				return h.Li(link(cronPath(k.GetName()), k.GetName()), text(" "), code(k.GetSchedule()), text(" "), note(text(k.GetZone())))
			})))),
		),
		details("hint", "Settings", facts(lambdaFacts(b))),
	}
}

// isPaused reports whether one of some gates pauses the whole lambda.
func isPaused(gates []*kinesinv1.Gate) bool {
	return slices.ContainsFunc(gates, func(of *kinesinv1.Gate) bool {
		return of.GetAction() == "pause" && of.GetState() == "active" && of.GetPriority()+of.GetCollection()+of.GetTag() == ""
	})
}

// gatesNow says which gates hold tasks of the lambda, each with one click that ends it, and asks for a reason if none was
// given.
func gatesNow(b *lambdaBody) g.Node {
	return g.Map(b.Gates, func(gate *kinesinv1.Gate) g.Node {
		return h.Div(
			h.Class("problems paused"),
			h.P(
				strong(gateTold(gate)), text(" "), moment(gate.GetCreated()), g.If(gate.GetUntil() != 0, g.Group{text(", until "), moment(gate.GetUntil(), asClock())}),
				g.If(gate.GetState() != "active", g.Group{text(" "), state(gate.GetState())}),
			),
			g.If(b.Operate, g.Group{
				post(hidden("action", "resume", "gate", gate.GetId()), primary("Resume")),
				action(
					"Resume slowly…", hidden("action", "resume", "gate", gate.GetId()),
					fieldAs("pace-"+gate.GetId(), "pace", "Tasks per second", numeric(), h.Required(), size(8)),
					meta(text("The tasks that it holds start at this pace.")), primary("Resume at this pace"),
				),
				g.If(gate.GetReason() == unsaid, post(
					hidden("action", "why", "gate", gate.GetId(), "request", newRequest()),
					fieldAs("why-"+gate.GetId(), "reason", "Why?", h.Required(), reasonMax(), size(24)), text(" "), button("Say why"),
				)),
			}),
		)
	})
}

// errorsTable shows of which errors tasks died or wait for a retry.
func errorsTable(b *lambdaBody) g.Node {
	where := "lambda=" + quote(b.GetName()) + " and error="
	switch {
	case b.ErrorsNot:
		return g.Group{
			meta(text("This store bills reads: up to " + number(2*errorsRead) + " tasks are read to tell of which errors they died.")),
			buttons(buttonLink(withQuery(lambdaPath(b.GetName()), "scan", "yes"), "Read them")),
		}
	case len(b.Errors) == 0:
		return none("No task died in the last day, and none waits for a retry.")
	}
	count := func(n int, and, of string) g.Node {
		return h.Td(h.Class("n"), either(n > 0, link(tasksPath(where+quote(of)+" and "+and, "", ""), number(n)+either(n == errorsRead, "+", "")), text("–")))
	}
	return table(g.Group{th("Error of the last attempt"), thNumber("Dead, last day"), thNumber("To retry")}, g.Map(b.Errors, func(e *lambdaError) g.Node {
		return h.Tr(
			tdText(wrapped(orDash(e.Text != "", short(e.Text))), below(moment(e.Last))),
			count(e.Dead, deadLately, e.Text), count(e.Retrying, "state=retriable_failure", e.Text),
		)
	}))
}

func heldList(items g.Group) g.Node { return h.Ul(h.Class("held"), items) }

// gatePlanned asks whether a gate is to be set, with what it would hold.
func gatePlanned(p *gatePlan) g.Node {
	drops, counts := p.GetAction() == "drop", p.GetCounts()
	of := named(", ", "of priority ", p.GetPriority(), "of collection ", p.GetCollection(), "with the tag ", p.GetTag())
	rest := " more in the next hour" + of + ". Running tasks go on."
	if counts.GetSent() > 0 {
		rest += " " + number(counts.GetSent()) + " are on SQS already, where no gate holds them."
	}
	if p.GetNote() != "" {
		rest += " " + sentence(p.GetNote())
	}
	until := g.Group{text("Until somebody resumes it.")}
	if p.GetUntil() != 0 {
		until = g.Group{text("Until "), moment(p.GetUntil(), asClock()), text(".")}
	}
	return section(
		"plan", either(drops, "Drop the due tasks of ", "Pause ")+p.GetLambda()+"?", h.Class("plan"),
		h.P(
			text(either(drops, "It would drop ", "It would hold ")+either(counts.GetExact(), "", "about ")),
			strong(numberOf(counts.GetNow(), "task", "tasks")), text(" that may start now, and "), strong(number(counts.GetNextHour())), text(rest),
		),
		post(
			hidden("action", p.GetAction(), "priority", p.GetPriority(), "collection", p.GetCollection(), "tag", p.GetTag(), "reason", p.GetReason()),
			hidden("for", p.For, "request", p.Request, "confirmed", "yes"),
			h.P(text("Reason: "+p.GetReason()+". "), until),
			buttons(danger(either(drops, "Drop", "Pause")), text(" "), buttonLink(lambdaPath(p.GetLambda()), "Do nothing")),
		),
	)
}

func lambdaLive(s *kinesinv1.LambdaStats, now time.Time) g.Node {
	workers := "\u00a0"
	if s.Workers != nil {
		workers = numberOf(s.GetWorkers(), "worker", "workers")
	}
	started := s.GetStartedPerSecond() != 0
	heads := g.Group{th("Priority"), thNumber("Started/s"), thNumber("In queue"), thNumber("In flight"), thNumber("Oldest")}
	return g.Group{
		h.Div(
			h.Class("tiles"),
			tile("Waiting", text(either(s.GetExact(), "", "~")+number(sumOf(s, waitingStates))), text(overdueText(s.GetOldestDue(), now))),
			tile("Running", text(number(sumOf(s, runningStates))), text(workers)),
			tile("Started", perSecond(s.GetStartedPerSecond(), ""), text(rateText(s.GetEndedPerSecond())+"/s ended")),
			tile(
				"Lateness", text(orDash(started, microsText(s.GetLatenessP50()))),
				text(either(started, "p50; p99 "+microsText(s.GetLatenessP99()), "nothing started")),
			),
			tile("Failed", perSecond(s.GetFailedPerSecond(), ""), text("attempts; "+rateText(s.GetThrottledPerSecond())+"/s refused by quota")),
		),
		columns(
			section("held", "Held back", either(len(s.GetHeldBy()) > 0, heldList(g.Map(s.GetHeldBy(), func(by *kinesinv1.HeldBy) g.Node {
				return h.Li(heldReason(by), g.If(by.Tasks != nil, text(", about "+numberOf(by.GetTasks(), "task", "tasks"))), below(text(by.GetText())))
			})), none("Nothing."))),
			section("queues", "Priorities", table(heads, g.Map(s.GetPriorities(), func(p *kinesinv1.PriorityStats) g.Node {
				return h.Tr(
					td(p.GetPriority()), tdNumber(rateText(p.GetStartedPerSecond())), tdNumber(orDash(p.Queued != nil, number(p.GetQueued()))),
					tdNumber(number(p.GetInFlight())), tdNumber(orDash(p.GetOldest() != 0, microsText(p.GetOldest()))),
				)
			}))),
		),
	}
}

// overdueText says how long the oldest task that waits has waited.
func overdueText(oldest int64, now time.Time) string {
	return either(oldest == 0, "none is overdue", "oldest overdue for "+ago(oldest, now))
}

func objectiveShown(o *objective) g.Node {
	if o == nil {
		return none("None: nobody has said how late its tasks may start.")
	}
	of := o.GetObjective()
	heads := g.Group{th("Burn over"), thNumber("Rate"), thNumber("Starts")}
	return g.Group{
		h.P(
			text(fmt.Sprint(of.GetObjective())+" % start within "+microsText(of.GetWithin())+" of their due time, over "+
				microsText(of.GetWindow())+". "),
			badge(o.Tone, o.Budget),
		),
		meta(textf("%.4g %% of %s were in time.", o.GetAttained(), numberOf(o.GetStarted(), "start", "starts"))),
		g.If(len(o.Burns) > 0, g.Group{
			table(heads, g.Map(o.Burns, func(b burn) g.Node {
				return h.Tr(td(microsText(b.Over)), h.Td(h.Class("n"), either(b.Fast, bad(b.Rate), text(b.Rate))), tdNumber(number(b.Started)))
			})),
			meta(text("A rate of 1 uses the budget up in one window.")),
		}),
	}
}

func objectiveActions(o *objective) g.Node {
	name := "Set an objective…"
	var now g.Node
	if o != nil {
		name, now = "Change…", h.Value(fmt.Sprint(o.GetObjective().GetObjective()))
	}
	return actions(
		action(
			name, hidden("action", "objective"), field("objective", "Percent of tasks", decimal(), h.Required(), size(8), h.Placeholder("99"), now),
			field("within", "Start within", h.Required(), size(8), h.Placeholder("5s")), field("window", "Over", size(8), h.Placeholder("30d")), primary("Set"),
		),
		g.If(o != nil, action(
			"Delete the objective…", hidden("action", "objective-delete"), h.P(text("Its alerts end. The counts of its starts stay.")),
			danger("Delete the objective"),
		)),
	)
}

func heldKeysList(b *lambdaBody) g.Node {
	return g.Group{
		list(g.Group{th("Limit key"), thNumber("Tasks"), thNumber("Oldest overdue for")}, g.Map(b.HeldKeys, func(k *heldKey) g.Node {
			to := taskPath(k.Sample)
			return row(to, h.Td(link(to, k.Key)), tdNumber(number(k.Count)), tdNumber(ago(k.Oldest, b.Now)))
		})),
		g.If(b.KeysMore, meta(text("Of the first overdue tasks; there are more."))),
	}
}

func gateActions(b *lambdaBody) g.Node {
	return actions(
		action("Pause some, or until…", hidden("action", "pause"), gateFields("pause", b.GetPriorities()), primary("Count what it would hold")),
		action(
			"Drop…", hidden("action", "drop"), h.P(text("Tasks end as dropped when they are due.")), gateFields("drop", b.GetPriorities()),
			primary("Count what it would drop"),
		),
	)
}

// gateFields returns the fields of a gate that is about to be set. The id tells two such forms of a page apart.
func gateFields(id string, priorities []string) g.Node {
	of := func(name, label string, attributes ...g.Node) g.Node {
		return fieldAs(name+"-"+id, name, label, attributes...)
	}
	return g.Group{
		of("reason", "Reason", h.Required(), size(30)), of("for", "For", size(8), h.Placeholder("1h"), describedBy("for-hint-"+id)),
		hintBelow("for-hint-"+id, text("Empty: until somebody resumes it.")),
		h.Label(h.For("priority-"+id), text("Of")),
		h.Select(h.ID("priority-"+id), h.Name("priority"), option("", "all priorities", false), g.Map(priorities, func(p string) g.Node {
			return option(p, "priority "+p, false)
		})),
		of("collection", "Or collection", size(12)), of("tag", "Or tag", size(12), h.Placeholder("name=value")),
	}
}

func endedGates(gates []*kinesinv1.Gate) g.Node {
	return details("hint", "Ended gates", heldList(g.Map(gates, func(gate *kinesinv1.Gate) g.Node {
		by := ""
		if gate.GetEndedBy() != "" {
			by = ", resumed by " + gate.GetEndedBy()
		}
		return h.Li(text(gate.GetAction()+": "+gate.GetReason()+" "), note(
			text(gate.GetOwner()+", "), moment(gate.GetCreated()), text(" to "), moment(gate.GetEnded()), text(by),
		))
	})))
}

func quotasTable(quotas []*kinesinv1.Quota) g.Node {
	if len(quotas) == 0 {
		return none("None: starts are not limited.")
	}
	heads := g.Group{th("Of"), thNumber("Starts/s"), thNumber("At once"), thNumber("Scheduled/s"), thNumber("Recovery/s")}
	return table(heads, g.Map(quotas, func(q *kinesinv1.Quota) g.Node {
		of := "the lambda"
		switch {
		case q.GetPriority() != "":
			of = "priority " + q.GetPriority()
		case q.GetIdentity() != "":
			of = q.GetIdentity()
		}
		rate := func(n float64) g.Node { return tdNumber(orDash(n != 0, rateText(n))) }
		limit := func(n uint32) g.Node { return tdNumber(orDash(n != 0, strconv.Itoa(int(n)))) }
		return h.Tr(td(of), rate(q.GetRate()), limit(q.GetConcurrency()), rate(q.GetAdmit()), limit(q.GetRecovery()))
	}))
}

func lambdaFacts(b *lambdaBody) g.Group {
	kept := microsText(b.GetRetention())
	if b.GetKeyRetention() != 0 {
		kept += "; a key for " + microsText(b.GetKeyRetention()) + " after success"
	}
	return g.Group{
		fact("Set by", text(b.From)),
		g.If(b.GetRegistrationRefused() != "", fact("Registration", bad("refused: "+b.GetRegistrationRefused()))),
		g.If(b.GetWithdrawn(), fact("Registration", bad("withdrawn: the lambda is deleted when its tasks have ended"))),
		fact("Priorities", text(strings.Join(b.GetPriorities(), ", "))),
		g.If(len(b.GetPriorityWeights()) > 0, fact("Priority weights", joined(", ", g.Map(b.GetPriorities(), func(p string) g.Node {
			return textf("%s %d", p, b.GetPriorityWeights()[p])
		})))),
		g.If(!b.Alone, fact("Shards", textf("%d of each priority", b.GetShards()))),
		g.If(b.GetMode() != "deliver", attemptFacts(b.Lambda)),
		fact("Kept after the end", text(kept)),
		g.If(b.GetStartWithin() != 0, fact("Start within", text(microsText(b.GetStartWithin())+" of the due time, or it expires"))),
		g.If(b.GetLimitKeyConcurrency() != 0, fact("Of one limit key", textf("%d at once", b.GetLimitKeyConcurrency()))),
		g.If(b.GetLimitKeyRate() != 0, fact("Of one limit key", text(rateText(b.GetLimitKeyRate())+" starts per second"))),
		g.If(b.GetTarget() != nil, fact("Target", text(b.GetTarget().GetUrl()))),
		g.If(b.GetRetryShare() != 0, fact("Retry budget", text(rateText(b.GetRetryShare())+" retries for each first start"))),
		g.If(b.GetBreaker() != nil, fact("Circuit breaker", text(
			"opens when "+rateText(b.GetBreaker().GetFailures())+" of the attempts fail over "+microsText(b.GetBreaker().GetWindow())),
		)),
		fact("Created", moment(b.GetCreated())),
	}
}

// attemptFacts returns the settings of attempts, which a lambda that delivers does not have.
func attemptFacts(l *kinesinv1.Lambda) g.Group {
	const poisonBoundDefault = 3
	bound := either(l.GetPoisonBound() != 0, l.GetPoisonBound(), poisonBoundDefault)
	return g.Group{
		fact("Attempts", textf("at most %d, of %s each", l.GetMaxAttempts(), microsText(l.GetTimeout()))),
		fact("Backoff", text(microsText(l.GetBackoffMin())+" to "+microsText(l.GetBackoffMax()))),
		fact("Poison bound", text("dead after "+numberOf(bound, "attempt", "attempts in a row")+" lost with the worker")),
	}
}

func lambdaWorkers(b *lambdaBody) g.Node {
	if len(b.Workers) == 0 {
		return empty(h.P(text("None runs its tasks.")), h.P(text("Start one: "), code("kinesin worker --lambda "+b.GetName()+" -- COMMAND")))
	}
	return heldList(g.Map(b.Workers, func(w overview.Worker) g.Node {
		slots := either(w.Here, slotsText(w)+" slots", either(b.Alone, "by calls", "at another server, or by calls"))
		return h.Li(link(workerTasks(w.ID), w.Name), text(" "), note(text(slots)))
	}))
}
