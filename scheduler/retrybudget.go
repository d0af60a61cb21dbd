package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// A retry that its lambda's budget does not allow stays in its row. The loop remembers the ids of such tasks in the order in
// which they came, and reads their rows again when there is budget. Meanwhile they cost no reads, and take no room in the
// buffer from first starts, which earn the budget.

const (
	// overBudgetMax bounds the retries of a partition that are remembered; the others are found by the next
	// full scan.
	overBudgetMax = 8192
	// overBudgetCheck is after how long a retry that waits is read again in any case.
	overBudgetCheck = 5 * time.Minute
	// overBudgetPoll is how often the budget is asked while retries wait.
	overBudgetPoll = 100 * time.Millisecond
)

// boundsRetries reports whether the retries of the partition's tasks are bounded.
func (l *loop) boundsRetries() bool {
	return l.RetryBudget != nil && l.RetryBudget.IsBounded(l.partition.Lambda)
}

// withinRetryBudget takes budget for the retries among orders, and removes those for which there is none.
func (m *managedMode) withinRetryBudget(orders []task.Order) []task.Order {
	if !m.boundsRetries() {
		return orders
	}
	kept := orders[:0]
	for i := range orders {
		if spendsRetry(&orders[i]) && !m.RetryBudget.Take(m.partition.Lambda) {
			m.keepOverBudget(&orders[i].Task)
			continue
		}
		kept = append(kept, orders[i])
	}
	return kept
}

// returnRetry gives back the budget of an order that was not carried out.
func (m *managedMode) returnRetry(o *task.Order) {
	if spendsRetry(o) && m.boundsRetries() {
		m.RetryBudget.Return(m.partition.Lambda)
	}
}

// earnRetries earns budget for an order that was carried out, if it started a task that has not failed.
func (m *managedMode) earnRetries(o *task.Order) {
	if o.Event.Kind == task.Enqueue && (o.First || isRetry(*o)) && !spendsRetry(o) && m.boundsRetries() {
		m.RetryBudget.Earn(m.partition.Lambda, 1)
	}
}

func (m *managedMode) keepOverBudget(t *task.Task) {
	f := m.inFlightAt(t, m.now().Add(overBudgetCheck))
	f.overBudget = true
	if one := m.inFlight.byID[t.ID]; one == nil || !one.overBudget {
		if len(m.overBudget) >= overBudgetMax {
			m.inFlight.drop(t.ID)
			m.inFlight.overflowed = true
			return
		}
		m.overBudget = append(m.overBudget, t.ID)
	}
	m.inFlight.put(f)
}

// releaseRetries has the rows of retries that wait read again, as many as there is budget for.
func (m *managedMode) releaseRetries() {
	if len(m.overBudget) == 0 {
		return
	}
	left := batchRowsMax
	if m.boundsRetries() {
		left = min(left, m.RetryBudget.Left(m.partition.Lambda))
	}
	first := m.now().Add(-overBudgetCheck) // before those that have just come due
	n := 0
	for ; n < len(m.overBudget) && left > 0; n++ {
		if one := m.inFlight.byID[m.overBudget[n]]; one != nil && one.overBudget {
			t := *one
			t.checkAt, t.rowAt, t.overBudget = first, first, false
			m.inFlight.put(t)
			left--
		}
	}
	if m.overBudget = m.overBudget[n:]; len(m.overBudget) == 0 {
		m.overBudget = nil
	}
}
