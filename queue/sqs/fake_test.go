package sqs_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

// swarm has all faults. Each run has some of them, at some rate.
var swarm = awsfake.Swarm{
	{awsfake.Any, awsfake.Throttled, 0.2},
	{awsfake.Any, awsfake.Refused, 0.1},
	{awsfake.Any, awsfake.BrokenAfter, 0.1},
	{awsfake.Any, awsfake.LostRequest, 0.1},
	{awsfake.Any, awsfake.LostAnswer, 0.1},
	{awsfake.Any, awsfake.Stalled, 0.1},
	{"SendMessageBatch", awsfake.Partial, 0.2},
	{"SendMessageBatch", awsfake.PartialDone, 0.1},
	{"DeleteMessageBatch", awsfake.Partial, 0.2},
	{"DeleteMessageBatch", awsfake.PartialDone, 0.1},
	{"DeleteMessageBatch", fakesqs.Undead, 0.1},
	{"ChangeMessageVisibilityBatch", awsfake.Partial, 0.2},
	{"ReceiveMessage", fakesqs.Twice, 0.1},
	{"ReceiveMessage", fakesqs.Reordered, 0.5},
	{"ReceiveMessage", fakesqs.Abandoned, 0.5},
}

// TestSwarm sends tasks through a faulty service to two processes that take, release and forget tasks and
// restart. Each sent task comes at least once and never early, and in the end no message is left.
func TestSwarm(t *testing.T) {
	t.Parallel()
	swarm.Run(t, 50, func(t *testing.T, seed uint64) *awsfake.Faults {
		t.Helper()
		s := newSwarm(t, seed)
		s.run()
		return s.service.Faults
	})
}

// swarmRun is one run.
type swarmRun struct {
	*bubble

	random *rand.Rand
	names  []queue.Name

	mu   sync.Mutex // guards all below
	due  map[int]task.Instant
	sent map[int]bool // for sure
	seen map[int]int
	calm bool // everything that is received is deleted
}

const (
	swarmTasks   = 300
	swarmTrouble = 2 * time.Minute
	swarmCalm    = 15 * time.Minute // longer than a driver keeps a task that was taken and forgotten
)

func newSwarm(t *testing.T, seed uint64) *swarmRun {
	t.Helper()
	s := &swarmRun{
		bubble: newBubble(t, nil), random: rand.New(rand.NewPCG(seed, 7)),
		names: []queue.Name{{Lambda: 7}, {Lambda: 7, Class: queue.Suspect}},
		due:   map[int]task.Instant{}, sent: map[int]bool{}, seen: map[int]int{},
	}
	s.service = fakesqs.New(fakesqs.Config{Clock: s.clock, Seed: seed, Attempts: int(1 + seed%3), CountLag: time.Second})
	s.bubble = s.open(t, nil)
	provision(t, s.driver, s.lambdas)
	return s
}

func (s *swarmRun) run() {
	s.Helper()
	swarm.Begin(s.service.Faults, s.random)
	other := s.open(s.T, nil)
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for _, d := range []*sqs.Driver{s.driver, s.driver, other.driver} {
		wg.Go(func() { s.work(ctx, d) })
	}
	for n := range swarmTasks {
		wg.Go(func() { s.schedule(n) })
	}
	s.advance(swarmTrouble / 2)
	wg.Go(func() { _ = other.driver.Close() }) // its tasks go back
	third := s.open(s.T, nil)
	wg.Go(func() { s.work(ctx, third.driver) })
	s.advance(swarmTrouble / 2)

	s.service.Faults.Off()
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	s.advance(swarmCalm)
	stop()
	s.advance(30 * time.Second)
	wg.Wait()
	s.judge()
}

// schedule sends a task when its time comes, and again until it is in the queue for sure.
func (s *swarmRun) schedule(n int) {
	s.mu.Lock()
	now := s.clock.Now()
	due := now.Add(time.Duration(s.random.Int64N(int64(swarmTrouble * 3 / 4))))
	s.due[n] = due
	early := time.Duration(s.random.Int64N(int64(time.Second)))
	isSuspect := s.random.IntN(10) == 0
	s.mu.Unlock()
	s.sleep(due.Add(-early).Sub(now))
	m := taskOf(7, n, due)
	m.Task.Suspect = isSuspect
	for try := range 100 {
		if s.driver.Send(context.Background(), []queue.Message{m})[0] == nil {
			s.mu.Lock()
			s.sent[n] = true
			s.mu.Unlock()
			return
		}
		s.sleep(time.Duration(try+1) * time.Second)
	}
	s.Errorf("task %d cannot be sent", n)
}

func (s *swarmRun) sleep(d time.Duration) { _ = clock.Sleep(context.Background(), s.clock, d) }

// work receives tasks, and deletes, releases or forgets them.
func (s *swarmRun) work(ctx context.Context, d *sqs.Driver) {
	for {
		got, err := d.Receive(ctx, s.names, 10, 20*time.Millisecond)
		if err != nil {
			if !errors.Is(err, queue.ErrClosed) && ctx.Err() == nil {
				s.Errorf("receive: %v", err)
			}
			return
		}
		var over, back []queue.Message
		s.mu.Lock()
		for i := range got {
			n := int(got[i].Task.Attempt)
			s.seen[n]++
			if early := s.due[n].Sub(s.clock.Now()); early > 20*time.Millisecond {
				s.Errorf("task %d came %v early", n, early)
			}
			switch roll := s.random.IntN(20); {
			case s.calm || roll < 15:
				over = append(over, got[i])
			case roll < 19:
				back = append(back, got[i])
			default: // forgotten, until the driver drops it
			}
		}
		delay := time.Duration(s.random.Int64N(int64(5 * time.Second)))
		s.mu.Unlock()
		if err := errors.Join(d.Delete(context.Background(), over), d.Release(context.Background(), back, delay)); err != nil {
			s.Errorf("delete or release: %v", err)
		}
	}
}

func (s *swarmRun) judge() {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range swarmTasks {
		if s.sent[n] && s.seen[n] == 0 {
			s.Errorf("task %d was sent and never came", n)
		}
	}
	out, err := s.service.GetQueueAttributes(context.Background(), &awssqs.GetQueueAttributesInput{
		QueueUrl: aws.String(mailURL), AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		s.Fatal(err)
	}
	for _, count := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"} {
		if out.Attributes[count] != "0" {
			s.Errorf("%s is %s in the end", count, out.Attributes[count])
		}
	}
	if calls := s.service.Calls(awsfake.Any); calls > 20*swarmTasks {
		s.Errorf("%d requests for %d tasks", calls, swarmTasks)
	}
}
