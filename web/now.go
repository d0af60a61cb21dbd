package web

import (
	"bytes"
	"cmp"
	"encoding/json"
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

type nowBody struct {
	At        time.Time
	Problems  []notice
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
}

type liveCounts struct {
	Waiting, Running         int64
	Oldest                   int64 // micros; 0: none waits
	DeadHour, DeadDay        int64
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
	b := &nowBody{At: snap.at, SeesFleet: c.seesFleet(), Fleet: snap.fleet, Workers: len(snap.fleet.Workers), Metered: snap.fleet.Store.Metered, Live: liveCounts{Exact: true}}
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
	b.Problems = c.problems(snap, b)
	return b
}

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

// notice is something to look at first, and where to look.
type notice struct{ Text, To string }

// problems says what an operator should look at first.
func (c *call) problems(snap *snapshot, b *nowBody) (all []notice) {
	add := func(to, text string) { all = append(all, notice{text, to}) }
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
	}
	switch {
	case b.Live.DeadHour > 0:
		add(Prefix+"dead?since=1d", numberOf(b.Live.DeadHour, "task", "tasks")+" died in the last hour, "+number(b.Live.DeadDay)+" in the last day.")
	case b.Live.DeadDay > 0:
		add(Prefix+"dead?since=1d", numberOf(b.Live.DeadDay, "task", "tasks")+" died in the last day.")
	}
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

// plot is what the script of the page draws: the times of the points in seconds since 1970, and for each
// series its name and values.
type plot struct {
	Times  []int64     `json:"times"`
	Names  []string    `json:"names"`
	Values [][]float64 `json:"values"`
	Until  int64       `json:"until,omitempty"` // values from then on are at least so high; 0: all are known
}

func (c *call) json(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Vary", "Accept-Encoding")
	send(c.w, c.r, text, nil)
	return nil
}

// plotRates sends starts, ends and failures per second by the minute.
func plotRates(c *call) error {
	if !c.seesFleet() {
		return c.fleetDenied()
	}
	p := plot{Names: []string{"started", "ended", "failed attempts"}, Values: make([][]float64, 3)}
	minutes := c.Source.Minutes(minutesPlotted)
	for i, m := range minutes {
		seconds := 60.0
		if i == len(minutes)-1 {
			seconds = max(1, c.now().Sub(m.At).Seconds())
		}
		ended := uint64(0)
		for _, n := range m.Ended {
			ended += n
		}
		p.Times = append(p.Times, m.At.Unix())
		for k, n := range []uint64{m.Started, ended, m.Failed} {
			p.Values[k] = append(p.Values[k], float64(n)/seconds)
		}
	}
	return c.json(p)
}

// plotForecast sends how many tasks are due in each half hour of a day.
func plotForecast(c *call) error {
	p := plot{Names: []string{"due", "± (of an estimate)"}, Values: [][]float64{{}, {}}}
	if f := c.live.due(false); f != nil {
		all, until := c.halfHours(f)
		for i := range all {
			p.Times = append(p.Times, all[i].From.Truncate(forecastStep).Unix()) // bars are as wide as the least distance
			p.Values[0] = append(p.Values[0], float64(all[i].Due))
			p.Values[1] = append(p.Values[1], float64(all[i].Error))
		}
		if !until.IsZero() {
			p.Until = until.Unix()
		}
	}
	return c.json(p)
}
