package chain

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// node is a task of a chain that is there.
type node struct {
	row       task.Task // as its task row says or, if it has none, its wake-up row; its ID is zero if it is missing
	edge      task.Edge
	undoes    bool // it was reached by else or finally
	parent    *node
	end       *task.Task // the end that it follows: the row of parent, or an earlier one
	place     Place      // among the follow-ups of that
	held      task.Link  // the task that held its key; then it is missing
	followups []*node    // in the order in which they were named
	earlier   []*node    // of ends from which the task was redriven; those that are gone are missing
	isEarlier bool       // it is one of these, or comes after one
}

// walk reads a chain from its first task on, at most so many tasks. whole says that there are no more.
func (s *Service) walk(ctx context.Context, root task.Task, most int) (first *node, whole bool, err error) {
	first = &node{row: root}
	level := []*node{first}
	for n := 1; len(level) > 0; {
		var next []*node
		for _, parent := range level {
			all, err := s.followupsOf(ctx, parent)
			if err != nil {
				return nil, false, err
			}
			for _, one := range all {
				if n++; n > most {
					return first, false, nil
				}
				one.add()
				next = append(next, one)
			}
		}
		if err := s.read(ctx, next); err != nil {
			return nil, false, err
		}
		level = next
	}
	return first, true, nil
}

// followupsOf returns what follows a node, and what followed earlier ends of it, as that was put.
func (s *Service) followupsOf(ctx context.Context, parent *node) (all []*node, err error) {
	if parent.row.State.IsEnd() && parent.row.HasFollowups() {
		now, _, err := s.Keeper.Followups(ctx, &parent.row)
		if err != nil {
			return nil, err
		}
		for _, f := range now {
			all = append(all, nodeOf(f, parent, &parent.row))
		}
	}
	ends, err := s.Keeper.Earlier(ctx, &parent.row)
	if err != nil {
		return nil, err
	}
	for i := range ends {
		for _, f := range ends[i].Followups {
			all = append(all, nodeOf(f, parent, &ends[i].Ended))
		}
	}
	return all, nil
}

func nodeOf(f Followup, parent *node, end *task.Task) *node {
	n := &node{row: f.Task, edge: f.Edge, undoes: parent.undoes || f.Edge != task.Then, parent: parent, end: end, place: f.Place}
	n.isEarlier = parent.isEarlier || !n.isOfNewest()
	if n.held = end.Chain.HolderOf(f.Edge, f.Index); !n.held.ID.IsZero() {
		n.row = task.Task{}
	}
	return n
}

// isOfNewest reports whether a node follows the end of its parent, and no earlier one.
func (n *node) isOfNewest() bool { return n.end == &n.parent.row }

// add adds a node to its parent.
func (n *node) add() {
	if n.isOfNewest() {
		n.parent.followups = append(n.parent.followups, n)
	} else {
		n.parent.earlier = append(n.parent.earlier, n)
	}
}

// read reads the rows of nodes, whose row is what was put. A task that has no task row any more keeps its wake-up
// row until it has one again, so that is looked for between two looks for task rows.
//
// A follow-up that is not there may be one that its parent's end still has to create, as after a crash between
// the two writes. So ends are completed after the first look: else somebody would be told that the chain is
// over, or would change all of it but that task.
func (s *Service) read(ctx context.Context, nodes []*node) error {
	open := slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return n.row.ID.IsZero() })
	for _, look := range []func(context.Context, []*node) ([]task.Task, error){s.taskRows, s.wakeupsOfComplete, s.taskRows} {
		if len(open) == 0 {
			return nil
		}
		rows, err := look(ctx, open)
		if err != nil {
			return err
		}
		still := open[:0]
		for i, n := range open {
			if r := &rows[i]; !r.ID.IsZero() && !r.IsBare() && n.is(r) {
				n.row = *r
			} else {
				still = append(still, n)
			}
		}
		open = still
	}
	for _, n := range open {
		n.row = task.Task{}
	}
	return nil
}

// wakeupsOfComplete completes the ends that nodes follow, and then reads the wake-up rows of the nodes.
func (s *Service) wakeupsOfComplete(ctx context.Context, some []*node) ([]task.Task, error) {
	var ends []*task.Task
	var last *node
	for _, n := range some {
		if n.isOfNewest() && n.parent != last {
			last = n.parent
			ends = append(ends, n.end)
		}
	}
	if err := s.Keeper.completeAll(ctx, ends); err != nil {
		return nil, err
	}
	return s.wakeups(ctx, some)
}

// is reports whether a row with its id is that of the node: a key may have been another task's, such as that
// of the same follow-up of a later end.
func (n *node) is(row *task.Task) bool {
	switch {
	case row.Key == "":
		return true
	case n.isOfNewest():
		return row.IsFollowup(n.end, n.place.Edge, n.place.Index)
	}
	return row.Request == task.FollowupID(n.end, n.place.Edge, n.place.Index)
}

func (s *Service) taskRows(ctx context.Context, some []*node) ([]task.Task, error) {
	ids := make([]task.ID, len(some))
	for i, n := range some {
		ids[i] = n.row.ID
	}
	return s.Keeper.Tasks(ctx, ids)
}

// wakeups reads the wake-up rows of nodes. Nobody knows where that of a follow-up with a key is, which has a task
// row from the start.
func (s *Service) wakeups(ctx context.Context, some []*node) ([]task.Task, error) {
	rows := make([]task.Task, len(some))
	var keys []store.WakeKey
	var at []int
	for i, n := range some {
		if n.row.WakeRow.At > 0 {
			keys, at = append(keys, store.KeyOf(&n.row)), append(at, i)
		}
	}
	if len(keys) == 0 {
		return rows, nil
	}
	found, err := s.Keeper.Wakeups(ctx, keys)
	for i, row := range found {
		rows[at[i]] = row
	}
	return rows, err
}

// rootOf returns the first task of the chain of a task.
func (s *Service) rootOf(ctx context.Context, id string) (root task.Task, public string, err error) {
	rows, err := s.Tasks.RowsOf(ctx, []string{id})
	switch {
	case err != nil:
		return root, "", err
	case rows[0].ID.IsZero():
		return root, "", inbound.NoSuchTask()
	}
	link := rows[0].RootLink()
	if link.ID == rows[0].ID {
		return rows[0].Task, s.Sealer.SealTask(&rows[0].Task), nil
	}
	found, err := s.Keeper.Tasks(ctx, []task.ID{link.ID})
	switch {
	case err != nil:
		return root, "", err
	case found[0].ID.IsZero() || found[0].Life != link.Life:
		return root, "", errForgotten
	}
	return found[0], s.Sealer.SealTask(&found[0]), nil
}

// each calls do with each node that is there, parents first.
func (n *node) each(do func(n *node)) {
	if !n.row.ID.IsZero() {
		do(n)
	}
	for _, next := range slices.Concat(n.followups, n.earlier) {
		next.each(do)
	}
}
