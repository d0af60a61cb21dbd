package dynamo

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// What a slow request is: one that takes longer than slowMin, and than slowTimes the fastest one so far.
const (
	slowMin   = 150 * time.Millisecond
	slowTimes = 4
)

// limit is how many requests may write at once. It rises by one with every round of quick answers and falls with
// slow or failed ones, so that what a busy service cannot take waits here, where heartbeats overtake it, and
// not there. The caller of its methods holds writes.mu.
type limit struct {
	now      float64
	low, top float64
	fastest  time.Duration
	fell     task.Instant // when it was lowered
}

func newLimit(c *Config) limit {
	low, top := float64(c.SharedMax), float64(c.RequestsMax)
	return limit{now: max(low, top/4), low: low, top: top}
}

// answered notes how long a request took, while so many were under way, itself included.
func (l *limit) answered(now task.Instant, took time.Duration, under int, failed bool) {
	if !failed && (l.fastest == 0 || took < l.fastest) {
		l.fastest = took
	}
	switch {
	case failed || took > max(slowMin, slowTimes*l.fastest):
		if now.Sub(l.fell) > took { // once for all that were under way together
			l.now, l.fell = max(l.low, l.now*0.7), now
		}
	case under >= int(l.now):
		l.now = min(l.top, l.now+1/l.now)
	}
}
