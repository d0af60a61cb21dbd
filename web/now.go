package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// lambdasShownMax bounds the lambdas on the first page, those with the most to say first.
const lambdasShownMax = 12

type nowBody struct {
	At        time.Time
	Problems  []string
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

type soonRow struct {
	Name  string
	Due   int64
	Most  bool  // at least so many
	Error int64 // of an estimate: 19 times of 20 it is off by no more; 0: counted
}

type heldRow struct {
	Lambda string
	*kinesinv1.HeldBy
}

// showNow shows the state of the installation. With part it sends what changes, for the page that is open.
func showNow(c *call) error {
	snap := c.live.snapshot()
	if c.r.URL.Query().Get("part") == "" {
		return c.show("now", "Now", Prefix, c.nowBody(snap))
	}
	key := strings.Join(c.caller.Grants.Strings(), "\n")
	snap.mu.Lock()
	html, found := snap.rendered[key]
	snap.mu.Unlock()
	if !found {
		var b bytes.Buffer
		if err := templates()["now"].ExecuteTemplate(&b, "live", c.nowBody(snap)); err != nil {
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

// seesFleet reports whether the viewer may see what is of the whole installation, as /metrics shows it.
func (c *call) seesFleet() bool { return c.caller.Grants.AllowAll(access.Metrics) }

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
		return cmp.Or(compareOldest(x.GetOldestDueMicros(), y.GetOldestDueMicros()), cmp.Compare(liveOf(y), liveOf(x)), cmp.Compare(x.GetLambda(), y.GetLambda()))
	})
	if n := len(b.Lambdas); n > lambdasShownMax {
		b.Lambdas, b.More = b.Lambdas[:lambdasShownMax], n-lambdasShownMax
	}
	c.addSoon(b)
	b.Problems = c.problems(snap, b)
	return b
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

func liveOf(s *kinesinv1.LambdaStats) (sum int64) {
	for _, n := range s.GetTasks() {
		sum += n
	}
	return sum
}

var (
	runningStates = []string{"claimed", "processing", "acquired"}                                                //nolint:gochecknoglobals // a table
	waitingStates = []string{"scheduled", "enqueued", "retriable_failure"}                                       //nolint:gochecknoglobals // a table
	endStates     = []string{"success", "delivered", "dead", "fatal_failure", "expired", "cancelled", "dropped"} //nolint:gochecknoglobals // a table
)

func sumOf(s *kinesinv1.LambdaStats, states []string) (sum int64) {
	for _, state := range states {
		sum += s.GetTasks()[state]
	}
	return sum
}

func (l *liveCounts) add(s *kinesinv1.LambdaStats) {
	l.Running += sumOf(s, runningStates)
	l.Waiting += sumOf(s, waitingStates)
	l.Exact = l.Exact && s.GetExact()
	l.Started += s.GetStartedPerSecond()
	l.Failed += s.GetFailedPerSecond()
	l.Refused += s.GetThrottledPerSecond()
	if due := s.GetOldestDueMicros(); compareOldest(due, l.Oldest) < 0 {
		l.Oldest = due
	}
}

// problems says what an operator should look at first.
func (c *call) problems(snap *snapshot, b *nowBody) (texts []string) {
	if snap.err != nil {
		texts = append(texts, "The state of the installation cannot be read for now: "+problemOf(snap.err).Text)
	}
	if b.SeesFleet {
		f := &snap.fleet
		if f.NotReady != "" {
			texts = append(texts, "This server is "+f.NotReady+".")
		}
		if f.Unowned > 0 {
			texts = append(texts, numberOf(int64(f.Unowned), "partition has no owner that handles it", "partitions have no owner that handles them")+". Their tasks are late.")
		}
	}
	for _, h := range b.Held {
		if h.GetReason() == "no worker" {
			texts = append(texts, "No worker runs the tasks of "+h.Lambda+".")
		}
	}
	return texts
}

// addSoon adds up the forecast for what the viewer may read.
func (c *call) addSoon(b *nowBody) {
	f := c.live.due(c.field("part") == "")
	if f == nil {
		b.NoSoon = true
		return
	}
	sum := f.Sum(c.sees)
	due, until := sum.Due, sum.Until
	b.SoonUntil = until
	for _, s := range []struct {
		name  string
		ahead time.Duration
	}{{"5 minutes", 5 * time.Minute}, {"15 minutes", 15 * time.Minute}, {"an hour", time.Hour}, {"24 hours", forecastAhead}} {
		row := soonRow{Name: s.name, Most: !until.IsZero() && until.Before(f.At.Add(s.ahead))}
		variance := 0.0
		for i := 1; i < len(due) && !f.Edges[i].After(f.At.Add(s.ahead)); i++ {
			row.Due += due[i]
			variance += sum.Variance[i]
		}
		row.Error = errorOf(variance)
		b.Soon = append(b.Soon, row)
	}
}

// errorOf returns by how much an estimate is off at most, 19 times of 20.
func errorOf(variance float64) int64 {
	const deviations = 1.96
	return int64(math.Ceil(deviations * math.Sqrt(variance)))
}

// plot is what the script of the page draws: the times of the points in seconds since 1970, and for each
// series its name and values.
type plot struct {
	Times  []int64     `json:"times"`
	Names  []string    `json:"names"`
	Values [][]float64 `json:"values"`
	Note   string      `json:"note,omitempty"`
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

// fleetDenied is the refusal of what seesFleet guards.
func (c *call) fleetDenied() error {
	return problemError{problem{http.StatusForbidden, "Permission denied", c.caller.Denied(access.Metrics, "").Error() + ".", "An administrator grants metrics with a token or in the policy file."}}
}

// plotForecast sends how many tasks are due in each half hour of a day.
func plotForecast(c *call) error {
	p := plot{Names: []string{"due", "± (of an estimate)"}, Values: [][]float64{{}, {}}}
	if f := c.live.due(false); f != nil {
		all := f.Sum(c.sees)
		due := all.Due
		sum, variance := 0.0, 0.0
		for i := 1; i < len(due); i++ { // without what is overdue
			sum += float64(due[i])
			variance += all.Variance[i]
			if !f.Edges[i].Before(f.At.Add(forecastStep)) {
				p.Times = append(p.Times, f.Edges[i].Add(-forecastStep).Unix())
				p.Values[0] = append(p.Values[0], sum)
				p.Values[1] = append(p.Values[1], float64(errorOf(variance)))
				sum, variance = 0, 0
			}
		}
	}
	return c.json(p)
}
