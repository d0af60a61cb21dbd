package hsc

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/queue"
)

const (
	// unsentMax bounds the messages that wait to be sent again; those beyond it wait for their tasks'
	// wake-ups.
	unsentMax = 4096
	// How often sending is tried again.
	resendMin, resendMax = 50 * time.Millisecond, 2 * time.Second
)

// unsent are messages of tasks that are enqueued in the store and that a queue did not take: it was full, or
// away. Left to their wake-ups alone they could wait for as long as the queue is older than the enqueue
// timeout.
type unsent struct {
	news chan struct{} // holds one value when there are some

	mu       sync.Mutex
	messages []queue.Message
	tries    int // in a row that sent nothing
}

func (u *unsent) add(messages ...queue.Message) {
	u.mu.Lock()
	room := max(unsentMax-len(u.messages), 0)
	u.messages = append(u.messages, messages[:min(room, len(messages))]...)
	u.mu.Unlock()
	poke(u.news)
}

// wait is how long to wait before sending again; false when there is nothing to send.
func (u *unsent) wait() (time.Duration, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return min(resendMin<<min(u.tries, 10), resendMax), len(u.messages) > 0
}

// sendMessages puts messages on their queues; those that a queue does not take now follow later.
func (s *Service) sendMessages(ctx context.Context, messages []queue.Message) (sent int) {
	for i, err := range s.Queue.Send(ctx, messages) {
		if err == nil {
			sent++
			continue
		}
		s.Hooks.failed("send messages", err)
		if !errors.Is(err, queue.ErrClosed) {
			s.unsent.add(messages[i])
		}
	}
	return sent
}

// sendUnsent tries again what was not sent.
func (s *Service) sendUnsent(ctx context.Context) {
	s.unsent.mu.Lock()
	messages := s.unsent.messages
	s.unsent.messages = nil
	s.unsent.mu.Unlock()
	sent := s.sendMessages(ctx, messages)
	s.unsent.mu.Lock()
	defer s.unsent.mu.Unlock()
	if s.unsent.tries++; sent > 0 {
		s.unsent.tries = 0
	}
}
