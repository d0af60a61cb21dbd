package web

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/overview"
)

type lambdasBody struct {
	Rows  []lambdaRow
	Q     string
	Now   time.Time
	Order string // "budget", "late", or empty: by name
}

type lambdaRow struct {
	*kinesinv1.Lambda

	Stats     *kinesinv1.LambdaStats // nil: may not be read whole
	Objective *objective             // nil: none
}

// showLambdas lists the lambdas.
func showLambdas(c *call) error {
	response, err := c.Lambdas.ListLambdas(c.r.Context(), &kinesinv1.ListLambdasRequest{})
	if err != nil {
		return err
	}
	snap := c.live.snapshot()
	stats := map[string]*kinesinv1.LambdaStats{}
	for _, s := range snap.stats {
		if c.sees(s.GetLambda()) {
			stats[s.GetLambda()] = s
		}
	}
	b := &lambdasBody{Q: c.field("q"), Now: c.now(), Order: c.field("order")}
	objectives, err := c.objectives("")
	if err != nil {
		return err
	}
	for _, l := range response.GetLambdas() {
		if strings.Contains(l.GetName(), b.Q) {
			b.Rows = append(b.Rows, lambdaRow{l, stats[l.GetName()], objectives[l.GetName()]})
		}
	}
	switch b.Order {
	case "budget":
		byBudget(b.Rows)
	case "late":
		slices.SortStableFunc(b.Rows, func(x, y lambdaRow) int {
			return compareOldest(x.Stats.GetOldestDue(), y.Stats.GetOldestDue())
		})
	default:
		b.Order = ""
	}
	return c.show("Lambdas", Prefix+"lambdas", lambdasPage(b))
}

// byBudget puts the lambdas first that have least left of their budgets, and last those without an objective.
func byBudget(rows []lambdaRow) {
	left := func(r *lambdaRow) float64 {
		if r.Objective == nil {
			return math.Inf(1)
		}
		return r.Objective.GetBudgetLeft()
	}
	slices.SortStableFunc(rows, func(x, y lambdaRow) int { return cmp.Compare(left(&x), left(&y)) })
}

type lambdaBody struct {
	*kinesinv1.Lambda

	Now     time.Time
	Live    *kinesinv1.LambdaStats
	Gates   []*kinesinv1.Gate
	Ended   []*kinesinv1.Gate // of the last 30 days
	Quotas  []*kinesinv1.Quota
	Crons   []*kinesinv1.Cron
	Workers []overview.Worker
	From    string // where its settings come from
	Operate bool
	// Schedules says that the viewer may schedule tasks of some collection, or of none.
	Schedules bool
	Plan      *gatePlan
	Fleet     bool
	Alone     bool // there is one server

	Errors    []*lambdaError // the most frequent first, at most errorsShown
	ErrorsNot bool           // they were not read: this store bills reads

	Objective *objective // nil: none
	HeldKeys  []*heldKey
	KeysMore  bool
}

// gatePlan is a gate that is about to be set, with what it would hold.
type gatePlan struct {
	*kinesinv1.Gate

	Request string
	For     string
}

// showLambda shows one lambda.
func showLambda(c *call) error { return c.lambdaPage(nil) }

// gatesEndedShown is how many ended gates a page lists.
const gatesEndedShown = 5

func (c *call) lambdaPage(plan *gatePlan) error {
	ctx, name := c.r.Context(), c.r.PathValue("name")
	response, err := c.Lambdas.GetLambda(ctx, &kinesinv1.GetLambdaRequest{Name: name, Live: true})
	if err != nil {
		return err
	}
	l := response.GetLambda()
	b := &lambdaBody{
		Lambda: l, Now: c.now(), Live: l.GetLive(), Operate: c.mayOperate(name), Plan: plan, From: "command line, SDK or API",
		Schedules: !c.ReadOnly && c.caller.Grants.AllowSome(access.Schedule, name), Fleet: c.seesFleet(), Alone: alone(&c.live.snapshot().fleet),
	}
	if l.GetRegistered() {
		b.From = "a registration (Terraform)"
	}
	if c.sees(name) {
		objectives, err := c.objectives(name)
		if err != nil {
			return err
		}
		b.Objective = objectives[name]
		if b.HeldKeys, b.KeysMore, err = c.heldKeys(l); err != nil {
			return err
		}
		if err := c.addErrors(b); err != nil {
			return err
		}
	}
	gates, err := c.Gates.ListGates(ctx, &kinesinv1.ListGatesRequest{Lambda: name, Ended: true})
	if err != nil {
		return err
	}
	for _, g := range explained(gates.GetGates()) {
		if g.GetState() != "ended" {
			b.Gates = append(b.Gates, g)
		} else if len(b.Ended) < gatesEndedShown {
			b.Ended = append(b.Ended, g)
		}
	}
	quotas, err := c.Quotas.GetQuotas(ctx, &kinesinv1.GetQuotasRequest{Lambda: name})
	if err != nil {
		return err
	}
	b.Quotas = quotas.GetQuotas()
	crons, err := c.Crons.ListCrons(ctx, &kinesinv1.ListCronsRequest{Lambda: name})
	if err != nil {
		return err
	}
	b.Crons = crons.GetCrons()
	if b.Fleet {
		for _, w := range c.live.snapshot().fleet.Workers {
			if len(w.Lambdas) == 0 || slices.Contains(w.Lambdas, name) {
				b.Workers = append(b.Workers, w)
			}
		}
	}
	return c.show(name, Prefix+"lambdas", lambdaPage(b))
}

const (
	// errorsRead is how many tasks of each kind a page reads to tell of which errors they died or wait for a retry.
	errorsRead, errorsShown = 500, 10
	deadLately              = "state=dead and ended>-1d"
)

// lambdaError is an error of the last attempt of some tasks of a lambda.
type lambdaError struct {
	Text           string
	Dead, Retrying int
	Last           int64 // when the newest of those attempts ended
}

// addErrors adds the errors of tasks that died in the last day, or wait for a retry.
func (c *call) addErrors(b *lambdaBody) error {
	if c.live.snapshot().fleet.Store.Metered && c.field("scan") == "" {
		b.ErrorsNot = true
		return nil
	}
	byText := map[string]*lambdaError{}
	for _, where := range []string{deadLately, "state=retriable_failure"} {
		response, err := c.Tasks.List(c.r.Context(), &kinesinv1.ListRequest{Where: "lambda=" + quote(b.GetName()) + " and " + where, Limit: errorsRead})
		if err != nil {
			return err
		}
		for _, t := range response.GetTasks() {
			text := lastError(t)
			e := byText[text]
			if e == nil {
				e = &lambdaError{Text: text}
				byText[text], b.Errors = e, append(b.Errors, e)
			}
			if where == deadLately {
				e.Dead++
			} else {
				e.Retrying++
			}
			if n := len(t.GetAttempts()); n > 0 {
				e.Last = max(e.Last, t.GetAttempts()[n-1].GetEnd())
			}
		}
	}
	slices.SortStableFunc(b.Errors, func(x, y *lambdaError) int { return cmp.Compare(y.Dead+y.Retrying, x.Dead+x.Retrying) })
	b.Errors = b.Errors[:min(len(b.Errors), errorsShown)]
	return nil
}

// unsaid is the reason of a gate that one click has set, until somebody says another.
const unsaid = "no reason given"

// pause has a gate hold the whole lambda at once. Why is asked afterwards.
func (c *call) pause(name, path string) error {
	gate := &kinesinv1.Gate{Action: "pause", Lambda: name, Reason: unsaid}
	if _, err := c.Gates.SetGate(c.r.Context(), &kinesinv1.SetGateRequest{Gate: gate, RequestId: requestID(c.field("request"))}); err != nil {
		return err
	}
	return c.goTo(path, "paused")
}

// explain says why a gate holds: by a gate in its place, which is set before the other one ends.
func (c *call) explain(path string) error {
	ctx := c.r.Context()
	if c.field("reason") == "" {
		return invalid("say why: whoever looks next wants to know why nothing runs")
	}
	response, err := c.Gates.GetGate(ctx, &kinesinv1.GetGateRequest{Id: c.field("gate")})
	if err != nil {
		return err
	}
	old := response.GetGate()
	if old.GetState() == "ended" {
		return invalid("this gate has ended: it holds nothing that needs a reason")
	}
	gate := &kinesinv1.Gate{Action: old.GetAction(), Lambda: old.GetLambda(), Priority: old.GetPriority(), Collection: old.GetCollection(), Tag: old.GetTag(), Until: old.GetUntil(), Reason: c.field("reason")}
	if _, err := c.Gates.SetGate(ctx, &kinesinv1.SetGateRequest{Gate: gate, RequestId: requestID(c.field("request"))}); err != nil {
		return err
	}
	if _, err := c.Gates.ResumeGate(ctx, &kinesinv1.ResumeGateRequest{Id: old.GetId()}); err != nil {
		return err
	}
	return c.goTo(path, "changed")
}

// actOnLambda pauses and resumes a lambda by gates, and sets quotas. A gate of some of its tasks is counted first and
// set when that is confirmed.
func actOnLambda(c *call) error {
	name := c.r.PathValue("name")
	path := lambdaPath(name)
	ctx := c.r.Context()
	switch c.field("action") {
	case "pause-all":
		return c.pause(name, path)
	case "why":
		return c.explain(path)
	case "pause", "drop":
		return c.setGate(name, path)
	case "objective", "objective-delete":
		return c.setObjective(name, path)
	case "resume":
		pace, err := parsePace(c.field("pace"))
		if err != nil {
			return err
		}
		if _, err := c.Gates.ResumeGate(ctx, &kinesinv1.ResumeGateRequest{Id: c.field("gate"), Pace: pace}); err != nil {
			return err
		}
		return c.goTo(path, "resumed")
	case "quota":
		request := &kinesinv1.SetQuotaRequest{Lambda: name, Priority: c.field("priority")}
		var reset []string
		for field, set := range map[string]func(float64){
			"rate":        func(n float64) { request.Rate = n },
			"concurrency": func(n float64) { request.Concurrency = uint32(n) },
		} {
			if c.field("no-"+field) != "" {
				reset = append(reset, field)
			}
			text := c.field(field)
			if text == "" {
				continue
			}
			n, err := strconv.ParseFloat(text, 64)
			if err != nil || n <= 0 || n > 1e9 || field == "concurrency" && n != math.Trunc(n) {
				return invalid("%s %q: want a number above 0 (a whole one of tasks that run at once), or the tick for no bound", field, text)
			}
			set(n)
		}
		if err := api.SetMask(request, reset...); err != nil {
			return err
		}
		if _, err := c.Quotas.SetQuota(ctx, request); err != nil {
			return err
		}
		return c.goTo(path, "quota")
	}
	return invalid("action %q: want pause-all, why, pause, drop, resume, quota, objective or objective-delete", c.field("action"))
}

func (c *call) setGate(name, path string) error {
	gate := &kinesinv1.Gate{Action: c.field("action"), Lambda: name, Priority: c.field("priority"), Collection: c.field("collection"), Tag: c.field("tag"), Reason: c.field("reason")}
	plan := &gatePlan{Request: c.field("request"), For: c.field("for")}
	if plan.For != "" {
		d, err := parseDuration(plan.For)
		if err != nil {
			return err
		}
		gate.Until = c.now().Add(d).UnixMicro()
	}
	if gate.GetReason() == "" {
		return invalid("a gate needs a reason: whoever looks next wants to know why nothing runs")
	}
	confirmed := c.field("confirmed") != ""
	if plan.Request == "" {
		plan.Request = newRequest()
	}
	response, err := c.Gates.SetGate(c.r.Context(), &kinesinv1.SetGateRequest{Gate: gate, DryRun: !confirmed, RequestId: requestID(plan.Request)})
	if err != nil {
		return err
	}
	if confirmed {
		return c.goTo(path, "paused")
	}
	plan.Gate = response.GetGate()
	return c.lambdaPage(plan)
}

var (
	runningStates = []string{"claimed", "processing", "acquired"}                                                //nolint:gochecknoglobals // a table
	waitingStates = []string{"scheduled", "enqueued", "retriable_failure"}                                       //nolint:gochecknoglobals // a table
	endStates     = []string{"success", "delivered", "dead", "fatal_failure", "expired", "cancelled", "dropped"} //nolint:gochecknoglobals // a table

	// waitsFilter selects the tasks that wait.
	waitsFilter = "state in (" + strings.Join(waitingStates, ", ") + ")" //nolint:gochecknoglobals // a text
)

func sumOf(s *kinesinv1.LambdaStats, states []string) (sum int64) {
	for _, state := range states {
		sum += s.GetTasks()[state]
	}
	return sum
}

func liveOf(s *kinesinv1.LambdaStats) (sum int64) {
	for _, n := range s.GetTasks() {
		sum += n
	}
	return sum
}

// compareOutcomes puts success first, and then what ended most often as people expect it.
func compareOutcomes(x, y string) int {
	return cmp.Compare(slices.Index(endStates, x), slices.Index(endStates, y))
}

// compareOldest puts what has waited longest first, and what does not wait last.
func compareOldest(x, y int64) int {
	switch {
	case x == y:
		return 0
	case x == 0:
		return 1
	case y == 0:
		return -1
	}
	return cmp.Compare(x, y)
}

// tone is how a state looks.
func tone(state string) string {
	switch state {
	case "success", "delivered", "ready", "done", "active", "ran", "ok":
		return "good"
	case "dead", "fatal_failure", "failed", "denied":
		return "bad"
	case "retriable_failure", "expired", "dropped", "paused", "pause", "drop", "resuming", "probing", "missed", "worker_lost", "skipped", "stopped":
		return "warn"
	case "claimed", "processing", "acquired", "running", "runs":
		return "busy"
	}
	return "calm"
}
