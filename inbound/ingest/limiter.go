package ingest

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
)

const (
	// burstMax is how much of the rate may be taken at once after a quiet time.
	burstMax = time.Second
	// batchTimeMax is how much of the rate one receive may bring.
	batchTimeMax = 500 * time.Millisecond
)

// limiter keeps tasks to a rate. Since messages have any number of tasks, a receive reserves what it may
// bring by the average so far, and corrects that afterwards.
type limiter struct {
	rate float64 // tasks a second; no bound when not positive

	mu        sync.Mutex    // guards the rest
	next      time.Duration // monotonic time from which on the next task may come
	tasksEach float64       // moving average of the tasks of a message
}

// reserve returns how many messages to receive, how many tasks it reserved for them, and how long to wait
// before. With a low rate they are few, so that it is steady.
func (l *limiter) reserve(now time.Duration) (messages, tasks int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	messages = buffer.BatchMax
	if l.rate <= 0 {
		return messages, 0, 0
	}
	messages = min(messages, max(1, int(l.rate*batchTimeMax.Seconds()/l.tasksEach)))
	tasks = max(1, int(float64(messages)*l.tasksEach))
	l.next = max(l.next, now-burstMax)
	wait = l.next - now
	l.next += l.worth(tasks)
	return messages, tasks, wait
}

// received corrects a reservation by what came.
func (l *limiter) received(reserved, messages, tasks int) {
	if l.rate <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next += l.worth(tasks - reserved)
	if messages > 0 {
		const weight = 0.2
		l.tasksEach = max(1, (1-weight)*l.tasksEach+weight*float64(tasks)/float64(messages))
	}
}

func (l *limiter) worth(tasks int) time.Duration {
	return time.Duration(float64(tasks) / l.rate * float64(time.Second))
}
