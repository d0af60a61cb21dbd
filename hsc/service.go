package hsc

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// begin admits a call; the caller must call end when it is over.
func (s *Service) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lifetime.Err() != nil {
		return errStopping
	}
	s.calls.Add(1)
	return nil
}

func (s *Service) end() { s.calls.Done() }

// inBackground runs act in a goroutine that Run waits for, or at once when the service is stopping.
func (s *Service) inBackground(act func()) {
	if s.begin() != nil {
		act()
		return
	}
	go func() {
		defer s.end()
		act()
	}()
}

// taskRows reads task rows. One that is damaged or of a newer version has an ID and no state, so that its
// attempt is refused and those of the others go on. Store.Tasks alone would fail when it is asked for such a
// row only.
func (s *Service) taskRows(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	rows, err := s.Store.Tasks(ctx, ids)
	if len(ids) == 1 && store.IsUnreadable(err) {
		s.Hooks.Failed("read a task row", err)
		return []task.Task{{ID: ids[0]}}, nil
	}
	return rows, err
}

// policy returns the policy and the lambda of a task; a task whose lambda is gone gets the default policy.
func (s *Service) policy(t *task.Task) (task.Policy, *catalog.Entry) {
	if entry := s.Catalog.ByRef(t.Partition.Lambda); entry != nil {
		return entry.PolicyFor(t), entry
	}
	defaults := task.Lambda{}.WithDefaults()
	return defaults.PolicyFor(t), nil
}

// isConflict reports whether a write was refused because the row had changed, and returns the row if the
// error carries it.
func isConflict(err error) (*task.Task, bool) {
	if seen, ok := errors.AsType[*store.ConflictError](err); ok {
		return seen.Task, true
	}
	return nil, errors.Is(err, store.ErrConflict)
}

// storeRetry are the pauses between the repetitions of a call to the store or the queue.
var storeRetry = backoff.Policy{Min: 10 * time.Millisecond, Max: 2 * time.Second}

// wake leaves a value in a channel of capacity one, for a loop that waits on it.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
