package dynamo

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Sort keys are an instant and an id: microseconds in 16 digits, '#', the id's text. All have the same length,
// so that they sort as (instant, id).
const (
	instantDigits = 16
	positionLen   = instantDigits + 1 + 36
	separator     = '#'
	// instantMax is the last instant that fits into a sort key, in the year 2286.
	instantMax = task.Instant(1e16 - 1)
)

// appendPartition appends the text of task.Partition.String.
func appendPartition(dst []byte, p task.Partition) []byte {
	var lambda [8]byte
	hex.Encode(lambda[:], []byte{byte(p.Lambda >> 24), byte(p.Lambda >> 16), byte(p.Lambda >> 8), byte(p.Lambda)})
	dst = append(append(dst, lambda[:]...), '/')
	dst = append(strconv.AppendUint(dst, uint64(p.Priority), 10), '/')
	return strconv.AppendUint(dst, uint64(p.Shard), 10)
}

func partitionText(p task.Partition) string { return string(appendPartition(nil, p)) }

func appendPosition(dst []byte, at task.Instant, id task.ID) []byte {
	dst = append(appendInstant(dst, at), separator)
	return appendID(dst, id)
}

func positionText(at task.Instant, id task.ID) string {
	return string(appendPosition(make([]byte, 0, positionLen), at, id))
}

func appendInstant(dst []byte, at task.Instant) []byte {
	n := uint64(min(max(at, 0), instantMax))
	var digits [instantDigits]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = '0' + byte(n%10)
		n /= 10
	}
	return append(dst, digits[:]...)
}

func appendID(dst []byte, id task.ID) []byte {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return append(dst, b[:]...)
}

// between returns the range of sort keys after a position (the zero one: from the start) up to an instant,
// inclusive on both ends as DynamoDB's BETWEEN is; ok is false when the range is empty.
func between(at task.Instant, id task.ID, through task.Instant) (low, high string, ok bool) {
	if through < 0 {
		return "", "", false
	}
	low = strings.Repeat("0", instantDigits)
	if at > 0 || !id.IsZero() {
		low = positionText(at, id) + "!" // after the key itself, before any other
	}
	high = string(append(appendInstant(nil, through), separator+1)) // after every id
	return low, high, low <= high
}

func taskKey(id task.ID) item { return item{attrID: textValue(id.String())} }

func wakeKey(k store.WakeKey) item {
	return item{attrPartition: textValue(partitionText(k.Partition)), attrWake: textValue(positionText(k.Wake, k.ID))}
}
