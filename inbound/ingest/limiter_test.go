package ingest

import (
	"testing"
	"time"
)

// A receive that brings more tasks than were reserved is paid for later, and the next one asks for fewer
// messages.
func TestTheLimiterLearnsHowManyTasksAMessageHas(t *testing.T) {
	l := limiter{rate: 10, tasksEach: 1}
	messages, tasks, wait := l.reserve(time.Hour)
	if messages != 5 || tasks != 5 || wait != -burstMax {
		t.Errorf("%d messages with %d tasks after %v: want half a second's worth at once", messages, tasks, wait)
	}
	l.received(tasks, messages, 50)
	messages, _, wait = l.reserve(time.Hour)
	if messages != 1 || wait != 4*time.Second {
		t.Errorf("%d messages after %v: want one after what 50 tasks cost, less the burst", messages, wait)
	}
}

func TestALimiterWithoutARateNeverWaits(t *testing.T) {
	l := limiter{tasksEach: 1}
	for range 3 {
		_, tasks, wait := l.reserve(time.Hour)
		if tasks != 0 || wait != 0 {
			t.Errorf("%d tasks reserved, after %v", tasks, wait)
		}
		l.received(tasks, 10, 1000)
	}
}
