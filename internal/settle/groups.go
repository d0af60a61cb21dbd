package settle

import (
	"encoding/json"

	"github.com/kinesin-io/kinesin/internal/feature/group"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// groupRows has the groups that have not ended, so that time stands still while the server ends one.
type groupRows map[task.ID]*groupRow

type groupRow struct {
	group group.Group
	ended map[uint32]bool // members; also before the group's row is seen
}

func (g groupRows) of(id task.ID) *groupRow {
	if g[id] == nil {
		g[id] = &groupRow{ended: map[uint32]bool{}}
	}
	return g[id]
}

// note updates the groups with a write that was applied.
func (g groupRows) note(op *store.Op) {
	switch op.Kind { //nolint:exhaustive // the others are not of groups
	case store.PutControl, store.DeleteControl:
		id, err := task.ParseID(op.Control.Name)
		if op.Control.Kind != group.KindOpen || err != nil {
			return
		}
		if op.Kind == store.DeleteControl {
			delete(g, id)
			return
		}
		r := g.of(id)
		_ = json.Unmarshal(op.Control.Value, &r.group) // the server wrote it
	case store.PutTask, store.ReplaceTask:
		m := op.Task.Member
		if m == nil || !op.Task.State.IsEnd() && g[m.Group] == nil {
			return
		}
		if op.Task.State.IsEnd() {
			g.of(m.Group).ended[m.Index] = true
		} else {
			delete(g[m.Group].ended, m.Index)
		}
	}
}

// isEnding reports whether the server is about to end a group.
func (g groupRows) isEnding(now task.Instant) bool {
	for _, r := range g {
		if !r.group.Sealed.IsZero() && len(r.ended) >= int(r.group.Members) || r.group.ID != "" && now >= r.lastLook() {
			return true
		}
	}
	return false
}

// lastLook is when the server has seen that the group expired.
func (r *groupRow) lastLook() task.Instant { return r.group.Expires.Add(group.ScanEvery) }
