package inbound

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/room"
	"github.com/kinesin-io/kinesin/task"
)

// The bounds of all waits of a process together.
const (
	// waitCallsMax is how many calls wait at a time, waitIDsMax for how many tasks.
	waitCallsMax, waitIDsMax = 10_000, 100_000
	// waitReadsPerSecond is how many tasks all calls together read again in a second to find ends that nobody
	// told of.
	waitReadsPerSecond = 5000
	// waitAgainAfter is when a caller that found them all taken may try again.
	waitAgainAfter = time.Second
)

// waitLookMax is how long a Wait trusts that it was told of all tasks that have ended, since a task may end
// in another process.
const waitLookMax = time.Second

// Waits are the calls that wait for the ends of tasks. A call that enters first and then reads the store
// misses no end, because an end is stored before it is told. Telling is free while no call waits.
type Waits struct {
	ids           atomic.Int64 // that calls wait for
	room, idsRoom *room.Room   // calls, and what they wait for

	mu sync.Mutex            // guards what stands here, and the nodes of all calls
	of map[task.ID]*waitNode // the first of each list
}

// NewWaits returns Waits of no calls.
func NewWaits() *Waits {
	const keptPart = 10 // of each, for admins
	return &Waits{
		room: room.New("waits", waitCallsMax, waitCallsMax/keptPart), idsRoom: room.New("waited_tasks", waitIDsMax, waitIDsMax/keptPart),
		of: map[task.ID]*waitNode{},
	}
}

// waitCall is one call that waits. Told has an element when there may be something to take.
type waitCall struct {
	told  chan struct{}
	nodes []waitNode
	ended []*waitNode // since the last take; guarded by Waits.mu

	stay, idsStay *room.Stay
}

// waitNode is a task for which a call waits, in the list of all that wait for it.
type waitNode struct {
	next, prev *waitNode
	call       *waitCall
	id         task.ID
	at         int  // in the call's ids
	told       bool // it is in call.ended
}

func (c *waitCall) init(most int) {
	c.told, c.nodes = make(chan struct{}, 1), make([]waitNode, 0, most)
}

// add adds a task to wait for, before the call enters.
func (c *waitCall) add(id task.ID, at int) {
	c.nodes = append(c.nodes, waitNode{call: c, id: id, at: at})
}

// enter has a call told of the ends of its tasks, until it leaves.
func (w *Waits) enter(of access.Caller, c *waitCall) error {
	urgent := of.Grants.AllowAll(access.Admin)
	c.stay, c.idsStay = w.room.Enter(of.Name, urgent), w.idsRoom.Enter(of.Name, urgent)
	if !c.stay.Take(1) {
		return api.Errorf(kinesinv1.Reason_REASON_FULL,
			"%d calls may wait for tasks on this server, of one caller as many as are left for others, and no more may now; wait again later, or for more tasks in one call", waitCallsMax).After(waitAgainAfter)
	}
	if !c.idsStay.Take(int64(len(c.nodes))) {
		c.stay.Leave()
		return api.Errorf(kinesinv1.Reason_REASON_FULL,
			"calls on this server may wait for %d tasks, those of one caller for as many as are left for others, and with the %d of this one it would be more; wait again later, or for fewer tasks",
			waitIDsMax, len(c.nodes)).After(waitAgainAfter)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids.Add(int64(len(c.nodes)))
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.next = w.of[n.id]; n.next != nil {
			n.next.prev = n
		}
		w.of[n.id] = n
	}
	return nil
}

func (w *Waits) leave(c *waitCall) {
	c.stay.Leave()
	c.idsStay.Leave()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids.Add(-int64(len(c.nodes)))
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.next != nil {
			n.next.prev = n.prev
		}
		switch {
		case n.prev != nil:
			n.prev.next = n.next
		case n.next != nil:
			w.of[n.id] = n.next
		default:
			delete(w.of, n.id)
		}
	}
}

// Ended tells calls that wait for tasks that these have ended. It costs next to nothing when no call waits.
func (w *Waits) Ended(ids []task.ID) {
	if w.ids.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		for n := w.of[id]; n != nil; n = n.next {
			if n.told {
				continue
			}
			n.told = true
			n.call.ended = append(n.call.ended, n)
			select {
			case n.call.told <- struct{}{}:
			default:
			}
		}
	}
}

// take returns which of the call's ids it was told of since the last time.
func (w *Waits) take(c *waitCall) (ended []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended = make([]int, len(c.ended))
	for k, n := range c.ended {
		ended[k], n.told = n.at, false
	}
	c.ended = c.ended[:0]
	return ended
}

// pause returns after how long a call reads all its tasks again: the more tasks calls wait for, the later.
func (w *Waits) pause() time.Duration {
	return max(waitLookMax, time.Duration(w.ids.Load())*time.Second/waitReadsPerSecond)
}
