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
	waitsForSlot   = "busy workers" // a reason of lambdas only
	unexplained    = "unexplained"  // of lambdas only, too: nothing that is known here holds their tasks back
)

// waitsFor returns what holds a task back; nil: nothing that is known here. It also names a gate that will hold the task
// when the task becomes due.
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

// keyWait returns the reason of a task that is due and waits for its limit key; nil: it does not.
func (in *Inbound) keyWait(t *task.Task, l *catalog.Entry, now task.Instant) *kinesinv1.WaitsFor {
	if !t.State.IsWaiting() || t.Wake > now || t.LimitKey == "" || l == nil || in.KeyWait == nil {
		return nil
	}
	if text := in.KeyWait(l, t); text != "" {
		return &kinesinv1.WaitsFor{Reason: waitsForKey, Text: text}
	}
	return nil
}

// quotaWait returns the reason of a task that is due and whose lambda or priority has a quota; nil: it has none.
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

// queueWait returns the reason of a task that is due and in whose partition tasks wait for room in the queue; nil: none does,
// as far as this server knows.
func (in *Inbound) queueWait(t *task.Task, now task.Instant) *kinesinv1.WaitsFor {
	if !t.State.IsWaiting() || t.Wake > now || in.QueueFull == nil || !in.QueueFull(t.Partition) {
		return nil
	}
	return &kinesinv1.WaitsFor{Reason: waitsForRoom, Text: "queue full: workers have to take tasks of its lambda and priority first"}
}

// gateText describes the gate that holds a task, for people.
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

// budgetText describes the retry budget of a lambda, for people.
func budgetText(l *catalog.Entry) string {
	return fmt.Sprintf("retry budget: lambda %s has %v retries for each first start", l.Name, l.RetryShare)
}

func noWorkerText(l *catalog.Entry) string {
	return "no worker: none is connected for lambda " + l.Name
}
