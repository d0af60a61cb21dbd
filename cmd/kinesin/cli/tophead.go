package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// topHead returns the lines above the lambdas: rates, lateness, what will be due, and the state of the
// installation, as far as the caller may see them.
func topHead(seen *kinesinv1.StatsResponse) []string {
	var started, ended, failed float64
	var waits, runs, deadHour, deadDay int64
	for _, s := range seen.GetLambdas() {
		started, ended, failed = started+s.GetStartedPerSecond(), ended+s.GetEndedPerSecond(), failed+s.GetFailedPerSecond()
		waits, runs = waits+topWaits(s), runs+topRuns(s)
		deadHour, deadDay = deadHour+s.GetDeadHour(), deadDay+s.GetDeadDay()
	}
	lines := []string{
		fmt.Sprintf("kinesin  %d lambdas  started %s/s  ended %s/s  failed %s/s  waiting %s  running %s", len(seen.GetLambdas()),
			topRate(started), topRate(ended), topRate(failed), topCount(waits), topCount(runs)),
		fmt.Sprintf("dead  1h %d  1d %d", deadHour, deadDay),
	}
	o := seen.GetOverview()
	if len(o.GetWindows()) > 0 {
		late := []string{"late p50/95/99"}
		for _, w := range o.GetWindows() {
			late = append(late, fmt.Sprintf("%s %s/%s/%s", topSpan(w.GetAsked()), topLate(w, w.GetLatenessP50()), topLate(w, w.GetLatenessP95()), topLate(w, w.GetLatenessP99())))
		}
		lines = append(lines, strings.Join(late, "  "), topEnded(o.GetWindows()[0].GetEndedPerSecond()))
	}
	lines = append(lines, topDue(o.GetDue()))
	if o.GetInstallation() != nil {
		lines = append(lines, topInstallation(o.GetInstallation()))
	}
	return lines
}

func topLate(w *kinesinv1.OverviewWindow, late int64) string {
	if w.GetStartedPerSecond() == 0 {
		return "-"
	}
	return cmp.Or(strings.TrimPrefix(topDuration(task.Micros(late)), "-"), "0")
}

// topSpan is a whole number of minutes, hours or one day.
func topSpan(micros int64) string {
	switch d := task.Micros(micros); {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
}

// topEnded shows how tasks ended in the last minute, most first.
func topEnded(ended map[string]float64) string {
	states := slices.SortedFunc(maps.Keys(ended), func(a, b string) int { return cmp.Or(cmp.Compare(ended[b], ended[a]), cmp.Compare(a, b)) })
	facts := []string{"ended/s"}
	for _, state := range states {
		facts = append(facts, state+" "+topRate(ended[state]))
	}
	if len(states) == 0 {
		facts = append(facts, "none in the last minute")
	}
	return strings.Join(facts, "  ")
}

func topDue(due []*kinesinv1.DueSoon) string {
	facts := []string{"due in"}
	for _, d := range due {
		count := topCount(d.GetTasks())
		switch {
		case d.GetAtLeast():
			count = "≥" + count
		case d.GetError() > 0:
			count += "±" + topCount(d.GetError())
		}
		facts = append(facts, topSpan(d.GetWithin())+" "+count)
	}
	if len(due) == 0 {
		facts = append(facts, "not known for now")
	}
	return strings.Join(facts, "  ")
}

// topInstallation says first what is wrong.
func topInstallation(i *kinesinv1.Installation) string {
	store := "takes tasks"
	switch {
	case i.GetStoreFull():
		store = "FULL, takes no new tasks"
	case i.GetStoreDamaged():
		store = "DAMAGED files"
	}
	owner := "none without an owner"
	if i.GetUnownedPartitions() > 0 {
		owner = fmt.Sprintf("%d WITHOUT AN OWNER", i.GetUnownedPartitions())
	}
	line := fmt.Sprintf("store %s  %s of %d partitions  workers %d  servers %d", store, owner, i.GetPartitions(), i.GetWorkers(), i.GetServers())
	if i.GetNotReady() != "" {
		line = "NOT READY: " + i.GetNotReady() + "  " + line
	}
	return line
}
