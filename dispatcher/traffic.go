package dispatcher

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// traffic knows how many tasks are sent about now, by all rounds together: company that is worth waiting for.
type traffic struct {
	mu        sync.Mutex   // guards what follows
	second    task.Instant // the latest one in which tasks were due
	now, then int          // tasks due in that second, and in the one before
}

// oneSecond is what tasks are counted by.
const oneSecond = task.Instant(time.Second / time.Microsecond)

// sendAt is when to send a task: when it is due or, if more than one is sent in the time between them, at the next of
// the moments that are so far apart.
func (f *traffic) sendAt(due task.Instant, apart time.Duration) task.Instant {
	if time.Duration(f.rate(due))*apart <= time.Second {
		return due
	}
	step := task.Instant(0).Add(apart)
	return (due + step - 1) / step * step
}

// rate is how many tasks a second were sent lately.
func (f *traffic) rate(at task.Instant) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch at - at%oneSecond {
	case f.second:
		return max(f.now, f.then)
	case f.second + oneSecond:
		return f.now
	}
	return 0
}

// note counts tasks that are sent, by when the first of them was due. What is late does not count.
func (f *traffic) note(due task.Instant, tasks int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := due - due%oneSecond
	switch {
	case of == f.second+oneSecond:
		f.second, f.now, f.then = of, 0, f.now
	case of > f.second:
		f.second, f.now, f.then = of, 0, 0
	case of < f.second:
		return
	}
	f.now += tasks
}
