package queuetest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Manners are the faults of a Nasty queue, as shares of messages from 0 to 1.
type Manners struct {
	Twice    float64 // delivered twice
	Lost     float64 // received by nobody: hidden until the visibility timeout
	Undead   float64 // visible again after its delete, at the visibility timeout
	Deadline time.Duration
	Seed     uint64
}

// deadlineDefault is the visibility timeout.
const deadlineDefault = 30 * time.Second

// Nasty is an unreliable durable queue, like that of a service, over a driver in memory: delivery at least
// once, in hardly any order, with a visibility timeout. It cannot tell when it has room, and its depths are
// up to a second old.
type Nasty struct {
	queue.Driver

	clock   clock.Clock
	manners Manners

	mu       sync.Mutex
	random   *rand.Rand
	inFlight map[string]flight // by receipt
	seen     map[delivered]bool
	depths   map[queue.Name]staleDepth
	stats    NastyStats

	stop chan struct{}
	done chan struct{}
}

// NastyStats counts the faults of a Nasty queue.
type NastyStats struct{ Twice, Lost, Undead, TimedOut int }

type flight struct {
	message queue.Message
	back    task.Instant // when it is visible again
}

type delivered struct {
	id  task.ID
	seq uint64
}

type staleDepth struct {
	queue.Depth

	at task.Instant
}

// NewNasty wraps a driver. Close stops the goroutine that ends visibility timeouts.
func NewNasty(d queue.Driver, c clock.Clock, m Manners) *Nasty {
	m.Deadline = cmp.Or(m.Deadline, deadlineDefault)
	n := &Nasty{
		Driver: d, clock: c, manners: m, random: rand.New(rand.NewPCG(m.Seed, 7)), //nolint:gosec // repeatable on purpose
		inFlight: map[string]flight{}, seen: map[delivered]bool{}, depths: map[queue.Name]staleDepth{},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go n.keepTime()
	return n
}

// Stats returns the counts so far.
func (n *Nasty) Stats() NastyStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

func (n *Nasty) keepTime() {
	defer close(n.done)
	timer := n.clock.NewTimer(time.Second)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
			n.timeOut()
			timer.Reset(time.Second)
		case <-n.stop:
			return
		}
	}
}

// timeOut releases the messages whose visibility timeout has passed.
func (n *Nasty) timeOut() {
	n.mu.Lock()
	var back []queue.Message
	for receipt, f := range n.inFlight {
		if f.back <= n.clock.Now() {
			back = append(back, f.message)
			delete(n.inFlight, receipt)
		}
	}
	n.stats.TimedOut += len(back)
	n.mu.Unlock()
	if len(back) > 0 {
		_ = n.Driver.Release(context.Background(), back, 0)
	}
}

// Send implements queue.Driver.
func (n *Nasty) Send(ctx context.Context, messages []queue.Message) []error {
	results := n.Driver.Send(ctx, messages)
	var twice []queue.Message
	n.mu.Lock()
	for i := range messages {
		if results[i] == nil && n.random.Float64() < n.manners.Twice {
			twice = append(twice, messages[i])
		}
	}
	n.stats.Twice += len(twice)
	n.mu.Unlock()
	if len(twice) > 0 {
		n.Driver.Send(ctx, twice)
	}
	return results
}

// Receive implements queue.Driver.
func (n *Nasty) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	for {
		messages, err := n.Driver.Receive(ctx, names, limit, ahead)
		if len(messages) == 0 {
			return nil, err
		}
		if kept := n.handOut(messages); len(kept) > 0 {
			return kept, err
		}
	}
}

// handOut marks messages as in flight, and returns those that are not lost.
func (n *Nasty) handOut(messages []queue.Message) []queue.Message {
	n.mu.Lock()
	defer n.mu.Unlock()
	kept := messages[:0]
	for _, m := range messages {
		n.inFlight[m.Receipt] = flight{m, n.clock.Now().Add(n.manners.Deadline)}
		if n.random.Float64() < n.manners.Lost {
			n.stats.Lost++
			continue
		}
		d := delivered{m.Task.ID, m.Task.Seq}
		m.Again = n.seen[d]
		n.seen[d] = true
		kept = append(kept, m)
	}
	n.random.Shuffle(len(kept), func(i, j int) { kept[i], kept[j] = kept[j], kept[i] })
	return kept
}

// Delete implements queue.Driver. Some messages come again.
func (n *Nasty) Delete(ctx context.Context, messages []queue.Message) error {
	n.mu.Lock()
	gone := make([]queue.Message, 0, len(messages))
	for _, m := range messages {
		if n.random.Float64() < n.manners.Undead {
			n.stats.Undead++
			continue // it comes again at the timeout
		}
		delete(n.inFlight, m.Receipt)
		gone = append(gone, m)
	}
	n.mu.Unlock()
	return n.Driver.Delete(ctx, gone)
}

// Release implements queue.Driver.
func (n *Nasty) Release(ctx context.Context, messages []queue.Message, delay time.Duration) error {
	n.mu.Lock()
	for _, m := range messages {
		delete(n.inFlight, m.Receipt)
	}
	n.mu.Unlock()
	return n.Driver.Release(ctx, messages, delay)
}

// Depth implements queue.Driver. It is up to a second old.
func (n *Nasty) Depth(ctx context.Context, name queue.Name) (queue.Depth, error) {
	n.mu.Lock()
	last, known := n.depths[name]
	n.mu.Unlock()
	if known && n.clock.Now().Sub(last.at) < time.Second {
		return last.Depth, nil
	}
	depth, err := n.Driver.Depth(ctx, name)
	if err == nil {
		n.mu.Lock()
		n.depths[name] = staleDepth{depth, n.clock.Now()}
		n.mu.Unlock()
	}
	return depth, err
}

// Room implements queue.Driver. It cannot tell.
func (n *Nasty) Room(queue.Name) <-chan struct{} { return nil }

// Durable implements queue.Driver.
func (n *Nasty) Durable() bool { return true }

// Close implements queue.Driver.
func (n *Nasty) Close() error {
	close(n.stop)
	<-n.done
	return n.Driver.Close()
}
