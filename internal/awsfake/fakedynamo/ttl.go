package fakedynamo

import (
	"container/heap"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/task"
)

// expiries are the rows that TTL will delete, soonest first.
type expiries []expiring

type expiring struct {
	at      task.Instant // when it is deleted
	seconds int64        // what its attribute said then
	key     item
}

// Len is part of heap.Interface, as are the other exported methods.
func (h expiries) Len() int           { return len(h) }
func (h expiries) Less(i, j int) bool { return h[i].at < h[j].at }
func (h expiries) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push appends.
func (h *expiries) Push(x any) { *h = append(*h, x.(expiring)) } //nolint:errcheck,forcetypeassert // only noteExpiry pushes

// Pop removes the last.
func (h *expiries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

// expirySeconds is when an item expires, in Unix seconds, if TTL is on and it does.
func (t *table) expirySeconds(m item) (int64, bool) {
	n, isNumber := m[t.ttl].(*types.AttributeValueMemberN)
	if t.ttl == "" || !isNumber {
		return 0, false
	}
	seconds, err := strconv.ParseInt(n.Value, 10, 64)
	return seconds, err == nil
}

func (t *table) noteExpiry(m item) {
	seconds, expires := t.expirySeconds(m)
	if !expires {
		return
	}
	at := task.FromMillis(seconds * 1000).Add(t.faults.Between(t.ttlLag))
	heap.Push(t.expiry, expiring{at, seconds, project(m, t.names())})
}

// expire deletes what TTL has come to by now. Rows that expired more than five years ago are never deleted.
func (t *table) expire(now task.Instant) {
	const fiveYears = 5 * 365 * 24 * 3600
	for t.expiry.Len() > 0 && (*t.expiry)[0].at <= now {
		e, _ := heap.Pop(t.expiry).(expiring)
		old := t.get(e.key)
		if seconds, expires := t.expirySeconds(old); expires && seconds == e.seconds && now.Sub(task.FromMillis(seconds*1000)).Seconds() < fiveYears {
			t.put(now, old, nil)
		}
	}
}
