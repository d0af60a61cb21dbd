package kube_test

import (
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/kubelet"
)

// A gap is how much later than they would have been tasks are fired because their partitions changed hands.
// Other causes of lateness on this machine, such as processes that start beside them, make those late as well
// whose partitions stay where they are: what these are late by at that moment is no gap.

const (
	// moveMin is for how long around a change of the members, and what it is given, partitions may move: a
	// pod counts before it is seen to be ready, and those who leave are waited for.
	moveMin = 2 * time.Second
	// starvedMax is what a task may be late by because processes start on two cores, whose partition's new
	// owner does not: where all partitions move, none shows what that makes.
	starvedMax = 1500 * time.Millisecond
	// besides is how far apart two tasks may be due of which one shows how late the other would have been
	// anyway.
	besides = time.Second
)

// firing is a task that was fired.
type firing struct {
	partition task.Partition
	due       time.Time
	late      time.Duration
}

// firing reads the partition out of the public id, which begins with the task's id and due time.
func (r *rig) firing(t *sdk.TaskInfo) firing {
	r.T.Helper()
	const prefix, at, size = "k1", 16 + 6, 16 + 6 + 4 + 1 + 2
	raw, err := base64.RawURLEncoding.DecodeString(string(t.ID)[len(prefix):])
	if err != nil || len(raw) < size {
		r.T.Fatalf("task id %s: %v", t.ID, err)
	}
	return firing{
		partition: task.Partition{Lambda: binary.BigEndian.Uint32(raw[at:]), Priority: raw[at+4], Shard: binary.BigEndian.Uint16(raw[at+5:])},
		due:       t.Due, late: fired(t).Sub(t.Due),
	}
}

// move is a change of the members, and what it moved.
type move struct {
	at    time.Time
	moved map[task.Partition]bool
}

// moves are all, as the kubelet brought them about.
func (r *rig) moves(all []firing) (moves []move) {
	r.T.Helper()
	set := map[task.Partition]bool{}
	for _, f := range all {
		set[f.partition] = true
	}
	list := slices.Collect(maps.Keys(set))
	members := map[string]bool{}
	owners := partition.Assign(nil, list)
	for _, x := range r.kubelet.Records() {
		switch x.Did {
		case kubelet.Ready:
			members[x.Pod] = true
		case kubelet.Unready, kubelet.Deleted, kubelet.Killed, kubelet.Ended:
			if !members[x.Pod] {
				continue
			}
			delete(members, x.Pod)
		default:
			continue
		}
		next := partition.Assign(slices.Collect(maps.Keys(members)), list)
		m := move{at: x.At, moved: map[task.Partition]bool{}}
		for i, p := range list {
			if owners[i] != next[i] {
				m.moved[p] = true
			}
		}
		owners = next
		moves = append(moves, m)
	}
	return moves
}

// gaps are those of the partitions of some tasks, of changes that may make one of so long, the shortest
// first.
func (r *rig) gaps(some []firing, moves []move, bar time.Duration) []time.Duration {
	r.T.Helper()
	var moving, still []firing
	for _, f := range some {
		if slices.ContainsFunc(moves, func(m move) bool {
			return m.moved[f.partition] && f.due.After(m.at.Add(-moveMin)) && f.due.Before(m.at.Add(moveMin+bar))
		}) {
			moving = append(moving, f)
		} else {
			still = append(still, f)
		}
	}
	each := map[task.Partition]time.Duration{}
	for _, f := range moving {
		anyway := time.Duration(0)
		for _, g := range still {
			if g.due.Sub(f.due).Abs() <= besides {
				anyway = max(anyway, g.late)
			}
		}
		each[f.partition] = max(each[f.partition], f.late-anyway)
	}
	return slices.Sorted(maps.Values(each))
}

// missedAfter is how late a task is at least whose message got lost or could not be sent, with a process that
// was killed or on a busy machine: until its wake-up. This does not depend on who owns its partition.
const missedAfter = 14 * time.Second

// judgeGaps wants half of the partitions to have changed hands within the bound, and all of them within what
// the machine may add.
func (r *rig) judgeGaps(name string, gaps []time.Duration, bar time.Duration) {
	r.T.Helper()
	if len(gaps) == 0 {
		return
	}
	n, _ := slices.BinarySearch(gaps, missedAfter)
	const missedMax = 3
	if missed := len(gaps) - n; missed > 0 {
		harness.Figure(r.T, name+"_missed", missed)
		if len(gaps) == missed || missed > missedMax {
			r.T.Errorf("%s: tasks of %d partitions were fired %v late and more", name, missed, gaps[n])
		}
		gaps = gaps[:n]
	}
	harness.Figure(r.T, name+"_partitions", len(gaps))
	harness.Within(r.T, name+"_gap_p50", gaps[len(gaps)/2], bar)
	harness.Within(r.T, name+"_gap_max", gaps[len(gaps)-1], max(bar, starvedMax))
}
