package hsc

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
)

// leaseLookEvery is how often the lease of a worker that seems to be late is read again: its heartbeats may
// go to another HSC.
const leaseLookEvery = time.Second

// claimLoop claims tasks for one slot group, one batch after the other, never more than it has room for.
type claimLoop struct {
	*stream

	group   *slotGroup
	claimer claimer

	lambdas  []*catalog.Entry
	names    []queue.Name
	turn     int
	failures int // calls of Receive in a row that failed
}

// claimFor claims for a slot group until the stream drains or ends.
func (st *stream) claimFor(g *slotGroup) {
	l := &claimLoop{stream: st, group: g, claimer: claimer{svc: st.svc, sess: st.sess}}
	for l.awaitSlot() && l.awaitLease() {
		messages, err := l.receive()
		if len(messages) > 0 {
			l.claim(messages)
		}
		if err == nil {
			l.failures = 0
			continue
		}
		l.svc.Hooks.Failed("receive messages", err)
		if errors.Is(err, queue.ErrClosed) {
			l.stop(errStopping)
		}
		l.failures++
		if storeRetry.Sleep(l.ctx, l.svc.Clock, l.failures) != nil {
			return
		}
	}
}

// awaitSlot waits for a free slot; false when no more is to be claimed.
func (l *claimLoop) awaitSlot() bool {
	for {
		l.sess.mu.Lock()
		done, free := l.draining || l.closed, l.group.room() > 0
		l.sess.mu.Unlock()
		if done || l.ctx.Err() != nil {
			return false
		}
		if free {
			return true
		}
		select {
		case <-l.group.changed:
		case <-l.ctx.Done():
			return false
		}
	}
}

// awaitLease waits until the worker holds its lease: a process that was stopped, or is cut off, gets no more
// tasks although its stream is still open. It returns false when the stream is over.
func (l *claimLoop) awaitLease() bool {
	for {
		err := l.svc.requireLease(l.ctx, l.sess)
		if err == nil {
			return true
		}
		if errors.Is(err, api.ErrLeaseLost) || !l.sleep() {
			return false
		}
	}
}

// sleep pauses until something changes, leaseLookEvery at most; false when no more is to be claimed.
func (l *claimLoop) sleep() bool {
	t := l.svc.Clock.NewTimer(leaseLookEvery)
	defer t.Stop()
	select {
	case <-t.C():
	case <-l.group.changed:
	case <-l.ctx.Done():
		return false
	}
	l.sess.mu.Lock()
	defer l.sess.mu.Unlock()
	return !l.draining && !l.closed
}

// receive waits for messages for the free slots. It returns early, with none, when the queues to poll have
// changed.
func (l *claimLoop) receive() ([]queue.Message, error) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	limit, accepted := l.chooseQueues(cancel)
	defer l.setCancel(nil)
	switch {
	case limit <= 0:
		return nil, nil
	case !accepted.anything:
		l.svc.awaitQuarantineEnd(ctx, l.sess)
		return nil, nil
	case len(l.names) == 0: // until a lambda is created again
		<-ctx.Done()
		return nil, nil
	}
	l.group.idleSince.Store(int64(cmp.Or(clock.Mono(l.svc.Clock), 1)))
	messages, err := l.svc.receive(ctx, l.names, limit, accepted.backoff)
	l.group.idleSince.Store(0)
	return messages, err
}

// chooseQueues chooses the queues to poll. Whoever changes something on which the choice depends calls cancel
// from before the choice is made.
func (l *claimLoop) chooseQueues(cancel context.CancelFunc) (limit int, a accepted) {
	l.setCancel(cancel)
	l.turn++
	l.lambdas = l.svc.entries(l.lambdas, l.group.lambdas)
	l.sess.mu.Lock()
	defer l.sess.mu.Unlock()
	if l.draining || l.closed {
		return 0, a
	}
	a = l.sess.accepts(clock.Steady(l.svc.Clock))
	l.names = queueNames(l.names, l.lambdas, l.turn, a)
	return l.group.room(), a
}

func (l *claimLoop) setCancel(cancel context.CancelFunc) {
	l.sess.mu.Lock()
	defer l.sess.mu.Unlock()
	l.group.cancelReceive = cancel
}

// claim claims the tasks of messages and delivers them.
func (l *claimLoop) claim(messages []queue.Message) {
	if l.ctx.Err() != nil || !l.sess.holdsLease(l.svc.Clock) {
		l.svc.putBack(l.ctx, messages, 0)
		return
	}
	messages = l.claimer.admissible(l.ctx, l.group, messages)
	if err := l.claimer.run(l.ctx, messages); err != nil {
		l.svc.removeSession(l.sess.worker, err)
	}
	won := l.claimer.deliveries(l.ctx)
	l.sess.returnSlots(l.group, len(messages)-len(won))
	l.deliver(l.group, won)
}

// receive waits for messages until ctx ends, d at most; 0: no limit.
func (s *Service) receive(ctx context.Context, names []queue.Name, limit int, d time.Duration) ([]queue.Message, error) {
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = clock.Within(ctx, s.Clock, d)
		defer cancel()
	}
	messages, err := s.Queue.Receive(ctx, names, limit, s.Ahead)
	if ctx.Err() != nil {
		err = nil
	}
	return messages, err
}
