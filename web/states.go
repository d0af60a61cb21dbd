package web

import (
	"cmp"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

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
