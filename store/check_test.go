package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// endOf is the end of a task that something follows, the first rows of two follow-ups, the task row of the
// second as claimed, and the deletion of the wake-up row.
func endOf() []store.Op {
	ended := scheduled(1)
	ended.State, ended.Wake, ended.Seq, ended.Ended, ended.ExpireAt = task.Success, 0, 2, 2000, 9000
	ended.Chain = &task.Chain{Follow: []byte("f"), FollowBytes: 1, FollowCount: 2}
	ops := []store.Op{{Kind: store.PutTask, Task: ended}}
	for i := range uint32(2) {
		t := scheduled(byte(2 + i))
		t.Chain = &task.Chain{Root: task.LinkTo(&ended), Parent: task.LinkTo(&ended), Edge: task.Then, Index: i, Depth: 1}
		ops = append(ops, store.Op{Kind: store.PutWakeup, Task: t, Follows: true})
	}
	claimed := ops[2].Task
	claimed.State, claimed.Seq, claimed.Worker = task.Claimed, 2, "w"
	return append(ops, store.Op{Kind: store.PutTask, Task: claimed, Follows: true},
		store.Op{Kind: store.DeleteWakeup, Task: ended, Follows: true, Lazy: true})
}

// Between the end of a task and the deletion of its wake-up row there are rows of its follow-ups alone: first
// rows, and then task rows of those of them that are claimed.
func TestRowsBetweenAnEndAndADeletion(t *testing.T) {
	chain := func(op *store.Op, change func(c *task.Chain)) {
		c := *op.Task.Chain
		change(&c)
		op.Task.Chain = &c
	}
	for name, c := range map[string]struct {
		change  func(ops []store.Op) []store.Op
		refused int    // the first op that is
		text    string // of its refusal; empty: none is refused
	}{
		"as the keeper of chains puts them": {func(ops []store.Op) []store.Op { return ops }, -1, ""},
		"none claimed":                      {func(ops []store.Op) []store.Op { return slices.Delete(ops, 3, 4) }, -1, ""},
		"no row of a follow-up":             {func(ops []store.Op) []store.Op { return slices.Delete(ops, 1, 4) }, -1, ""},
		"the parent has not ended": {func(ops []store.Op) []store.Op {
			ops[0].Task.State, ops[0].Task.Wake, ops[0].Task.ExpireAt = task.Processing, 1000, 0
			return ops
		}, 1, "rows of one task"},
		"nothing follows the parent": {func(ops []store.Op) []store.Op {
			ops[0].Task.Chain = nil
			return ops
		}, 1, "rows of one task"},
		"of another parent": {func(ops []store.Op) []store.Op {
			chain(&ops[1], func(c *task.Chain) { c.Parent.ID[0]++ })
			return ops
		}, 1, "does not follow"},
		"of an earlier life of the parent": {func(ops []store.Op) []store.Op {
			chain(&ops[2], func(c *task.Chain) { c.Parent.Life++ })
			return ops
		}, 2, "does not follow"},
		"claimed without its first row": {func(ops []store.Op) []store.Op { return slices.Delete(ops, 2, 3) }, 2, "without its first row"},
		"claimed at another instant than its first row": {func(ops []store.Op) []store.Op {
			ops[3].Task.WakeRow.At++
			return ops
		}, 3, "without its first row"},
		"claimed twice":                       {func(ops []store.Op) []store.Op { return slices.Insert(ops, 4, ops[3]) }, 4, "twice"},
		"put twice":                           {func(ops []store.Op) []store.Op { return slices.Insert(ops, 2, ops[1]) }, 2, "twice"},
		"a first row after a claimed one":     {func(ops []store.Op) []store.Op { return slices.Insert(slices.Delete(ops, 1, 2), 3, ops[1]) }, 3, "claimed task"},
		"a follow-up that runs":               {func(ops []store.Op) []store.Op { ops[3].Task.State = task.Processing; return ops }, 3, "rows of one task"},
		"the deletion of another wake-up row": {func(ops []store.Op) []store.Op { ops[4].Task.ID = task.ID{9}; return ops }, 4, "rows of one task"},
		"another write of the parent": {func(ops []store.Op) []store.Op {
			ops[4] = store.Op{Kind: store.ReplaceTask, Task: ops[0].Task, Follows: true}
			ops[4].Task.Seq = 3
			return ops
		}, 4, "rows of one task"},
		"after the deletion": {func(ops []store.Op) []store.Op { return append(slices.Delete(ops, 1, 2), ops[1]) }, 4, "rows of one task"},
		"rows of a task alone, the second of which is claimed, with its own first row": {func(ops []store.Op) []store.Op {
			ops[2].Follows = false
			return ops[2:4]
		}, -1, ""},
		"of a task alone, with the first row of another": {func(ops []store.Op) []store.Op {
			ops[1].Follows = false
			return []store.Op{ops[1], ops[3]}
		}, 1, "rows of one task"},
	} {
		ops := c.change(slices.Clone(endOf()))
		results, err := store.New(mem.New(), store.Config{}).Apply(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		first := slices.IndexFunc(results, func(err error) bool { return errors.Is(err, store.ErrMalformed) })
		if first != c.refused || first >= 0 && !strings.Contains(results[first].Error(), c.text) {
			t.Errorf("%s: %v, want op %d refused with %q", name, results, c.refused, c.text)
		}
	}
}
