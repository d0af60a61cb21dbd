package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// topHead returns the lines above the lambdas: rates, lateness, what will be due, and the state of the
// installation, as far as the caller may see them.
func topHead(o *admin.Overview) []string {
	var started, ended, failed float64
	var waits, runs, deadHour, deadDay int64
	for i := range o.Lambdas {
		s := &o.Lambdas[i]
		started, ended, failed = started+s.StartedPerSecond, ended+s.EndedPerSecond, failed+s.FailedPerSecond
		waits, runs = waits+topWaits(s), runs+topRuns(s)
		deadHour, deadDay = deadHour+s.DeadHour, deadDay+s.DeadDay
	}
	lines := []string{
		fmt.Sprintf("kinesin  %d lambdas  started %s/s  ended %s/s  failed %s/s  waiting %s  running %s", len(o.Lambdas),
			topRate(started), topRate(ended), topRate(failed), topCount(waits), topCount(runs)),
		fmt.Sprintf("dead  1h %d  1d %d", deadHour, deadDay),
	}
	if len(o.Windows) > 0 {
		late := []string{"late p50/95/99"}
		for i := range o.Windows {
			w := &o.Windows[i]
			late = append(late, fmt.Sprintf("%s %s/%s/%s", topSpan(w.Asked), topLate(w, w.LatenessP50), topLate(w, w.LatenessP95), topLate(w, w.LatenessP99)))
		}
		lines = append(lines, strings.Join(late, "  "), topEnded(o.Windows[0].EndedPerSecond))
	}
	lines = append(lines, topDue(o.Due))
	if o.Installation != nil {
		lines = append(lines, topInstallation(o.Installation))
	}
	return lines
}

func topLate(w *admin.OverviewWindow, late time.Duration) string {
	if w.StartedPerSecond == 0 {
		return "-"
	}
	return cmp.Or(strings.TrimPrefix(topDuration(late), "-"), "0")
}

// topSpan is a whole number of minutes, hours or one day.
func topSpan(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}

// topEnded shows how tasks ended in the last minute, most first.
func topEnded(ended map[sdk.State]float64) string {
	states := slices.SortedFunc(maps.Keys(ended), func(a, b sdk.State) int { return cmp.Or(cmp.Compare(ended[b], ended[a]), cmp.Compare(a, b)) })
	facts := []string{"ended/s"}
	for _, state := range states {
		facts = append(facts, string(state)+" "+topRate(ended[state]))
	}
	if len(states) == 0 {
		facts = append(facts, "none in the last minute")
	}
	return strings.Join(facts, "  ")
}

func topDue(due []admin.DueSoon) string {
	facts := []string{"due in"}
	for _, d := range due {
		count := topCount(d.Tasks)
		switch {
		case d.AtLeast:
			count = "≥" + count
		case d.Error > 0:
			count += "±" + topCount(d.Error)
		}
		facts = append(facts, topSpan(d.Within)+" "+count)
	}
	if len(due) == 0 {
		facts = append(facts, "not known for now")
	}
	return strings.Join(facts, "  ")
}

// topInstallation says first what is wrong.
func topInstallation(i *admin.Installation) string {
	store := "takes tasks"
	switch {
	case i.StoreFull:
		store = "FULL, takes no new tasks"
	case i.StoreDamaged:
		store = "DAMAGED files"
	}
	owner := "none without an owner"
	if i.UnownedPartitions > 0 {
		owner = fmt.Sprintf("%d WITHOUT AN OWNER", i.UnownedPartitions)
	}
	line := fmt.Sprintf("store %s  %s of %d partitions  workers %d  servers %d", store, owner, i.Partitions, i.Workers, i.Servers)
	if i.NotReady != "" {
		line = "NOT READY: " + i.NotReady + "  " + line
	}
	return line
}
