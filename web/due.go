package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/overview"
)

// soonAhead are the times from now of which the first page says how much they bring.
var soonAhead = []struct { //nolint:gochecknoglobals // a table
	name  string
	ahead time.Duration
}{{"5 minutes", 5 * time.Minute}, {"15 minutes", 15 * time.Minute}, {"an hour", time.Hour}, {"24 hours", forecastAhead}}

// forecastEdges returns the ends of the buckets: now, those of soonAhead, and the half hours of clocks, so
// that what is due at midnight begins one.
func forecastEdges(now time.Time) []time.Time {
	edges := []time.Time{now}
	for _, s := range soonAhead {
		edges = append(edges, now.Add(s.ahead))
	}
	for at := now.Truncate(forecastStep).Add(forecastStep); at.Before(now.Add(forecastAhead)); at = at.Add(forecastStep) {
		edges = append(edges, at)
	}
	slices.SortFunc(edges, time.Time.Compare)
	return slices.CompactFunc(edges, time.Time.Equal)
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

// halfHour is what will be due from one half hour of clocks to the next, or the part of one that is left.
type halfHour struct {
	From, To time.Time
	soonRow

	Lambdas []dueOf // those with the most, up to lambdasDueShown
	More    int     // lambdas that are left out
	Where   string
}

type dueOf struct {
	Lambda string
	Due    int64
	Most   bool // at least so many
}

// lambdasDueShown is how many lambdas a half hour names.
const lambdasDueShown = 4

// halfHours adds up a forecast for what the viewer may read.
func (c *call) halfHours(f *overview.Forecast) (all []halfHour, until time.Time) {
	sum := f.Sum(c.sees)
	at := halfHour{From: f.At}
	first := 1 // of the buckets of at; the one before the first would be of what is overdue, which is not counted
	for i := 1; i < len(f.Edges); i++ {
		if last := i == len(f.Edges)-1; !last && !f.Edges[i].Equal(f.Edges[i].Truncate(forecastStep)) {
			continue
		}
		at.To = f.Edges[i]
		at.Due, at.Error = sum.In(first, i)
		at.Most = sum.IsAtLeast(at.To)
		at.Where = fmt.Sprintf("due>=%s and due<%s and state in (scheduled, enqueued, retriable_failure)", at.From.UTC().Format(time.RFC3339), at.To.UTC().Format(time.RFC3339))
		c.addLambdas(&at, f, first, i)
		all = append(all, at)
		at, first = halfHour{From: at.To}, i+1
	}
	return all, sum.Until
}

// addLambdas adds what is due of lambdas in some buckets.
func (c *call) addLambdas(at *halfHour, f *overview.Forecast, first, last int) {
	for i := range f.Lambdas {
		of := &f.Lambdas[i]
		if !c.sees(of.Lambda) {
			continue
		}
		one := dueOf{Lambda: of.Lambda, Most: !of.Until.IsZero() && of.Until.Before(at.To)}
		for _, n := range of.Due[first : last+1] {
			one.Due += n
		}
		if one.Due > 0 {
			at.Lambdas = append(at.Lambdas, one)
		}
	}
	slices.SortFunc(at.Lambdas, func(x, y dueOf) int {
		return cmp.Or(cmp.Compare(y.Due, x.Due), cmp.Compare(x.Lambda, y.Lambda))
	})
	if n := len(at.Lambdas); n > lambdasDueShown {
		at.Lambdas, at.More = at.Lambdas[:lambdasDueShown], n-lambdasDueShown
	}
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

type dueBody struct {
	At      time.Time // when it was counted
	Halves  []halfHour
	Until   time.Time // how far it is counted in full; zero: all is
	Unknown bool
	Metered bool
	Largest int64
}

// showDue lists what will be due in each half hour of a day, by lambda.
func showDue(c *call) error {
	b := &dueBody{At: c.now(), Metered: c.live.snapshot().fleet.Store.Metered}
	f := c.live.due(false)
	if b.Unknown = f == nil; !b.Unknown {
		b.At = f.At
		b.Halves, b.Until = c.halfHours(f)
		for i := range b.Halves {
			b.Largest = max(b.Largest, b.Halves[i].Due)
		}
	}
	return c.show("due", "Due in the next 24 hours", Prefix, b)
}
