package fakedynamo

import (
	"cmp"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/task"
)

// expiring is a row that TTL will delete.
type expiring struct {
	at      task.Instant // when it is deleted
	seconds int64        // the value of its TTL attribute when this was noted
	order   int          // of noting
	key     item
}

func newExpiries() *btree.BTreeG[expiring] {
	return btree.NewG(treeDegree, func(a, b expiring) bool {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) < 0
	})
}

// expirySeconds returns when an item expires, in Unix seconds; ok is false when it does not.
func (t *table) expirySeconds(m item) (seconds int64, ok bool) {
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
	t.expiriesNoted++
	t.expiries.ReplaceOrInsert(expiring{at, seconds, t.expiriesNoted, project(m, t.attributes())})
}

// expire deletes the rows that are to be deleted by now. DynamoDB never deletes one that expired more than
// five years ago.
func (t *table) expire(now task.Instant) {
	const fiveYears = 5 * 365 * 24 * 3600
	for {
		e, found := t.expiries.Min()
		if !found || e.at > now {
			return
		}
		t.expiries.DeleteMin()
		old := t.get(e.key)
		if seconds, expires := t.expirySeconds(old); expires && seconds == e.seconds && now.Sub(task.FromMillis(seconds*1000)).Seconds() < fiveYears {
			t.put(now, old, nil)
		}
	}
}
