package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

const (
	// hopelessEvery is how long a task rests that no queue will take; the lambda's queue, or what this process may send,
	// can be set up otherwise meanwhile.
	hopelessEvery = 10 * time.Minute
	// hopelessMax bounds those of one partition that are remembered; each beyond it is tried with every look.
	hopelessMax = 1 << 16
	// hopelessAtOnce is how many of one partition are tried again with one look, so that they never take the room of others.
	hopelessAtOnce = partitionRowsMin / 2
)

// hopeless are the tasks of one partition that are acquired and that no queue will take. They stay in hand, so that looks
// pass over them, and rest all equally long; then they leave it, and the next look finds them. What they carry is not kept.
type hopeless struct {
	resting []resting // in order of until
}

type resting struct {
	id    task.ID
	until task.Instant
}

// add notes a task, which is in hand; false when there are too many.
func (h *hopeless) add(id task.ID, now task.Instant) bool {
	if len(h.resting) >= hopelessMax {
		return false
	}
	h.resting = append(h.resting, resting{id, now.Add(hopelessEvery)})
	return true
}

// rested removes and returns some that have rested. A clock that was set back does not make it longer.
func (h *hopeless) rested(now task.Instant) (ids []task.ID) {
	for len(h.resting) > 0 && len(ids) < hopelessAtOnce {
		if until := h.resting[0].until; until > now && until <= now.Add(hopelessEvery) {
			break
		}
		ids = append(ids, h.resting[0].id)
		h.resting = h.resting[1:]
	}
	return ids
}

// all removes and returns all of them.
func (h *hopeless) all() (ids []task.ID) {
	for _, r := range h.resting {
		ids = append(ids, r.id)
	}
	h.resting = nil
	return ids
}
