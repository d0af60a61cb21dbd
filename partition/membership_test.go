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
		owned := partitiontest.Owned(partition.Static(self, "a", "b", "c"), all)
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
	if one := partitiontest.Owned(partition.Static("a"), all); !slices.Equal(one, all) {
		t.Errorf("the only member owns %d of %d", len(one), len(all))
	}
}

func TestOwnerFollowsTheMembership(t *testing.T) {
	m := newTold()
	all := partitions(60)
	before := partitiontest.Owned(m, all)
	if len(partitiontest.Owned(m, nil)) != 0 {
		t.Error("owns some of nothing")
	}
	changed := m.Changed()
	m.tell("a", "c")
	select {
	case <-changed:
	default:
		t.Error("not told")
	}
	if owned := partitiontest.Owned(m, all); len(owned) != 0 {
		t.Errorf("owns %v though it is no member", owned)
	}
	m.tell("a", "b", "c")
	if !slices.Equal(partitiontest.Owned(m, all), before) {
		t.Error("back as a member, it owns others than before")
	}
}
