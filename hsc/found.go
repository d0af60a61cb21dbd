package hsc

import (
	"context"
	"sync"

	"github.com/kinesin-io/kinesin/task"
)

// foundFor is how long after a start claims of an earlier process are kept for their workers to come back.
// Those of workers that do not are found by their wake-ups.
const foundFor = 2 * task.ClaimTimeout

// found are claims that an earlier process of this server wrote, and may not have pushed before it ended.
type found struct {
	since task.Instant  // the start of this process: what was claimed later is its own
	news  chan struct{} // holds one value when there may be some of a worker whose stream is open

	mu       sync.Mutex
	byWorker map[string][]task.Task
}

// Found tells of a claimed row that was in the store when its partition came to this process. If its worker
// has come back, or comes back, without it, it goes back to its queue at once instead of waiting to be
// missed. It does no I/O.
func (s *Service) Found(t *task.Task) {
	if t.State != task.Claimed || t.ClaimedAt >= s.found.since {
		return
	}
	s.found.mu.Lock()
	if rows := s.found.byWorker[t.Worker]; len(rows) < HeldMax {
		s.found.byWorker[t.Worker] = append(rows, *t)
	}
	s.found.mu.Unlock()
	poke(s.found.news)
}

// takeFound are the found claims of a worker whose stream is open that it does not hold.
func (s *Service) takeFound(sess *session) []task.Task {
	s.found.mu.Lock()
	rows := s.found.byWorker[sess.worker]
	delete(s.found.byWorker, sess.worker)
	if s.Clock.Now() > s.found.since.Add(foundFor) {
		clear(s.found.byWorker)
		rows = nil
	}
	s.found.mu.Unlock()
	sess.mu.Lock()
	defer sess.mu.Unlock()
	missing := rows[:0]
	for i := range rows {
		if h := sess.hands[rows[i].ID]; h == nil || h.row.Attempt != rows[i].Attempt {
			missing = append(missing, rows[i])
		}
	}
	return missing
}

// giveBackFound is for workers that came back before their claims were found.
func (s *Service) giveBackFound(ctx context.Context) {
	for _, sess := range s.all() {
		if sess.current() != nil {
			s.giveBack(ctx, sess, s.takeFound(sess))
		}
	}
}
