package scheduler

import (
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// assignment is the working state of one Assignment. It belongs to Run.
type assignment struct {
	Assignment

	all         []task.Partition // whoever owns them; nil before the first assignment
	changed     bool             // partitions came or went since the first assignment
	changedAt   time.Duration    // when that last happened; without a change the time of the first assignment
	owned       []task.Partition
	owns        map[task.Partition]bool           // owned, as a set
	groups      map[task.Partition]task.Partition // the exclusive group of each partition with a concurrency quota
	handingOver map[task.Partition]handOver       // dispatched here, and owned by another process
	warm        int                               // so many of owned, from the first on, are warm
	announced   bool                              // Handover was told that all are warm
}

// handOver is a partition that another process is to take over.
type handOver struct {
	to    string
	since time.Duration
	// unannounced says that the row of the next owner does not tell when it has taken over: the view that it
	// shows is of the members alone, and it may show it without knowing the lambda whose coming or going
	// moved the partition.
	unannounced bool
}

// noteAll notes which partitions there are. The first assignment does not tell when they came: it may have
// been a moment ago.
func (a *assignment) noteAll(all []task.Partition, before *assignment) {
	a.all, a.changed, a.changedAt = all, before.changed, before.changedAt
	switch {
	case before.all == nil:
		a.changedAt = a.Since
	case !slices.Equal(all, before.all):
		a.changed, a.changedAt = true, a.Since
	}
}

// isNews reports whether other processes may not know yet which partitions there are, because partitions came or went while
// this process ran.
func (a *assignment) isNews(now time.Duration) bool {
	return a.changed && now-a.changedAt < lambdasKnown
}

// areAllKnown reports whether all members know for sure which partitions there are. Partitions may have come in the moment
// in which this process started, so it waits after its first assignment as well.
func (a *assignment) areAllKnown(now time.Duration) bool {
	return len(a.Members) <= 1 || now-a.changedAt >= lambdasKnown
}

// fired returns the partitions whose tasks are dispatched here: those that are owned and those that are being handed over.
func (a *assignment) fired() []task.Partition {
	fired := slices.Clone(a.owned)
	for p := range a.handingOver {
		fired = append(fired, p)
	}
	return fired
}
