package web

import (
	"fmt"

	"github.com/kinesin-io/kinesin/internal/where"
)

const (
	// tasksShown is how many tasks a page lists.
	tasksShown = 50
	// newestRowsMax bounds the rows that the page of tasks reads to find the newest, unless it is asked for
	// them.
	newestRowsMax = 20_000
	// deadReadMax is how many dead tasks are read to group them.
	deadReadMax = 5000
)

// The orders of the page of tasks; empty: the newest first, or live ones first where that would read much.
const (
	orderNewest = "-created"
	orderLive   = "live"
)

// scanCost is what a page would read of a store that bills reads, before it does.
type scanCost struct {
	Text string
	Go   string // the path that reads it
}

// costOf returns what it costs to read the tasks of some kind, for people; nil: it may be read at once, since
// reads cost nothing or the viewer has agreed.
func (c *call) costOf(kind string) *scanCost {
	snap := c.live.snapshot()
	if !snap.fleet.Store.Metered || c.field("scan") != "" {
		return nil
	}
	if kind == "dead" {
		return &scanCost{Text: fmt.Sprintf("This store bills reads. Up to %s dead tasks are read to group them, for about as many read units. They are found among all tasks that have ended and are still kept: where few of those are dead it reads more. A filter that names lambdas reads only theirs.", number(deadReadMax))}
	}
	if kind == orderNewest {
		return &scanCost{Text: "This store bills reads, and has no index of when tasks were created. To find the newest, all tasks that match are read, live ones and those that have ended and are kept, 2,000,000 at most: about one read unit for each row. Name lambdas, and priorities or states, to read only those."}
	}
	live := int64(0)
	for _, s := range snap.stats {
		if c.sees(s.GetLambda()) {
			live += liveOf(s)
		}
	}
	return &scanCost{Text: fmt.Sprintf("This store bills reads, and this filter names no lambda. It is compared with row after row, of about %s live tasks and those that have ended and are kept, until %d match: about one read unit for each row. Name lambdas, and priorities or states, to read only those.", number(live), tasksShown)}
}

// scans reports whether a list compares rows of all lambdas with a filter, or sorts them, rather than reading
// the first ones that there are.
func (c *call) scans(q, order string) bool {
	const noLambda = "\x00" // which no lambda is called
	f, err := where.Parse(q, c.Clock.Now())
	if err != nil {
		return false // the list says so
	}
	return order == orderNewest || (q != "" || order == "-ended") && f.CanBeOf(noLambda)
}
