package web

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// lambdasShownMax bounds the lambdas on the first page, those with the most to say first.
const lambdasShownMax = 12

// burningShownMax bounds the lambdas of which the first page says that they are short of error budget.
const burningShownMax = 5

// A backup is late when it is older than backupLate and than so many times what is asked for, as the alert of
// deploy/prometheus has it.
const (
	backupLate      = 5 * time.Minute
	backupLateTimes = 5
)

type nowBody struct {
	At        time.Time
	Problems  []notice
	Changed   []notice // in the last hour
	Live      liveCounts
	SeesFleet bool
	Late      []lateRow
	Ended     []rate
	Soon      []soonRow
	SoonUntil time.Time // how far the forecast is exact; zero: all
	NoSoon    bool
	Held      []heldRow
	Lambdas   []*kinesinv1.LambdaStats
	More      int // lambdas that are not shown
	Fleet     overview.Fleet
	Workers   int
	Metered   bool
	Alone     bool // there is one server
}

type liveCounts struct {
	Waiting, Running         int64
	Oldest                   int64 // micros; 0: none waits
	DeadHour, DeadDay        int64
	FailedHour, FailedDay    uint64 // attempts, as this server saw them
	Started, Failed, Refused float64
	Exact                    bool
}

type lateRow struct {
	Name   string
	Window overview.Window
}

type rate struct {
	Name      string
	PerSecond float64
}

type heldRow struct {
	Lambda string
	*kinesinv1.HeldBy
}

// showNow shows the state of the installation. With part it sends what changes, for the page that is open.
func showNow(c *call) error {
	snap := c.live.snapshot()
	if c.r.URL.Query().Get("part") == "" {
		return c.show("Now", Prefix, nowPage(c.nowBody(snap)))
	}
	key := strings.Join(c.caller.Grants.Strings(), "\n")
	snap.mu.Lock()
	html, found := snap.rendered[key]
	snap.mu.Unlock()
	if !found {
		var b bytes.Buffer
		if err := nowLive(c.nowBody(snap)).Render(&b); err != nil {
			return err
		}
		html = b.Bytes()
		snap.mu.Lock()
		if len(snap.rendered) < renderingsMax {
			snap.rendered[key] = html
		}
		snap.mu.Unlock()
	}
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.Header().Set("Vary", "Accept-Encoding")
	send(c.w, c.r, html, nil)
	return nil
}

func (c *call) nowBody(snap *snapshot) *nowBody {
	b := &nowBody{At: snap.at, SeesFleet: c.seesFleet(), Fleet: snap.fleet, Workers: len(snap.fleet.Workers), Metered: snap.fleet.Store.Metered, Alone: alone(&snap.fleet), Live: liveCounts{Exact: true}}
	ended := 0.0
	for _, s := range snap.stats {
		if !c.sees(s.GetLambda()) {
			continue
		}
		b.Live.add(s)
		ended += s.GetEndedPerSecond()
		b.Lambdas = append(b.Lambdas, s)
		for _, h := range s.GetHeldBy() {
			b.Held = append(b.Held, heldRow{s.GetLambda(), h})
		}
	}
	if b.SeesFleet {
		b.Late = []lateRow{{"Last minute", snap.now}, {"Last hour", snap.hour}, {"Last day", snap.day}}
		for _, name := range slices.SortedFunc(maps.Keys(snap.now.Ended), compareOutcomes) {
			b.Ended = append(b.Ended, rate{name, snap.now.Ended[name]})
		}
	} else {
		b.Ended = []rate{{"all outcomes", ended}}
	}
	slices.SortStableFunc(b.Lambdas, func(x, y *kinesinv1.LambdaStats) int {
		return cmp.Or(compareOldest(x.GetOldestDue(), y.GetOldestDue()), cmp.Compare(liveOf(y), liveOf(x)), cmp.Compare(x.GetLambda(), y.GetLambda()))
	})
	if n := len(b.Lambdas); n > lambdasShownMax {
		b.Lambdas, b.More = b.Lambdas[:lambdasShownMax], n-lambdasShownMax
	}
	c.addSoon(b)
	b.Problems, b.Changed = c.problems(snap, b), c.changed(snap)
	return b
}

// alone reports whether there is but one server: then nobody needs to read about the parts of several.
func alone(f *overview.Fleet) bool { return len(f.Servers) == 1 }

// addSoon adds up the forecast for what the viewer may read.
func (c *call) addSoon(b *nowBody) {
	f := c.live.due(c.field("part") == "")
	if f == nil {
		b.NoSoon = true
		return
	}
	sum := f.Sum(c.sees)
	b.SoonUntil = sum.Until
	last := 0
	for _, s := range soonAhead {
		edge := f.At.Add(s.ahead)
		for last+1 < len(f.Edges) && !f.Edges[last+1].After(edge) {
			last++
		}
		row := soonRow{Name: s.name, Most: sum.IsAtLeast(edge)}
		row.Due, row.Error = sum.In(1, last)
		b.Soon = append(b.Soon, row)
	}
}

func (l *liveCounts) add(s *kinesinv1.LambdaStats) {
	l.Running += sumOf(s, runningStates)
	l.Waiting += sumOf(s, waitingStates)
	l.Exact = l.Exact && s.GetExact()
	l.DeadHour += s.GetDeadHour()
	l.DeadDay += s.GetDeadDay()
	l.Started += s.GetStartedPerSecond()
	l.Failed += s.GetFailedPerSecond()
	l.Refused += s.GetThrottledPerSecond()
	if due := s.GetOldestDue(); compareOldest(due, l.Oldest) < 0 {
		l.Oldest = due
	}
}

// problems says what an operator should look at first.
func (c *call) problems(snap *snapshot, b *nowBody) (all []notice) {
	add := func(to, text string) { all = append(all, notice{text, to, 0}) }
	if snap.err != nil {
		add("", "The state of the installation cannot be read for now: "+problemOf(snap.err).Text)
	}
	if b.SeesFleet {
		f := &snap.fleet
		if f.NotReady != "" {
			add("", "This server is "+f.NotReady+".")
		}
		if f.Unowned > 0 {
			add(Prefix+"workers", numberOf(f.Unowned, "partition has no owner that handles it", "partitions have no owner that handles them")+". Their tasks are late.")
		}
		if f.Store.Full {
			add("", "The store is full: it takes no new tasks.")
		}
		if c.BackedUp != nil {
			if until, every := c.BackedUp(); snap.at.Sub(until) > max(backupLate, backupLateTimes*every) {
				all = append(all, notice{"The place of backups does not get what is new. It has all until", "", until.UnixMicro()})
			}
		}
		if len(f.Store.Damaged) > 0 {
			add("", "The store has damaged files: "+strings.Join(f.Store.Damaged, ", ")+".")
		}
	}
	switch {
	case b.Live.DeadHour > 0:
		add(Prefix+"dead?since=1d", numberOf(b.Live.DeadHour, "task", "tasks")+" died in the last hour, "+number(b.Live.DeadDay)+" in the last day.")
	case b.Live.DeadDay > 0:
		add(Prefix+"dead?since=1d", numberOf(b.Live.DeadDay, "task", "tasks")+" died in the last day.")
	}
	all = append(all, c.failures(snap, b)...)
	for _, h := range b.Held {
		if h.GetReason() == "no worker" {
			add(lambdaPath(h.Lambda), "No worker runs the tasks of "+h.Lambda+".")
		}
		if h.GetReason() == "unexplained" {
			add(lambdaPath(h.Lambda), numberOf(h.GetTasks(), "task", "tasks")+" of "+h.Lambda+" should have started, and nothing known holds them.")
		}
	}
	spent := 0
	for _, o := range snap.objectives {
		text := burning(o)
		if text == "" || !c.sees(o.GetObjective().GetLambda()) {
			continue
		}
		if spent++; spent <= burningShownMax {
			add(lambdaPath(o.GetObjective().GetLambda()), text)
		}
	}
	if more := spent - burningShownMax; more > 0 {
		add(Prefix+"lambdas?order=budget", numberOf(more, "more lambda is", "more lambdas are")+" short of error budget.")
	}
	return all
}

// failures says which lambdas fail now, and counts what failed.
func (c *call) failures(snap *snapshot, b *nowBody) (all []notice) {
	more := 0
	for i := range snap.failing {
		f := &snap.failing[i]
		if !c.sees(f.Lambda) {
			continue
		}
		b.Live.FailedHour, b.Live.FailedDay = b.Live.FailedHour+f.Hour, b.Live.FailedDay+f.Day
		switch {
		case !f.Now:
		case len(all) == failingShown:
			more++
		case f.Since.IsZero():
			all = append(all, notice{"Attempts of " + f.Lambda + " fail, " + number(f.Hour) + " in the last hour.", lambdaPath(f.Lambda), 0})
		default:
			all = append(all, notice{"Attempts of " + f.Lambda + " fail, " + number(f.Hour) + " in the last hour, since", lambdaPath(f.Lambda), f.Since.UnixMicro()})
		}
	}
	if more > 0 {
		all = append(all, notice{"Attempts of " + numberOf(more, "more lambda", "more lambdas") + " fail.", Prefix + "lambdas", 0})
	}
	return all
}
