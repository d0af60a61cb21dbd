package task_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// TestShardsFor checks by which count a task has its shard.
func TestShardsFor(t *testing.T) {
	const first, second = task.Instant(1_700_000_000_000_000), task.Instant(1_800_000_000_000_000)
	l := valid()
	l.Shards = 2
	for _, step := range []struct {
		count uint16
		from  task.Instant
	}{{4, first}, {16, second}} {
		if err := l.Grow(step.count, step.from); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
	at := func(i task.Instant) task.ID { return task.NewID(i, 5, 7) }
	never := valid()
	never.Shards = 9
	for _, c := range []struct {
		what string
		l    *task.Lambda
		id   task.ID
		want uint16
	}{
		{"before", &l, at(first - 1000), 2},
		{"from its first millisecond on", &l, at(first), 4},
		{"until the next", &l, at(second - 1000), 4},
		{"the newest", &l, at(second), 16},
		{"far ahead", &l, at(second.Add(time.Hour)), 16},
		{"an id of content", &l, task.IDOf([]byte("key")), 2},
		{"one that never grew", &never, at(second), 9},
		{"an id of content, and one that never grew", &never, task.IDOf([]byte("key")), 9},
	} {
		if got := c.l.ShardsFor(c.id); got != c.want {
			t.Errorf("%s: %d shards, want %d", c.what, got, c.want)
		}
	}
	if l.ShardsFrom() != second || never.ShardsFrom() != 0 {
		t.Errorf("in force from %d and %d", l.ShardsFrom(), never.ShardsFrom())
	}
	for count, want := range map[uint16]bool{2: true, 4: true, 16: true, 1: false, 8: false} {
		if l.HadShards(count) != want {
			t.Errorf("had %d: %t", count, !want)
		}
	}
}

func TestGrow(t *testing.T) {
	l := valid()
	l.Shards = 4
	shared := l
	if err := l.Grow(4, 1); err != nil || len(l.ShardHistory) > 0 {
		t.Errorf("the same count: %v, %v", l.ShardHistory, err)
	}
	if err := l.Grow(3, 1); !errors.Is(err, task.ErrShrink) || l.Shards != 4 {
		t.Errorf("fewer: %v", err)
	}
	if err := l.Grow(8, 1000); err != nil || len(shared.ShardHistory) > 0 {
		t.Fatal(err)
	}
	other := l
	if err := errors.Join(l.Grow(9, 900), other.Grow(10, 2000)); err != nil { // a clock that was set back
		t.Fatal(err)
	}
	if l.ShardHistory[2] != (task.ShardCount{Count: 9, From: 1001}) || other.ShardHistory[2].Count != 10 {
		t.Errorf("%v and %v", l.ShardHistory, other.ShardHistory)
	}
	for range task.ShardGrowthsMax - 2 {
		if err := l.Grow(l.Shards+1, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
	if err := l.Grow(l.Shards+1, 1); !errors.Is(err, task.ErrGrownOften) {
		t.Errorf("once more than it may: %v", err)
	}
}

func TestAHistoryOfShardsThatCannotBe(t *testing.T) {
	for _, history := range [][]task.ShardCount{
		{{Count: 2}},                         // the lambda has another count
		{{Count: 2, From: 5}, {Count: 4}},    // no first one
		{{Count: 2}, {Count: 4}},             // not later
		{{Count: 4}, {Count: 4, From: 5}},    // not more
		{{Count: 0}, {Count: 4, From: 5}},    // none
		{{Count: 2}, {Count: 1024, From: 5}}, // another end
		{{Count: 2}, {Count: 4, From: -1}},   // before all
		{{Count: 2, From: -1}, {Count: 4}},   // before all
	} {
		l := valid()
		l.Shards, l.ShardHistory = 4, history
		wantError(t, l.Validate(), "history of shards")
	}
}

// TestPartitionsKeepTheirPlaces: who goes over the list page by page goes on where he was when shards grew in
// between.
func TestPartitionsKeepTheirPlaces(t *testing.T) {
	l := valid()
	l.Shards = 2
	before := l.Partitions()
	if err := l.Grow(5, 1000); err != nil {
		t.Fatal(err)
	}
	after := l.Partitions()
	if len(after) != 5*len(l.Priorities) {
		t.Fatalf("%d partitions", len(after))
	}
	seen := map[task.Partition]bool{}
	for i, p := range after {
		if i < len(before) && p != before[i] || seen[p] {
			t.Errorf("place %d is %v", i, p)
		}
		seen[p] = true
	}
}

func TestWhenAnIDWasMade(t *testing.T) {
	const now = task.Instant(1_700_000_000_123_000)
	if at, ok := task.NewID(now, ^uint64(0), ^uint64(0)).Made(); !ok || at != now {
		t.Errorf("%d, %t", at, ok)
	}
	if at, ok := task.IDOf([]byte("key")).Made(); ok || at != 0 {
		t.Errorf("%d, %t of an id without a time", at, ok)
	}
}
