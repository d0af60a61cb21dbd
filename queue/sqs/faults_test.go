package sqs_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
)

// everyFault makes each fault happen with probability p.
func everyFault(s *fakesqs.SQS, p float64) {
	for _, fault := range []awsfake.Fault{
		awsfake.Stalled, awsfake.Throttled, awsfake.Refused, awsfake.BrokenAfter, awsfake.LostRequest, awsfake.LostAnswer, awsfake.Partial, awsfake.PartialDone,
	} {
		for _, call := range []string{"SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch", "GetQueueUrl"} {
			s.Faults.Odds(call, fault, p)
		}
	}
	for _, fault := range []awsfake.Fault{fakesqs.Twice, fakesqs.Reordered, fakesqs.Sampled, fakesqs.Abandoned} {
		s.Faults.Odds("ReceiveMessage", fault, p)
	}
	s.Faults.Odds("DeleteMessageBatch", fakesqs.Undead, p)
}

// crowd has several processes that send, receive and restart.
type crowd struct {
	*bubble

	mu   sync.Mutex
	seen map[int]int
	over chan struct{}
}

// TestNothingIsLostWhateverGoesWrong checks that every task whose send was acknowledged is handed out until
// it is deleted.
func TestNothingIsLostWhateverGoesWrong(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const tasks, processes = 400, 3
				c := &crowd{bubble: newBubble(t, nil), seen: map[int]int{}, over: make(chan struct{})}
				everyFault(c.service, 0.03)
				random := rand.New(rand.NewPCG(seed, 1))
				for n := 0; n < tasks; {
					size := min(1+random.IntN(30), tasks-n)
					go c.sendAll(n, size)
					n += size
				}
				for p := range processes {
					go c.process(seed*processes + uint64(p))
				}
				for range 3600 {
					synctest.Wait()
					if c.isOver() {
						break
					}
					c.time.Advance(time.Second)
				}
				if !c.isOver() {
					t.Errorf("%d of %d tasks came within an hour", len(c.seen), tasks)
					close(c.over)
				}
				c.service.Faults.Off()
				c.advance(10 * time.Minute)
			})
		})
	}
}

func (c *crowd) isOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// sendAll sends again what was not acknowledged, as the dispatcher does.
func (c *crowd) sendAll(from, n int) {
	left := batchOf(from, n, c.clock.Now())
	for len(left) > 0 {
		var again []queue.Message
		for i, err := range c.driver.Send(c.Context(), left) {
			if err != nil {
				again = append(again, left[i])
			}
		}
		left = again
	}
}

// process runs one process after the other, and closes each with tasks in hand.
func (c *crowd) process(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	for !c.isOver() {
		p := c.open(c.T, func(config *sqs.Config) { config.PackTasksMax = 1 + random.IntN(16) })
		for range 1 + random.IntN(20) {
			if c.isOver() || !c.serve(p, random) {
				break
			}
		}
		_ = p.driver.Close()
	}
}

// serve handles one Receive. It returns false after an idle minute.
func (c *crowd) serve(p *bubble, random *rand.Rand) bool {
	messages := make(chan []queue.Message, 1)
	go func() {
		got, _ := p.driver.Receive(c.Context(), []queue.Name{mail}, 1+random.IntN(12), 0)
		messages <- got
	}()
	timer := c.clock.NewTimer(time.Minute)
	defer timer.Stop()
	var got []queue.Message
	select {
	case got = <-messages:
	case <-c.over:
		return false
	case <-timer.C():
		return false
	}
	for i := range got {
		switch random.IntN(10) {
		case 0: // forgotten
		case 1:
			_ = p.driver.Release(c.Context(), got[i:i+1], time.Duration(random.IntN(3000))*time.Millisecond)
		default:
			c.note(int(got[i].Task.Attempt))
			_ = p.driver.Delete(c.Context(), got[i:i+1])
		}
	}
	return true
}

func (c *crowd) note(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[n]++; len(c.seen) == 400 && !c.isOver() {
		close(c.over)
	}
}
