package dispatcher_test

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const together = 80 * time.Millisecond

// of changes a task to one of another shard and lambda.
func of(lambda uint32, shard uint16) func(*task.Task) {
	return func(t *task.Task) { t.Partition.Lambda, t.Partition.Shard = lambda, shard }
}

// deliverEach has one call for each shard carry out its orders while the clock moves by d.
func (p *post) deliverEach(d time.Duration, orders ...task.Order) (left []task.Undelivered) {
	p.t.Helper()
	shards := map[task.Partition][]task.Order{}
	for _, o := range orders {
		shards[o.Task.Partition] = append(shards[o.Task.Partition], o)
	}
	var mu sync.Mutex
	var calls sync.WaitGroup
	for _, orders := range shards {
		calls.Go(func() {
			some := p.Deliver(p.ctx, orders)
			mu.Lock()
			defer mu.Unlock()
			left = append(left, some...)
		})
	}
	synctest.Wait()
	p.time.Advance(d)
	calls.Wait()
	return left
}

// leaving is how long after the start, in milliseconds, each task was due and sent.
func (p *post) leaving() (all [][2]int64) {
	for _, d := range p.delivered() {
		all = append(all, [2]int64{d.Task.Due.Sub(start).Milliseconds(), d.At.Sub(start).Milliseconds()})
	}
	slices.SortFunc(all, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	return all
}

func (p *post) count(step string) (n int) {
	for _, s := range p.steps.done {
		if s == step {
			n++
		}
	}
	return n
}

// waits has tasks wait for each other.
func (p *post) waits() {
	c := p.DelivererConfig
	c.Together = together
	p.Deliverer = dispatcher.NewDeliverer(c)
}

func TestTasksOfAllPartitionsOfALambdaShareSends(t *testing.T) {
	inPost(t, func(p *post) {
		p.waits()
		var orders []task.Order
		for n := range uint16(200) { // 100 a second over four shards
			orders = append(orders, p.order(uint64(n)+1, time.Duration(n)*10*time.Millisecond, of(7, n%4)))
		}
		if left := p.deliverEach(3*time.Second, orders...); len(left) > 0 {
			t.Fatalf("left %+v", left)
		}
		for _, at := range p.leaving() {
			if late := at[1] - at[0]; late < 0 || late > together.Milliseconds() {
				t.Errorf("due after %d ms, sent after %d", at[0], at[1])
			}
		}
		if sends, removals := p.count("send"), p.count("remove"); len(p.delivered()) != 200 || sends > 23 || removals > 12 {
			t.Errorf("%d deliveries in %d sends, their rows removed in %d calls; want nine a send and 18 a call", len(p.delivered()), sends, removals)
		}
	})
}

func TestATaskWaitsOnlyForThoseDueSoonAfterIt(t *testing.T) {
	for name, c := range map[string]struct {
		due  []int // milliseconds
		want [][2]int64
	}{
		"alone":                 {[]int{5}, [][2]int64{{5, 5}}},
		"one is due too late":   {[]int{5, 86}, [][2]int64{{5, 5}, {86, 86}}},
		"one is due in time":    {[]int{5, 85}, [][2]int64{{5, 85}, {85, 85}}},
		"ten wait for no more":  {[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20}, [][2]int64{{0, 9}, {1, 9}, {2, 9}, {3, 9}, {4, 9}, {5, 9}, {6, 9}, {7, 9}, {8, 9}, {9, 9}, {20, 20}}},
		"what is overdue goes":  {[]int{-500, -300, 30}, [][2]int64{{-500, 0}, {-300, 0}, {30, 30}}},
		"first of what follows": {[]int{0, 70, 90}, [][2]int64{{0, 70}, {70, 70}, {90, 90}}},
	} {
		t.Run(name, func(t *testing.T) {
			inPost(t, func(p *post) {
				p.waits()
				var orders []task.Order
				for n, ms := range c.due {
					orders = append(orders, p.order(uint64(n)+1, time.Duration(ms)*time.Millisecond, nil))
				}
				if left := p.deliver(time.Second, orders...); len(left) > 0 {
					t.Fatalf("left %+v", left)
				}
				if got := p.leaving(); !slices.Equal(got, c.want) {
					t.Errorf("due and sent after, in ms: %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestATaskThatComesLaterIsSentAtItsMoment(t *testing.T) {
	inPost(t, func(p *post) {
		p.waits()
		later, sooner := p.order(1, 300*time.Millisecond, of(7, 1)), p.order(2, 100*time.Millisecond, of(7, 2))
		var calls sync.WaitGroup
		calls.Go(func() { p.Deliver(p.ctx, []task.Order{later}) })
		synctest.Wait()
		calls.Go(func() { p.Deliver(p.ctx, []task.Order{sooner}) })
		synctest.Wait()
		p.time.Advance(time.Second)
		calls.Wait()
		if got, want := p.leaving(), [][2]int64{{100, 100}, {300, 300}}; !slices.Equal(got, want) {
			t.Errorf("due and sent after, in ms: %v, want %v", got, want)
		}
	})
}

func TestLambdasDoNotWaitForEachOther(t *testing.T) {
	inPost(t, func(p *post) {
		p.waits()
		one, other := p.order(1, 10*time.Millisecond, of(7, 0)), p.order(2, 20*time.Millisecond, of(8, 0))
		if left := p.deliver(time.Second, one, other); len(left) > 0 {
			t.Fatalf("left %+v", left)
		}
		if got, want := p.leaving(), [][2]int64{{10, 10}, {20, 20}}; !slices.Equal(got, want) {
			t.Errorf("due and sent after, in ms: %v, want %v", got, want)
		}
	})
}

// hangingQueue takes nothing of a shard until it is let go of.
type hangingQueue struct {
	*queue.Queue

	shard uint16
	hang  chan struct{}
}

func (q hangingQueue) Deliver(ctx context.Context, deliveries []queue.Delivery) []error {
	if deliveries[0].Task.Partition.Shard == q.shard {
		<-q.hang
	}
	return q.Queue.Deliver(ctx, deliveries)
}

func TestACallThatGivesUpLeavesWhatIsUnderWayAndDisturbsNoOther(t *testing.T) {
	inPost(t, func(p *post) {
		q := hangingQueue{p.queue, 1, make(chan struct{})}
		p.Queue = q
		stuck, waiting := p.order(1, 0, of(7, 1)), p.order(2, 100*time.Millisecond, of(7, 1))
		other := p.order(3, 100*time.Millisecond, of(7, 2))
		ctx, giveUp := context.WithCancel(p.ctx)
		gaveUp := make(chan []task.Undelivered, 1)
		go func() { gaveUp <- p.Deliver(ctx, []task.Order{stuck, waiting}) }()
		done := make(chan []task.Undelivered, 1)
		go func() { done <- p.Deliver(p.ctx, []task.Order{other}) }()
		synctest.Wait()
		giveUp()
		left := <-gaveUp
		slices.SortFunc(left, func(a, b task.Undelivered) int { return int(a.Order.Task.ID[15]) - int(b.Order.Task.ID[15]) })
		if len(left) != 2 || !left[0].Acquired || left[0].Order.Sent || !left[1].Acquired || left[1].Order.Task.ID != waiting.Task.ID {
			t.Errorf("left %+v, want what was on its way and what waited", left)
		}
		p.time.Advance(time.Second)
		if left := <-done; len(left) > 0 {
			t.Errorf("of the other call left %+v", left)
		}
		close(q.hang)
		synctest.Wait()
		sent := map[uint64]int{}
		for _, d := range p.delivered() {
			sent[binary.BigEndian.Uint64(d.Task.ID[8:])]++
		}
		if sent[2] != 0 || sent[3] != 1 {
			t.Errorf("sent %v, want what the other call ordered, and nothing for which nobody waits", sent)
		}
	})
}
