package inbound

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

// heldBy returns what holds tasks of a lambda back, as far as this process knows without reading tasks; late says that a task
// is overdue.
func (in *Inbound) heldBy(l *catalog.Entry, late bool) (all []*kinesinv1.HeldBy) {
	var held HeldBack
	if in.HeldBack != nil {
		held = in.HeldBack(l.Ref)
	}
	all = append(in.heldByGates(l, held.Gates), in.heldByQuotas(l, &held)...)
	if held.Keys > 0 {
		all = append(all, &kinesinv1.HeldBy{Reason: waitsForKey, Text: "the limits of their limit keys: " + keyLimitsText(l), Tasks: &held.Keys})
	}
	if held.Retries > 0 {
		all = append(all, &kinesinv1.HeldBy{Reason: waitsForBudget, Text: budgetText(l), Tasks: &held.Retries})
	}
	if late && l.Mode == task.Managed && in.NoWorker != nil && in.NoWorker(l) {
		all = append(all, noWorker(l))
	}
	if held.Unexplained > 0 {
		all = append(all, &kinesinv1.HeldBy{Reason: unexplained, Text: "nothing that this server knows of, and yet they do not start: its log may say more", Tasks: &held.Unexplained})
	}
	for class, priority := range l.Priorities {
		if held.QueueFull[class] && held.Quotas[class] == 0 { // a quota also bounds what lies in the queue
			all = append(all, &kinesinv1.HeldBy{
				Reason: waitsForRoom, Priority: priority,
				Text: "the queue of priority " + priority + " is full: workers take its messages more slowly than tasks come due",
			})
		}
	}
	return all
}

// keyLimitsText describes what a lambda allows each limit key, for people.
func keyLimitsText(l *catalog.Entry) string {
	var limits []string
	if l.LimitKeyConcurrency > 0 {
		limits = append(limits, fmt.Sprintf("%d running at once", l.LimitKeyConcurrency))
	}
	if l.LimitKeyRate > 0 {
		limits = append(limits, strconv.FormatFloat(l.LimitKeyRate, 'f', -1, 64)+" starts a second")
	}
	return strings.Join(limits, ", ") + " of each"
}

func noWorker(l *catalog.Entry) *kinesinv1.HeldBy {
	return &kinesinv1.HeldBy{Reason: waitsForWorker, Text: noWorkerText(l)}
}

// heldByGates returns the gates of a lambda that are in force. How many tasks gates hold is known for all gates together, so
// the number is given only if there is one gate; without tasks it may be that none was read since the gate was set.
func (in *Inbound) heldByGates(l *catalog.Entry, held int64) (all []*kinesinv1.HeldBy) {
	if in.Gates == nil {
		return nil
	}
	now := in.Clock.Now()
	for _, g := range in.Gates(l.Ref) {
		if g.InForce(now) {
			all = append(all, &kinesinv1.HeldBy{
				Reason: waitsForGate, Text: gateHoldText(g), Priority: g.Priority, Gate: g.ID, Action: string(g.Action), Until: int64(g.Until),
			})
		}
	}
	if len(all) == 1 && held > 0 {
		all[0].Tasks = &held
	}
	return all
}

// gateHoldText describes what a gate does, and to which tasks, for people.
func gateHoldText(g *hold.Gate) string {
	text := g.String()
	switch {
	case g.Action == hold.Drop:
		text += " drops "
	case !g.Resumed.IsZero():
		text += fmt.Sprintf(" resumes, at %d a second, ", g.Pace)
	default:
		text += " pauses "
	}
	switch {
	case g.Priority != "":
		return text + "tasks of priority " + g.Priority
	case g.Collection != "":
		return text + "tasks of collection " + g.Collection
	case g.TagName != "":
		return text + "tasks with the tag " + g.TagName + "=" + g.TagValue
	}
	return text + "all tasks"
}

// heldByQuotas returns the quotas for which tasks wait: those of a priority wait for its own quota and for that of the lambda.
func (in *Inbound) heldByQuotas(l *catalog.Entry, held *HeldBack) (all []*kinesinv1.HeldBy) {
	var spent [task.PrioritiesMax]PriorityRates
	if in.Rates != nil {
		spent = in.Rates(l.Ref).Priorities
	}
	for _, limit := range held.Limits {
		h := &kinesinv1.HeldBy{Reason: waitsForQuota, Priority: limit.Priority, Rate: limit.Rate, Concurrency: limit.Concurrency}
		var waiting int64
		for class := range l.Priorities {
			if limit.Priority == "" || limit.Class == uint8(class) {
				waiting += held.Quotas[class]
				h.Used += spent[class].Spent
			}
		}
		if waiting == 0 {
			continue
		}
		of := "the lambda"
		if limit.Priority != "" {
			of = "priority " + limit.Priority
		}
		h.Tasks = &waiting
		h.Text = quotaHoldText(of, &limit, h.Used)
		all = append(all, h)
	}
	return all
}

// quotaHoldText describes what a quota allows, for people.
func quotaHoldText(of string, l *StartLimit, used float64) string {
	text := "the quota of " + of
	if l.Concurrency > 0 {
		text += fmt.Sprintf(", %d running at once", l.Concurrency)
	}
	if l.Rate > 0 {
		text += fmt.Sprintf(", %s starts a second, of which this server used %.1f in the last minute", strconv.FormatFloat(l.Rate, 'f', -1, 64), used)
	}
	return text
}
