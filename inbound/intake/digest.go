package intake

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/kinesin-io/kinesin/task"
)

// Digest tells whether a key is used again for the same task: same priority, collection, limit key, payload
// and follow-ups. A blob counts by its contents, also that of a follow-up, and is never the same as a payload
// in a row: no priority has the number 255, which marks it, nor 254, which marks a limit key.
func Digest(t *task.Task, payload []byte) (d [16]byte) {
	h := sha256.New()
	if t.Blob != nil {
		payload = t.Blob.SHA256[:]
		h.Write([]byte{math.MaxUint8})
	}
	if t.LimitKey != "" {
		h.Write([]byte{math.MaxUint8 - 1, byte(len(t.LimitKey) - 1)})
		h.Write([]byte(t.LimitKey))
	}
	switch {
	case !t.HasFollowups():
	case !t.Chain.FollowSum.IsZero():
		h.Write([]byte{math.MaxUint8 - 3})
		h.Write(t.Chain.FollowSum[:])
	default:
		h.Write([]byte{math.MaxUint8 - 2})
		h.Write(binary.BigEndian.AppendUint32(nil, t.Chain.FollowBytes))
		h.Write(t.Chain.Follow)
		h.Write(t.Chain.FollowID[:])
	}
	h.Write([]byte{t.Partition.Priority, byte(len(t.Collection))})
	h.Write([]byte(t.Collection))
	h.Write(payload)
	copy(d[:], h.Sum(nil))
	return d
}
