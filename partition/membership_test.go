package partition_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/partitiontest"
	"github.com/kinesin-io/kinesin/task"
)

func TestStaticConforms(t *testing.T) {
	partitiontest.Run(t, func(*testing.T) partitiontest.Harness {
		return partitiontest.Harness{Membership: partition.Static("b", "c", "a", "b", "c")}
	})
}

// told is a membership that is told its members; it shows that the suite can be met.
type told struct {
	mu      sync.Mutex
	members []string
	changed chan struct{}
}

func (m *told) Self() string { return "b" }

func (m *told) Members() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.members)
}

func (m *told) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *told) tell(members ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	members = slices.Compact(slices.Sorted(slices.Values(members)))
	if len(members) == 0 || slices.Equal(members, m.members) {
		return
	}
	m.members = members
	close(m.changed)
	m.changed = make(chan struct{})
}

func newTold() *told { return &told{members: []string{"a", "b", "c"}, changed: make(chan struct{})} }

func TestAMembershipThatChangesConforms(t *testing.T) {
	partitiontest.Run(t, func(*testing.T) partitiontest.Harness {
		m := newTold()
		return partitiontest.Harness{Membership: m, Change: m.tell}
	})
}

func partitions(n int) []task.Partition {
	all := make([]task.Partition, n)
	for i := range all {
		all[i] = task.Partition{Lambda: uint32(i / 6), Priority: uint8(i % 3), Shard: uint16(i / 3 % 2)}
	}
	return all
}

func TestOwnersShareAllPartitions(t *testing.T) {
	all := partitions(60)
	count := map[task.Partition]int{}
	for _, self := range []string{"a", "b", "c"} {
		owned := partition.NewOwner(partition.Static(self, "a", "b", "c")).Owned(all)
		if len(owned) == 0 || !slices.IsSortedFunc(owned, func(a, b task.Partition) int { return slices.Index(all, a) - slices.Index(all, b) }) {
			t.Errorf("%s owns %v: want some, in the order given", self, owned)
		}
		for _, p := range owned {
			count[p]++
		}
	}
	for _, p := range all {
		if count[p] != 1 {
			t.Errorf("%v has %d owners", p, count[p])
		}
	}
	if one := partition.NewOwner(partition.Static("a")).Owned(all); !slices.Equal(one, all) {
		t.Errorf("the only member owns %d of %d", len(one), len(all))
	}
}

func TestOwnerFollowsTheMembership(t *testing.T) {
	m := newTold()
	o := partition.NewOwner(m)
	all := partitions(60)
	before := o.Owned(all)
	if len(o.Owned(nil)) != 0 {
		t.Error("owns some of nothing")
	}
	changed := o.Changed()
	m.tell("a", "c")
	select {
	case <-changed:
	default:
		t.Error("not told")
	}
	if owned := o.Owned(all); len(owned) != 0 {
		t.Errorf("owns %v though it is no member", owned)
	}
	m.tell("a", "b", "c")
	if !slices.Equal(o.Owned(all), before) {
		t.Error("back as a member, it owns others than before")
	}
}

// emptied is a membership that lost its source and does not keep the last view.
type emptied struct{ *told }

func (m emptied) empty() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = nil
}

func TestOwnerDoesNotBelieveAnEmptyList(t *testing.T) {
	m := emptied{newTold()}
	o := partition.NewOwner(m)
	all := partitions(60)
	before := o.Owned(all)
	m.empty()
	if !slices.Equal(o.Owned(all), before) {
		t.Error("an empty list changed what is owned")
	}
	if owned := partition.NewOwner(m).Owned(all); len(owned) != 0 {
		t.Errorf("owns %d though no member was ever known", len(owned))
	}
}

func TestPresence(t *testing.T) {
	m := newTold()
	o := partition.NewOwner(m)
	expect := func(process string, here, gone bool) {
		t.Helper()
		if isHere, isGone := o.Presence(process); isHere != here || isGone != gone {
			t.Errorf("%s: here %v, gone %v; want %v, %v", process, isHere, isGone, here, gone)
		}
	}
	expect("a", true, false)
	expect("b", true, false) // this very process
	expect("x", false, false)
	m.tell("b", "d")
	expect("a", false, true)
	expect("d", true, false)
	o = partition.NewOwner(partition.Static("b"))
	expect("b", true, false)
	expect("x", false, true) // where members never change there are no others
}
