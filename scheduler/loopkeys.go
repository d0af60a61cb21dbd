package scheduler

import "github.com/kinesin-io/kinesin/task"

// loopKeys is what a loop has of the limits by key of its lambda.
type loopKeys struct {
	slots   *keySlots
	waiter  *keyWaiter
	queue   *keyQueue
	limits  keyLimits
	taken   map[task.ID]*keyStart // slots that the round has taken
	told    []string              // keys of which this loop was told that a slot is free
	retry   tick                  // when rows are taken again after a read has failed
	blocked bool                  // the last round lacked room or a quota for keys that were ready
	page    tick                  // when the next page of a pass may be read
	again   tick                  // when a pass may look again for keys without a list
	counted tick                  // when stats.heldByKey is counted again

	dueReady int // rows whose keys were ready then, and that waited for something else
}

// keyStart is a slot that a round has taken for a task.
type keyStart struct {
	key   string
	mayGo bool // a gate that resumes at a pace has let the task go
	made  bool // the task was started: what is in flight counts it
}
