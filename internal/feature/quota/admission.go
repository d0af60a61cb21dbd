package quota

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// admitBurst is how much of a quota of admission may come at once.
	admitBurst = time.Second
	// metersMax is how many identities of lambdas are kept; beyond it those are forgotten whose burst is
	// whole.
	metersMax = 4096
)

// Admission keeps this server's share of the quotas of what Schedule takes. It is safe for concurrent use.
type Admission struct {
	Book  *Book
	Clock clock.Clock
	// Servers returns how many servers share a quota.
	Servers func() int

	mu     sync.Mutex
	meters map[meterKey]time.Duration // theoretical arrival times, in steady time
}

type meterKey struct {
	lambda   uint32
	identity string // empty: all together
}

// Take admits a task of an identity. When a quota is used up it does not, and says after what time that
// task will be, if refused tasks of the same call go before it.
func (a *Admission) Take(lambda uint32, identity string, refused int) (after time.Duration, ok bool) {
	of := a.Book.Value()[lambda]
	if of == nil || len(of.admits) == 0 {
		return 0, true
	}
	servers := float64(max(1, a.Servers()))
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Duration(clock.Steady(a.Clock)) * time.Microsecond
	meters := [2]meter{}
	n := 0
	for _, name := range []string{"", identity} {
		if rate := of.admits[name]; rate > 0 && (n == 0 || name != "") {
			meters[n] = meter{key: meterKey{lambda, name}, rate: rate / servers}
			after = max(after, meters[n].read(a, now, refused))
			n++
		}
	}
	if after > 0 {
		return after, false
	}
	for _, m := range meters[:n] {
		a.meters[m.key] = m.next
	}
	return 0, true
}

// meter is a leaky bucket while it is looked at.
type meter struct {
	key  meterKey
	rate float64
	next time.Duration // its theoretical arrival time once the task is taken
}

// read reads the meter, and returns how long to wait; 0: not at all.
func (m *meter) read(a *Admission, now time.Duration, refused int) time.Duration {
	if a.meters == nil {
		a.meters = map[meterKey]time.Duration{}
	}
	a.forgetWhole(now)
	interval := float64(time.Second) / m.rate
	tolerance := max(0, admitBurst-time.Duration(interval))
	tat := now - tolerance
	if known, ok := a.meters[m.key]; ok {
		if known > now+time.Duration(interval) {
			known = now // of a lower rate
		}
		tat = max(tat, known)
	}
	m.next = tat + time.Duration(interval)
	if tat <= now {
		return 0
	}
	wait := tat - now + time.Duration(float64(refused)*interval)
	return min(wait, max(admitBurst, tat-now))
}

func (a *Admission) forgetWhole(now time.Duration) {
	if len(a.meters) < metersMax {
		return
	}
	for key, tat := range a.meters {
		if tat <= now-admitBurst {
			delete(a.meters, key)
		}
	}
}
