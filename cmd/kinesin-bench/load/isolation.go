package load

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Case is a neighbour beside which a lambda is measured.
type Case struct {
	Name         string
	Tasks        func(n int) int // of the neighbour, of a run with n; nil: there is none
	PayloadBytes int
	Behaviour    Behaviour
}

// Solo is the case without a neighbour, whose lateness the others are held against.
const Solo = "solo"

// Cases are those of `kinesin-bench isolation`, Solo first.
func Cases() []Case {
	all := func(n int) int { return n }
	atMost := func(most int) func(int) int { return func(n int) int { return min(n, most) } }
	return []Case{
		{Name: Solo},
		{"due-at-once", all, 100, Works},
		{"failing", atMost(100_000), 100, Fails},
		{"no-workers", all, 100, Idle},
		{"paused", all, 100, Paused},
		{"keys", all, 100, Keyed},
		{"hot-key", all, 100, HotKey},
		{"large-payloads", atMost(2000), 250_000, Works},
		{"hanging", atMost(100_000), 100, Hangs},
		{"poison", atMost(1000), 100, Dies},
	}
}

// The p99 lateness beside a neighbour is at most that much of the one alone.
const (
	boundFactor  = 1.2
	boundExtraMS = 5
)

// Isolation is how a lambda fared beside a neighbour. Times are in milliseconds.
type Isolation struct {
	Case           string  `json:"case"`
	NeighbourTasks int     `json:"neighbour_tasks"`
	Tasks          int     `json:"tasks"`
	LatenessP50    float64 `json:"lateness_p50_ms"`
	LatenessP99    float64 `json:"lateness_p99_ms"`
	LatenessMax    float64 `json:"lateness_max_ms"`
	BoundP99       float64 `json:"bound_p99_ms"` // 1.2 × the one alone + 5 ms
	Within         bool    `json:"within"`
	Lost           int     `json:"lost"`
	Duplicate      int     `json:"duplicate"`
	Early          int     `json:"early"`
}

// IsolationOf returns the row of a case. solo is the report without a neighbour.
func IsolationOf(c Case, neighbourTasks int, r, solo *Report) Isolation {
	i := Isolation{
		Case: c.Name, NeighbourTasks: neighbourTasks, Tasks: r.Tasks, LatenessP50: r.LatenessP50, LatenessP99: r.LatenessP99,
		LatenessMax: r.LatenessMax, BoundP99: boundFactor*solo.LatenessP99 + boundExtraMS, Lost: r.Lost, Duplicate: r.Duplicate, Early: r.Early,
	}
	i.Within = i.LatenessP99 <= i.BoundP99
	return i
}

// Isolations are the rows of several cases.
type Isolations []Isolation

// Print writes the table for people.
func (rows Isolations) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, err := fmt.Fprintln(t, "case\tneighbour's tasks\ttasks\tp50 ms\tp99 ms\tmax ms\tbound ms\twithin\tlost\tduplicate\tearly\t")
	for _, r := range rows {
		if err == nil {
			_, err = fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%v\t%d\t%d\t%d\t\n", r.Case, r.NeighbourTasks, r.Tasks,
				r.LatenessP50, r.LatenessP99, r.LatenessMax, r.BoundP99, r.Within, r.Lost, r.Duplicate, r.Early)
		}
	}
	if err != nil {
		return err
	}
	return t.Flush()
}
