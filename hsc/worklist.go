package hsc

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// workRetry are the pauses between the rounds of the work list while something fails.
var workRetry = backoff.Policy{Min: 50 * time.Millisecond, Max: 2 * time.Second}

const (
	// messagesMax bounds the messages that wait to be sent again; the wake-ups of their tasks send the
	// others.
	messagesMax = 4096
	// noticesMax bounds the workers that wait for a notice; the others read all rows every reviewEvery.
	noticesMax = 4096
	// noticeFailuresMax is how many notices may fail in one round, because the store may be away.
	noticeFailuresMax = 4
	// recoverFor is how long after a start the claims of an earlier process are kept for their workers to
	// come back. After that their wake-ups find them.
	recoverFor = 2 * task.ClaimTimeout
)

func newWorkList(c clock.Clock) workList {
	return workList{
		clock: c, started: clock.Read(c), added: make(chan struct{}, 1),
		notices: map[string]notice{}, claims: map[string][]task.Task{},
	}
}

// addNotice adds a worker that is to be notified. Call with mu held.
func (w *workList) addNotice(worker string, n notice) {
	if before, known := w.notices[worker]; known || len(w.notices) < noticesMax {
		w.notices[worker] = notice{max(before.until, n.until), max(before.failures, n.failures)}
	}
}

// begin has a round begin after the pause at the latest. Call with mu held.
func (w *workList) begin(pause time.Duration) {
	at := clock.Steady(w.clock).Add(pause)
	if w.pending {
		at = min(at, w.at)
	}
	w.pending, w.at = true, at
	wake(w.added)
}

// clockStepped reports whether the wall clock was set since the start. Then the time of a claim does not tell
// which process wrote it, and it may be on its way to its worker.
func (w *workList) clockStepped() bool {
	return clock.Read(w.clock).SteppedSince(w.started).Abs() > task.ClockBound
}

// wait returns how long it is until the next round; false when there is nothing to do.
func (w *workList) wait() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.at.Sub(clock.Steady(w.clock)), 0), w.pending
}

// addMessages keeps messages for the next round.
func (w *workList) addMessages(messages ...queue.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	room := max(messagesMax-len(w.messages), 0)
	w.messages = append(w.messages, messages[:min(room, len(messages))]...)
	w.begin(workRetry.Pause(w.clock, w.failures))
}

// send puts messages on their queues and returns those that are to be sent again.
func (s *Service) send(ctx context.Context, messages []queue.Message) (unsent []queue.Message) {
	if len(messages) == 0 {
		return nil
	}
	for i, err := range s.Queue.Send(ctx, messages) {
		if err == nil {
			continue
		}
		s.Hooks.Failed("send messages", err)
		if !errors.Is(err, queue.ErrClosed) {
			unsent = append(unsent, messages[i])
		}
	}
	return unsent
}

// sendMessages puts messages on their queues; the work list sends those that a queue does not take now. Left
// to the wake-ups of their tasks they could wait for as long as the queue is older than the enqueue timeout.
func (s *Service) sendMessages(ctx context.Context, messages []queue.Message) {
	if unsent := s.send(ctx, messages); len(unsent) > 0 {
		s.work.addMessages(unsent...)
	}
}

// notify marks the leases of workers, and returns the workers that are to be notified again. Those that
// failed most often come last, so that they hold up no other.
func (s *Service) notify(ctx context.Context, notices map[string]notice) map[string]notice {
	workers := slices.SortedFunc(maps.Keys(notices), func(a, b string) int {
		return cmp.Compare(notices[a].failures, notices[b].failures)
	})
	failures := 0
	for _, worker := range workers {
		err := s.Leases.Attend(ctx, worker)
		if err == nil || errors.Is(err, lease.ErrLost) {
			delete(notices, worker)
			continue
		}
		s.Hooks.Failed("notify a worker", err)
		n := notices[worker]
		if clock.Steady(s.Clock) >= n.until {
			delete(notices, worker)
		} else {
			notices[worker] = notice{n.until, n.failures + 1}
		}
		if failures++; failures == noticeFailuresMax {
			break
		}
	}
	return notices
}

// unheldClaims takes the claims of an earlier process out of the list that the worker of the session, which has said what
// it holds, does not hold. Those of lambdas for which it has claimed by calls, and not again, may be on their way to it.
func (s *Service) unheldClaims(sess *session) (unheld []task.Task) {
	s.work.mu.Lock()
	defer s.work.mu.Unlock()
	if s.Clock.Now() > s.work.started.Wall.Add(recoverFor) {
		clear(s.work.claims)
		return nil
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	byCalls := sess.stream == nil && !sess.lost
	s.work.claims[sess.worker] = slices.DeleteFunc(s.work.claims[sess.worker], func(row task.Task) bool {
		if sess.find(attemptOf(&row)) != nil || sess.named[attemptOf(&row)] {
			return true
		}
		if byCalls && !sess.namedOf[row.Partition.Lambda] {
			return false
		}
		unheld = append(unheld, row)
		return true
	})
	if len(s.work.claims[sess.worker]) == 0 {
		delete(s.work.claims, sess.worker)
	}
	return unheld
}
