package inbound

import (
	"fmt"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

// The reasons why a task waits, as callers see them.
const (
	waitsForGate   = "gate"
	waitsForQuota  = "quota"
	waitsForKey    = "key"
	waitsForBudget = "retry budget"
	waitsForWorker = "no worker"
	waitsForRoom   = "queue full"
	waitsForChain  = "chain"
	waitsForSlot   = "busy workers" // told of lambdas only
	unexplained    = "unexplained"  // as is this: nothing that is known here holds them
)

// waitsFor returns what holds a task back; nil: nothing that is known here. A gate is told of before the task
// is due if it still holds the task then.
func (in *Inbound) waitsFor(t *task.Task, l *catalog.Entry) *kinesinv1.WaitsFor {
	if t.Chain != nil && t.Chain.Paused && !t.State.IsEnd() && !t.State.IsRunning() {
		return &kinesinv1.WaitsFor{Reason: waitsForChain, Text: "chain paused: kinesin chain resume has it go on"}
	}
	start, waits := startOf(t)
	if !waits || l == nil {
		return nil
	}
	now := in.Clock.Now()
	if in.Gates != nil {
		if g := in.Gates(t.Partition.Lambda).Of(t, max(start, now)); g != nil {
			return &kinesinv1.WaitsFor{Reason: waitsForGate, Text: gateText(g), Gate: g.ID, Until: int64(g.Until)}
		}
	}
	if l.RetryShare > 0 && t.State == task.RetriableFailure && t.Wake <= now {
		return &kinesinv1.WaitsFor{Reason: waitsForBudget, Text: budgetText(l)}
	}
	if l.Mode == task.Managed && start <= now && in.NoWorker != nil && in.NoWorker(l) {
		return &kinesinv1.WaitsFor{Reason: waitsForWorker, Text: noWorkerText(l)}
	}
	return nil
}

// keyWait returns that a task waits for its limit key: it is due, and its lambda has limits by key; nil if it
// does not.
func (in *Inbound) keyWait(t *task.Task, l *catalog.Entry, now task.Instant) *kinesinv1.WaitsFor {
	if !t.State.IsWaiting() || t.Wake > now || t.LimitKey == "" || l == nil || in.KeyWait == nil {
		return nil
	}
	if text := in.KeyWait(l, t); text != "" {
		return &kinesinv1.WaitsFor{Reason: waitsForKey, Text: text}
	}
	return nil
}

// quotaWait returns that a task waits for its quota: it is due, and its lambda has one; nil if it does not.
func (in *Inbound) quotaWait(t *task.Task, now task.Instant) *kinesinv1.WaitsFor {
	if !t.State.IsWaiting() || t.Wake > now || in.StartQuota == nil {
		return nil
	}
	of := in.StartQuota(t.Partition)
	if of == "" {
		return nil
	}
	return &kinesinv1.WaitsFor{Reason: waitsForQuota, Text: "the quota of " + of + " of its lambda or priority; kinesin quota list shows it"}
}

// queueWait returns that a task waits for room in its queue: it is due, and others of its partition wait for
// that; nil if it does not, as far as this server knows.
func (in *Inbound) queueWait(t *task.Task, now task.Instant) *kinesinv1.WaitsFor {
	if !t.State.IsWaiting() || t.Wake > now || in.QueueFull == nil || !in.QueueFull(t.Partition) {
		return nil
	}
	return &kinesinv1.WaitsFor{Reason: waitsForRoom, Text: "queue full: workers have to take tasks of its lambda and priority first"}
}

// gateText says for people which gate holds a task.
func gateText(g *hold.Gate) string {
	switch {
	case g.Action == hold.Drop:
		return g.String() + " drops it when it is due"
	case g.Probes():
		return fmt.Sprintf("%v, which lets %d tasks per second through as probes", g, g.Pace)
	case !g.Resumed.IsZero():
		return fmt.Sprintf("%v, which resumes at %d tasks per second", g, g.Pace)
	}
	return g.String()
}

// budgetText says for people how many retries a lambda allows.
func budgetText(l *catalog.Entry) string {
	return fmt.Sprintf("retry budget: lambda %s has %v retries for each first start", l.Name, l.RetryShare)
}

func noWorkerText(l *catalog.Entry) string {
	return "no worker: none is connected for lambda " + l.Name
}
