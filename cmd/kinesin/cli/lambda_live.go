package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// liveRows adds the live figures of a lambda.
func liveRows(t table, l *kinesinv1.Lambda) {
	s := l.GetLive()
	if !isDeliver(l) && s.Workers != nil {
		t.row("workers", strconv.FormatInt(s.GetWorkers(), 10))
	}
	t.row("live tasks", liveTasksText(s))
	t.fact("overdue", overdueText(s))
	started := "first starts"
	if isDeliver(l) {
		started = "deliveries"
	}
	t.row("last minute", fmt.Sprintf("%.1f/s %s, %.1f/s ends, %.1f/s failed attempts", s.GetStartedPerSecond(), started, s.GetEndedPerSecond(), s.GetFailedPerSecond()))
	if s.GetThrottledPerSecond() > 0 {
		t.row("refused", fmt.Sprintf("%.1f/s by admission quotas", s.GetThrottledPerSecond()))
	}
	if s.GetLatenessP99() > 0 {
		t.row("lateness", fmt.Sprintf("p50 %s, p99 %s", millisText(s.GetLatenessP50()), millisText(s.GetLatenessP99())))
	}
	for _, p := range s.GetPriorities() {
		t.row("queue "+p.GetPriority(), queueText(p))
	}
	for _, h := range s.GetHeldBy() {
		t.row("held back by", heldByText(h))
	}
	if len(s.GetHeldBy()) == 0 {
		t.row("held back by", "nothing that this server knows of")
	}
}

// liveTasksText says how many tasks live, if that is known.
func liveTasksText(s *kinesinv1.LambdaStats) string {
	if !s.GetExact() && len(s.GetTasks()) == 0 && s.Due == nil {
		return "not counted; --count estimates them"
	}
	count := func(states ...sdk.State) string { return numberText(tasksIn(s, states...), s.GetExact()) }
	text := fmt.Sprintf("%s wait, %s queued, %s run", count(sdk.StateScheduled, sdk.StateRetriableFailure),
		count(sdk.StateEnqueued, sdk.StateAcquired), count(sdk.StateClaimed, sdk.StateProcessing))
	if s.Due != nil {
		text += "; " + numberText(s.GetDue(), s.GetDueExact()) + " are due"
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
func overdueText(s *kinesinv1.LambdaStats) string {
	if s.GetOldestDue() == 0 {
		return ""
	}
	late := max(0, clock.Real().Now().Time().Sub(time.UnixMicro(s.GetOldestDue())))
	if late < time.Second {
		return late.Round(time.Millisecond).String()
	}
	return late.Round(time.Second).String()
}

func queueText(p *kinesinv1.PriorityStats) string {
	text := "not known"
	if p.Queued != nil {
		text = fmt.Sprintf("%d tasks", p.GetQueued())
		if p.GetInFlight() > 0 {
			text += fmt.Sprintf(", %d in flight", p.GetInFlight())
		}
		if p.GetOldest() > 0 {
			text += ", oldest " + task.Micros(p.GetOldest()).Round(time.Millisecond).String()
		}
	}
	return text + fmt.Sprintf("; %.1f/s started", p.GetStartedPerSecond())
}

func heldByText(h *kinesinv1.HeldBy) string {
	if h.Tasks == nil {
		return h.GetText()
	}
	return fmt.Sprintf("%s: about %d tasks here", h.GetText(), h.GetTasks())
}

// heldByReasons returns why tasks wait, each reason once.
func heldByReasons(all []*kinesinv1.HeldBy) string {
	var reasons []string
	for _, h := range all {
		reason := h.GetReason()
		if h.GetGate() != "" {
			reason += " " + h.GetGate()
		}
		if len(reasons) == 0 || reasons[len(reasons)-1] != reason {
			reasons = append(reasons, reason)
		}
	}
	return strings.Join(reasons, ", ")
}
