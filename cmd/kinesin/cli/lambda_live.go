package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// liveRows adds the live figures of a lambda.
func liveRows(t table, l *admin.Lambda) {
	s := l.Live
	if l.Mode != admin.ModeDeliver && s.Workers >= 0 {
		t.row("workers", strconv.Itoa(s.Workers))
	}
	t.row("live tasks", liveTasksText(s))
	t.fact("overdue", overdueText(s))
	started := "first starts"
	if l.Mode == admin.ModeDeliver {
		started = "deliveries"
	}
	t.row("last minute", fmt.Sprintf("%.1f/s %s, %.1f/s ends, %.1f/s failed attempts", s.StartedPerSecond, started, s.EndedPerSecond, s.FailedPerSecond))
	if s.ThrottledPerSecond > 0 {
		t.row("refused", fmt.Sprintf("%.1f/s by admission quotas", s.ThrottledPerSecond))
	}
	if s.LatenessP99 > 0 {
		t.row("lateness", fmt.Sprintf("p50 %s, p99 %s", latenessText(s.LatenessP50), latenessText(s.LatenessP99)))
	}
	for i := range s.Priorities {
		p := &s.Priorities[i]
		t.row("queue "+p.Priority, queueText(p))
	}
	for i := range s.HeldBy {
		t.row("held back by", heldByText(&s.HeldBy[i]))
	}
	if len(s.HeldBy) == 0 {
		t.row("held back by", "nothing that this server knows of")
	}
}

// liveTasksText says how many tasks live, if that is known.
func liveTasksText(s *admin.LambdaStats) string {
	if !s.Exact && len(s.Tasks) == 0 && s.Due < 0 {
		return "not counted; --count estimates them"
	}
	count := func(states ...sdk.State) string { return numberText(tasksIn(s, states...), s.Exact) }
	text := fmt.Sprintf("%s wait, %s queued, %s run", count(sdk.StateScheduled, sdk.StateRetriableFailure),
		count(sdk.StateEnqueued, sdk.StateAcquired), count(sdk.StateClaimed, sdk.StateProcessing))
	if s.Due >= 0 {
		text += "; " + numberText(s.Due, s.DueExact) + " are due"
	}
	return text
}

// numberText marks an estimate.
func numberText(n int64, exact bool) string {
	text := strconv.FormatInt(n, 10)
	if !exact {
		return "~" + text
	}
	return text
}

// overdueText says how long the task is overdue that has waited longest; empty if none is.
func overdueText(s *admin.LambdaStats) string {
	if s.OldestDue.IsZero() {
		return ""
	}
	late := max(0, clock.Real().Now().Time().Sub(s.OldestDue))
	if late < time.Second {
		return late.Round(time.Millisecond).String()
	}
	return late.Round(time.Second).String()
}

func queueText(p *admin.PriorityStats) string {
	text := "not known"
	if p.Queued >= 0 {
		text = fmt.Sprintf("%d tasks", p.Queued)
		if p.InFlight > 0 {
			text += fmt.Sprintf(", %d in flight", p.InFlight)
		}
		if p.Oldest > 0 {
			text += ", oldest " + p.Oldest.Round(time.Millisecond).String()
		}
	}
	return text + fmt.Sprintf("; %.1f/s started", p.StartedPerSecond)
}

func heldByText(h *admin.HeldBy) string {
	if h.Tasks < 0 {
		return h.Text
	}
	return fmt.Sprintf("%s: about %d tasks here", h.Text, h.Tasks)
}

// heldByReasons returns why tasks wait, each reason once.
func heldByReasons(all []admin.HeldBy) string {
	var reasons []string
	for i := range all {
		reason := all[i].Reason
		if all[i].Gate != "" {
			reason += " " + all[i].Gate
		}
		if len(reasons) == 0 || reasons[len(reasons)-1] != reason {
			reasons = append(reasons, reason)
		}
	}
	return strings.Join(reasons, ", ")
}

// heldByObject is what holds tasks back, in JSON results.
type heldByObject struct {
	Reason   string  `json:"reason"`
	Text     string  `json:"text"`
	Tasks    *int64  `json:"tasks,omitempty"` // unless it is not known
	Priority string  `json:"priority,omitempty"`
	Gate     string  `json:"gate,omitempty"`
	Action   string  `json:"action,omitempty"`
	Until    string  `json:"until,omitempty"`
	Rate     float64 `json:"rate,omitempty"`
	Used     float64 `json:"used,omitempty"`

	Concurrency int `json:"concurrency,omitempty"`
}

// priorityObject is what there is to say of a priority, in JSON results.
type priorityObject struct {
	Priority string  `json:"priority"`
	Started  float64 `json:"started_per_second"`
	Queued   *int64  `json:"queued,omitempty"` // unless it is not known
	InFlight int64   `json:"in_flight"`
	OldestMS float64 `json:"oldest_ms,omitempty"`
}

func heldByObjects(all []admin.HeldBy) []heldByObject {
	objects := make([]heldByObject, len(all))
	for i := range all {
		h := &all[i]
		objects[i] = heldByObject{h.Reason, h.Text, known(h.Tasks), h.Priority, h.Gate, string(h.Action), timeText(h.Until), h.Rate, h.Used, h.Concurrency}
	}
	return objects
}

// known returns a number; nil for -1.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
