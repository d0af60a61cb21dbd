package node

import (
	"slices"
	"sync"

	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// movesMax bounds the hand-overs that are remembered.
const movesMax = 20

// moves are the newest changes of which partitions this process owns, the newest last.
type moves struct {
	mu  sync.Mutex
	all []overview.Moved
}

func (m *moves) add(now task.Instant, s *scheduler.Assignment) {
	if s.Gained+s.Lost == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all[max(0, len(m.all)-movesMax+1):], overview.Moved{At: now.Time(), Gained: s.Gained, Lost: s.Lost})
}

// warm notes that all partitions have been read ahead since the newest change.
func (m *moves) warm(s *scheduler.Assignment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := len(m.all) - 1; last >= 0 && s.Gained > 0 {
		m.all[last].Warm = s.Warm
	}
}

// newestFirst returns them.
func (m *moves) newestFirst() []overview.Moved {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Clone(m.all)
	slices.Reverse(all)
	return all
}
