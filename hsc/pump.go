package hsc

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// leaseLookEvery is how often the lease of a worker that seems to be late is read again: its
// heartbeats may go to another HSC.
const leaseLookEvery = time.Second

// pump claims tasks for one slot group, one batch after the other, never more than it has free slots.
type pump struct {
	*stream
	group   *group
	claimer claimer

	lambdas []*catalog.Entry
	names   []queue.Name
	turn    int
	retry   backoff
}

// pump runs until the stream drains or ends.
func (st *stream) pump(g *group) {
	p := &pump{stream: st, group: g, claimer: claimer{svc: st.svc, sess: st.sess}}
	for p.awaitSlot() && p.awaitLease() {
		messages, err := p.receive()
		if len(messages) > 0 {
			p.claim(messages)
		}
		if err == nil {
			p.retry.reset()
			continue
		}
		p.svc.Hooks.failed("receive messages", err)
		if errors.Is(err, queue.ErrClosed) {
			p.stop(errStopping)
		}
		if !p.retry.sleep(p.ctx, p.svc.Clock) {
			return
		}
	}
}

// awaitSlot waits for a free slot; false when no more is to be claimed.
func (p *pump) awaitSlot() bool {
	for {
		p.sess.mu.Lock()
		done, free := p.draining || p.closed, p.group.room() > 0
		p.sess.mu.Unlock()
		if done || p.ctx.Err() != nil {
			return false
		}
		if free {
			return true
		}
		select {
		case <-p.group.changed:
		case <-p.ctx.Done():
			return false
		}
	}
}

// awaitLease waits until the worker's lease is good: a process that was stopped, or is cut off, gets no more
// tasks although its stream is still open. false when the stream is over.
func (p *pump) awaitLease() bool {
	for !p.sess.isGood(p.svc.Clock) {
		l, err := p.svc.Leases.Look(p.ctx, p.sess.worker)
		switch {
		case err != nil:
			p.svc.Hooks.failed("read a worker lease", err)
		case l.Lost:
			p.svc.lose(p.sess.worker)
			return false
		default:
			p.sess.renewed(&l)
			if p.sess.isGood(p.svc.Clock) {
				return true
			}
		}
		if !p.nap() {
			return false
		}
	}
	return true
}

// nap ends early when something changed.
func (p *pump) nap() bool {
	t := p.svc.Clock.NewTimer(leaseLookEvery)
	defer t.Stop()
	select {
	case <-t.C():
	case <-p.group.changed:
	case <-p.ctx.Done():
		return false
	}
	p.sess.mu.Lock()
	defer p.sess.mu.Unlock()
	return !p.draining && !p.closed
}

// receive waits for messages for the free slots. It returns early, with nothing, when the queues to poll
// have changed.
func (p *pump) receive() ([]queue.Message, error) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	limit, takes := p.listen(cancel)
	defer p.setInterrupt(nil)
	if limit <= 0 {
		return nil, nil
	}
	switch {
	case !takes.anything:
		p.svc.awaitOpen(ctx, p.sess)
		return nil, nil
	case len(p.names) == 0: // until a lambda is created again
		<-ctx.Done()
		return nil, nil
	}
	p.group.waits.Store(int64(cmp.Or(clock.Mono(p.svc.Clock), 1)))
	messages, err := p.svc.receiveFor(ctx, p.names, limit, takes.rests)
	p.group.waits.Store(0)
	return messages, err
}

// listen chooses the queues; every change of what the choice rests on calls interrupt from before it is made.
func (p *pump) listen(interrupt context.CancelFunc) (limit int, takes taking) {
	p.setInterrupt(interrupt)
	p.turn++
	p.lambdas = p.svc.entries(p.lambdas, p.group.lambdas)
	p.sess.mu.Lock()
	defer p.sess.mu.Unlock()
	if p.draining || p.closed {
		return 0, takes
	}
	takes = p.sess.takesLocked(clock.Steady(p.svc.Clock))
	p.names = queueNames(p.names, p.lambdas, p.turn, takes)
	return p.group.room(), takes
}

func (p *pump) setInterrupt(interrupt context.CancelFunc) {
	p.sess.mu.Lock()
	defer p.sess.mu.Unlock()
	p.group.interrupt = interrupt
}

// claim turns messages into tasks on their way to the worker.
func (p *pump) claim(messages []queue.Message) {
	if p.ctx.Err() != nil || !p.sess.isGood(p.svc.Clock) {
		p.svc.putBack(p.ctx, messages, 0)
		return
	}
	messages, alone := p.svc.apart(p.ctx, p.sess, messages, false)
	n := p.sess.take(p.group, len(messages), alone)
	p.svc.putBack(p.ctx, messages[n:], 0)
	if alone && !p.quarantine(messages[0].Task.ID, n) {
		p.svc.putBack(p.ctx, messages[:n], putBackDelay)
		p.sess.giveSlots(p.group, n)
		return
	}
	if err := p.claimer.run(p.ctx, messages[:n]); err != nil {
		p.svc.lose(p.sess.worker)
	}
	won := p.claimer.won(p.ctx)
	p.sess.giveSlots(p.group, n-len(won))
	p.deliver(p.group, won)
}

// quarantine waits until a blamed task, for which n slots are taken, may begin; false when it is not to begin
// here.
func (p *pump) quarantine(id task.ID, n int) bool {
	if n == 1 && p.svc.awaitClear(p.ctx, p.sess, n) {
		return true
	}
	p.svc.suspectDone(p.sess, id)
	return false
}
