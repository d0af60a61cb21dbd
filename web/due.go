package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/overview"
)

type soonRow struct {
	Name  string
	Due   int64
	Most  bool  // at least so many
	Error int64 // of an estimate: 19 times of 20 it is off by no more; 0: counted
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
		at.Where = fmt.Sprintf("due>=%s and due<%s and %s", at.From.UTC().Format(time.RFC3339), at.To.UTC().Format(time.RFC3339), waitsFilter)
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
	return c.show("Due in the next 24 hours", Prefix, duePage(b))
}
