package queuetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/queue"
)

// crowd has many concurrent senders and receivers. Receivers are cancelled at random, also while they are
// woken, and release some messages.
type crowd struct {
	*suite
	names []queue.Name
	total int

	mu   sync.Mutex
	seen map[int]int // deletes of each message
	over chan struct{}
}

// noWakeUpLost checks that each message is deleted exactly once, and that no receiver sleeps while a
// message is due.
func noWakeUpLost(s *suite) {
	const senders, receivers = 4, 8
	each := 300
	if s.real {
		each = 40
	}
	m := &crowd{
		suite: s, total: senders * each, seen: map[int]int{}, over: make(chan struct{}),
		names: []queue.Name{high, low, {Lambda: 8}, {Lambda: 8, Class: queue.Suspect}},
	}
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() { m.sendAll(i*each, each) })
	}
	for i := range receivers {
		all.Go(func() { m.receiveSome(uint64(i)) })
	}
	m.drive()
	all.Wait()
	for n, times := range m.seen {
		if times != 1 && s.Exact {
			s.Errorf("message %d was deleted %d times", n, times)
		}
	}
	if len(m.seen) != m.total {
		s.Errorf("%d of %d messages were deleted", len(m.seen), m.total)
	}
}

// stepsMax bounds the whole run, in milliseconds of the driver's clock.
const stepsMax = 10 * 60 * 1000

// drive advances time until the run is over. It closes the driver when that takes too long.
func (m *crowd) drive() {
	if m.real {
		timer := time.NewTimer(3 * patience) //nolint:forbidigo // real time
		defer timer.Stop()
		select {
		case <-m.over:
		case <-timer.C:
			m.must(m.Driver.Close())
		}
		return
	}
	for range stepsMax {
		synctest.Wait() // all receivers wait, or the run is over
		if isOver(m.over) {
			return
		}
		if m.Exact && m.isStuck() {
			break
		}
		m.Advance(time.Millisecond)
	}
	m.must(m.Driver.Close()) // ends all receivers
}

// isStuck fails when a message is due while all receivers wait.
func (m *crowd) isStuck() bool {
	for _, name := range m.names {
		if d, err := m.Driver.Depth(m.Context(), name); err != nil || d.Oldest > 0 {
			m.Errorf("all receivers wait, but a message of %v has been due for %v (%v)", name, d.Oldest, err)
			return true
		}
	}
	return false
}

func (m *crowd) sendAll(from, count int) {
	random := rand.New(rand.NewPCG(uint64(from), 1)) //nolint:gosec // repeatable on purpose
	for n := from; n < from+count; {
		msg := message(m.names[random.IntN(len(m.names))], n, m.Now().Add(time.Duration(random.IntN(5))*time.Millisecond))
		switch err := m.Driver.Send(m.Context(), []queue.Message{msg})[0]; {
		case err == nil:
			n++
		case errors.Is(err, queue.ErrFull):
			<-m.Driver.Room(queue.NameFor(&msg.Task))
		default:
			m.Errorf("send: %v", err)
			return
		}
	}
}

func (m *crowd) receiveSome(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // repeatable on purpose
	for !isOver(m.over) {
		ctx, stop := m.unstable(random.IntN(4) == 0)
		names := m.names
		if seed > 0 { // one receiver always waits for all names
			names = append(slices.Clone(m.names[random.IntN(len(m.names)):]), m.names[0])
		}
		got, err := m.Driver.Receive(ctx, names, 1+random.IntN(5), time.Duration(random.IntN(3))*time.Millisecond)
		stop()
		if errors.Is(err, queue.ErrClosed) {
			return
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			m.Errorf("receive: %v", err)
		}
		m.settle(got, random)
	}
}

// unstable returns a context that ends soon, or when the run is over. stop waits for its end.
func (m *crowd) unstable(soon bool) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(m.Context())
	received := make(chan struct{})
	go func() {
		defer cancel()
		if soon {
			return
		}
		select {
		case <-received:
		case <-m.over:
		}
	}()
	return ctx, func() {
		close(received)
		<-ctx.Done()
	}
}

// settle deletes most messages and releases the others.
func (m *crowd) settle(got []queue.Message, random *rand.Rand) {
	for _, msg := range got {
		if random.IntN(8) == 0 {
			m.check(m.Driver.Release(m.Context(), []queue.Message{msg}, time.Duration(random.IntN(2))*time.Millisecond))
			continue
		}
		m.check(m.Driver.Delete(m.Context(), []queue.Message{msg}))
		m.mu.Lock()
		m.seen[number(msg)]++
		if len(m.seen) == m.total && !isOver(m.over) {
			close(m.over)
		}
		m.mu.Unlock()
	}
}

func (m *crowd) check(err error) {
	if err != nil {
		m.Error(err)
	}
}

func isOver(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
