package sqs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/task"
)

// errRevived ends polls that began before the service was out of reach.
var errRevived = errors.New("the service answers again")

// revival notices that a service that was out of reach answers again. A connection that went dead under a poll looks like one
// whose queue is empty, for as long as polls wait; and whoever backs off need not wait any longer.
type revival struct {
	silent atomic.Bool // requests got no answer lately, and none has since

	mu    sync.Mutex // guards all below
	at    task.Instant
	again chan struct{} // closed when it answers again
}

// isSilence reports whether a request failed without an answer.
func isSilence(err error) bool {
	var api smithy.APIError
	return err != nil && !errors.As(err, &api) && !errors.Is(err, ErrNoQueue)
}

// noteAnswer takes the outcome of every request.
func (d *Driver) noteAnswer(err error) {
	if isSilence(err) {
		d.revival.mu.Lock()
		defer d.revival.mu.Unlock()
		d.revival.at = d.Clock.Now()
		d.revival.silent.Store(true)
		return
	}
	if !d.revival.silent.CompareAndSwap(true, false) {
		return
	}
	d.revival.mu.Lock()
	at := d.revival.at
	close(d.revival.again)
	d.revival.again = make(chan struct{})
	d.revival.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lanes {
		l.polls.mu.Lock()
		l.polls.endThose(at)
		l.polls.mu.Unlock()
	}
}

// onPoll is a poll on its way.
type onPoll struct {
	began task.Instant
	end   context.CancelCauseFunc
}

// endThose gives up polls that began before. The caller holds the lock.
func (p *polls) endThose(before task.Instant) {
	for poll := range p.going {
		if poll.began < before {
			poll.end(errRevived)
		}
	}
}

// rest waits, at most until the service answers again. It is false when the driver is closed.
func (d *Driver) rest(wait time.Duration) bool {
	d.revival.mu.Lock()
	again := d.revival.again
	d.revival.mu.Unlock()
	timer := d.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-again:
	case <-d.pollCtx.Done():
		return false
	}
	return true
}
