package dynamo

import (
	"fmt"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// instantMax is the last instant that fits into a sort key, in the year 2286.
const instantMax = task.Instant(1e16 - 1)

// instantText returns an instant in a sort key: microseconds in 16 digits.
func instantText(at task.Instant) string { return fmt.Sprintf("%016d", min(max(at, 0), instantMax)) }

// positionText returns a sort key. All have the same length, so that they sort as (instant, id).
func positionText(at task.Instant, id task.ID) string { return instantText(at) + "#" + id.String() }

// between returns the range of sort keys after a position (the zero one: from the start) up to an instant,
// inclusive on both ends as DynamoDB's BETWEEN is; ok is false when the range is empty.
func between(at task.Instant, id task.ID, through task.Instant) (low, high string, ok bool) {
	if through < 0 {
		return "", "", false
	}
	low = instantText(0)
	if at > 0 || !id.IsZero() {
		low = positionText(at, id) + "!" // after the key itself, before any other
	}
	high = instantText(through) + "$" // after every id, since '$' comes after '#'
	return low, high, low <= high
}

func taskKey(id task.ID) item { return item{attrID: textValue(id.String())} }

func wakeKey(k store.WakeKey) item {
	return item{attrPartition: textValue(k.Partition.String()), attrWake: textValue(positionText(k.Wake, k.ID))}
}

// The limits of DynamoDB for keys.
const (
	hashBytesMax  = 2048
	rangeBytesMax = 1024
)

func checkControlKey(kind, name string) error {
	if len(kind) > hashBytesMax || len(name) > rangeBytesMax || !utf8.ValidString(kind) || !utf8.ValidString(name) {
		return fmt.Errorf("%w control key: kind %.40q, name %.40q; want UTF-8 of at most %d and %d bytes", store.ErrMalformed, kind, name, hashBytesMax, rangeBytesMax)
	}
	return nil
}
