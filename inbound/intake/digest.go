package intake

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strings"

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

// Difference says in which of what Digest covers two tasks of a key differ, as far as their rows tell:
// "another payload and other follow-ups".
func Difference(want, have *task.Task) string {
	var differs []string
	if payloadDiffers(want, have) {
		differs = append(differs, "another payload")
	}
	if want.Partition.Priority != have.Partition.Priority {
		differs = append(differs, "another priority")
	}
	if want.Collection != have.Collection {
		differs = append(differs, "another collection")
	}
	if want.LimitKey != have.LimitKey {
		differs = append(differs, "another limit key")
	}
	if followsDiffer(want, have) {
		differs = append(differs, "other follow-ups (then, else or finally)")
	}
	switch n := len(differs); {
	case n == 0 && have.HasAdded(): // its row no longer says what it was scheduled with
		return "another payload or other follow-ups (then, else or finally)"
	case n == 0:
		return "another payload"
	case n == 1:
		return differs[0]
	default:
		return strings.Join(differs[:n-1], ", ") + " and " + differs[n-1]
	}
}

// payloadDiffers reports whether two payloads are known to differ: of those in rows of their own the sizes
// are.
func payloadDiffers(a, b *task.Task) bool {
	switch {
	case a.Blob != nil && b.Blob != nil:
		return a.Blob.SHA256 != b.Blob.SHA256
	case (a.Blob == nil) != (b.Blob == nil), a.PayloadSize != b.PayloadSize:
		return true
	}
	return !a.PayloadStoredApart() && !b.PayloadStoredApart() && !bytes.Equal(a.Payload, b.Payload)
}

// followsDiffer reports whether what follows two tasks is known to differ.
func followsDiffer(a, b *task.Task) bool {
	switch {
	case a.HasAdded() || b.HasAdded():
		return false
	case !a.HasFollowups() || !b.HasFollowups():
		return a.HasFollowups() != b.HasFollowups()
	case a.Chain.FollowSum != b.Chain.FollowSum:
		return true
	case !a.Chain.FollowSum.IsZero():
		return false
	case a.Chain.FollowBytes != b.Chain.FollowBytes, !bytes.Equal(a.Chain.Follow, b.Chain.Follow):
		return true
	}
	// The id of a row of its own says also of which life and round of the task it is.
	return a.Chain.Round == b.Chain.Round && a.PayloadRev == b.PayloadRev && a.Chain.FollowID != b.Chain.FollowID
}
