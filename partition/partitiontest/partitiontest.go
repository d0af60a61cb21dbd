// Package partitiontest is the conformance suite of partition.Membership. An implementation's test calls Run.
package partitiontest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/task"
)

// Harness is an implementation under test.
type Harness struct {
	// Membership knows Self and at least one other member.
	Membership partition.Membership
	// Change makes the sources report exactly these members, and returns when the membership has had time to
	// learn of it. If there are several sources, only one reports an empty list. nil if the members never
	// change.
	Change func(members ...string)
	// Name returns the name of another member; nil: any name will do.
	Name func(i int) string
	// Leave makes this process leave. nil if processes do not declare that.
	Leave func()
	// Lose cuts the membership off from all its sources, and returns after much more time than they need to
	// give a member up. nil if there are no sources.
	Lose func()
}

// another returns the name of one more member.
func (h *Harness) another(i int) string {
	if h.Name != nil {
		return h.Name(i)
	}
	return fmt.Sprint("zz-another-", i)
}

// Run checks a membership. It calls open for each case, in its own bubble of testing/synctest.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range []struct {
		name    string
		changes bool // needs Harness.Change
		check   func(t *testing.T, h Harness)
	}{
		{"self", false, self},
		{"members are sorted and distinct", false, sorted},
		{"the slice belongs to the caller", false, ownSlice},
		{"a fixed membership", false, fixed},
		{"a member comes and goes", true, comesAndGoes},
		{"self goes", true, selfGoes},
		{"all who wait hear of a change", true, allHear},
		{"no change, no signal", true, sameAgain},
		{"an empty list is not believed", true, empty},
		{"names in any order and twice", true, disorder},
		{"many come and go at once", true, many},
		{"who leaves keeps its view", true, leaves},
		{"without its sources the last view stays", true, lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if h := open(t); h.Change != nil || !c.changes {
					c.check(t, h)
				}
			})
		})
	}
}

func self(t *testing.T, h Harness) {
	t.Helper()
	name := h.Membership.Self()
	if name == "" {
		t.Error("no name for itself")
	}
	if !slices.Contains(h.Membership.Members(), name) {
		t.Errorf("%q is not among the members %v", name, h.Membership.Members())
	}
}

func sorted(t *testing.T, h Harness) {
	t.Helper()
	members := h.Membership.Members()
	if len(members) < 2 || !isSet(members) {
		t.Errorf("members are %q: want two or more, sorted, each once", members)
	}
}

func isSet(names []string) bool {
	for i := range names[1:] {
		if names[i] >= names[i+1] {
			return false
		}
	}
	return true
}

func ownSlice(t *testing.T, h Harness) {
	t.Helper()
	before := h.Membership.Members()
	mine := h.Membership.Members()
	mine[0] = "changed by the caller"
	if !slices.Equal(h.Membership.Members(), before) {
		t.Error("a caller's change to the slice changed the members")
	}
}

func fixed(t *testing.T, h Harness) {
	t.Helper()
	if isClosed(h.Membership.Changed()) {
		t.Error("tells of a change that was not")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// change makes a change and checks that it is signalled and visible.
func change(t *testing.T, h Harness, members ...string) {
	t.Helper()
	told := h.Membership.Changed()
	h.Change(members...)
	if !isClosed(told) {
		t.Errorf("nobody was told of the change to %q", members)
	}
	want := slices.Sorted(slices.Values(members))
	if got := h.Membership.Members(); !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("members are %q, want %q", got, want)
	}
	if isClosed(h.Membership.Changed()) {
		t.Error("the channel for the next change is closed already")
	}
}

func comesAndGoes(t *testing.T, h Harness) {
	t.Helper()
	before := h.Membership.Members()
	change(t, h, append(before, h.another(0))...)
	change(t, h, before...)
}

func selfGoes(t *testing.T, h Harness) {
	t.Helper()
	before := h.Membership.Members()
	name := h.Membership.Self()
	others := slices.DeleteFunc(slices.Clone(before), func(m string) bool { return m == name })
	change(t, h, others...)
	if h.Membership.Self() != name {
		t.Error("its own name changed")
	}
	change(t, h, before...)
}

func allHear(t *testing.T, h Harness) {
	t.Helper()
	one, two := h.Membership.Changed(), h.Membership.Changed()
	h.Change(append(h.Membership.Members(), h.another(0))...)
	if !isClosed(one) || !isClosed(two) {
		t.Errorf("told: %v and %v, want both", isClosed(one), isClosed(two))
	}
}

func sameAgain(t *testing.T, h Harness) {
	t.Helper()
	told := h.Membership.Changed()
	h.Change(h.Membership.Members()...)
	if isClosed(told) {
		t.Error("told of the same members again")
	}
}

func empty(t *testing.T, h Harness) {
	t.Helper()
	before := h.Membership.Members()
	told := h.Membership.Changed()
	h.Change()
	if got := h.Membership.Members(); isClosed(told) || !slices.Equal(got, before) {
		t.Errorf("an empty list made the members %q", got)
	}
	change(t, h, append(before, h.another(0))...)
}

func disorder(t *testing.T, h Harness) {
	t.Helper()
	name := h.Membership.Self()
	change(t, h, h.another(9), name, h.another(0), name, h.another(9))
}

func many(t *testing.T, h Harness) {
	t.Helper()
	before := h.Membership.Members()
	all := slices.Clone(before)
	for i := range 20 {
		all = append(all, h.another(i))
	}
	change(t, h, all...)
	change(t, h, before...)
	change(t, h, h.Membership.Self()) // all the others at once, and this process knows that
}

func leaves(t *testing.T, h Harness) {
	t.Helper()
	if h.Leave == nil {
		return
	}
	before := h.Membership.Members()
	told := h.Membership.Changed()
	h.Leave()
	h.Change(h.Membership.Self(), h.another(0))
	if got := h.Membership.Members(); isClosed(told) || !slices.Equal(got, before) {
		t.Errorf("who leaves fires by %q, want %q as before", got, before)
	}
}

func lost(t *testing.T, h Harness) {
	t.Helper()
	if h.Lose == nil {
		return
	}
	before := h.Membership.Members()
	told := h.Membership.Changed()
	h.Lose()
	if got := h.Membership.Members(); isClosed(told) || !slices.Equal(got, before) {
		t.Errorf("without its sources it knows %q, want %q as before", got, before)
	}
}

// Owned returns the partitions that the process of a membership owns, in the order given.
func Owned(m partition.Membership, all []task.Partition) (owned []task.Partition) {
	for i, owner := range partition.Assign(m.Members(), all) {
		if owner == m.Self() {
			owned = append(owned, all[i])
		}
	}
	return owned
}
