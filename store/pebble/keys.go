package pebble

import (
	"encoding/binary"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Keys begin with a byte for their kind of row; instants are 8 bytes, big endian, in
// microseconds, so that keys sort by time:
//
//	m                      -> format of the layout
//	m i                    -> a time above that of every UUIDv7 among the ids (fresh.go)
//	m l                    -> empty: the store has marks of its logs (logmarks.go)
//	s partition wake id    -> task       wake-up rows
//	t id                   -> task       task rows
//	d partition ended id   ->            dead letters
//	x expire at id         -> partition state   ended rows, in order of their expiry
//	p id                   -> payload
//	k kind 0 name          -> control rows
const (
	metaSpace    = 'm'
	wakeSpace    = 's'
	taskSpace    = 't'
	deadSpace    = 'd'
	expirySpace  = 'x'
	payloadSpace = 'p'
	controlSpace = 'k'
)

// Second bytes of keys in metaSpace.
const (
	metaBound  = 'i'
	metaMarked = 'l'
)

const (
	idLen       = len(task.ID{})
	positionLen = 8 + idLen
	indexKeyLen = 1 + store.PartitionLen + positionLen // of wake-up rows and dead letters
	expiryLen   = 1 + positionLen
)

// position is a place in an index of one partition: an instant and, within it, an id.
type position struct {
	at task.Instant
	id task.ID
}

// last is the greatest position.
var last = position{at: 1<<63 - 1, id: task.ID{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}}

func (p position) less(q position) bool {
	if p.at != q.at {
		return p.at < q.at
	}
	return string(p.id[:]) < string(q.id[:])
}

// next returns the first position behind p.
func (p position) next() position {
	for i := idLen - 1; i >= 0; i-- {
		p.id[i]++
		if p.id[i] != 0 {
			return p
		}
	}
	p.at++
	return p
}

func earlier(p, q position) position {
	if q.less(p) {
		return q
	}
	return p
}

func later(p, q position) position {
	if p.less(q) {
		return q
	}
	return p
}

func appendPosition(dst []byte, p position) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(p.at, 0)))
	return append(dst, p.id[:]...)
}

func decodePosition(b []byte) (p position) {
	p.at = task.Instant(binary.BigEndian.Uint64(b))
	copy(p.id[:], b[8:])
	return p
}

func appendIndexKey(dst []byte, space byte, part task.Partition, p position) []byte {
	return appendPosition(store.AppendPartition(append(dst, space), part), p)
}

func appendExpiryKey(dst []byte, p position) []byte {
	return appendPosition(append(dst, expirySpace), p)
}

func appendIDKey(dst []byte, space byte, id task.ID) []byte {
	return append(append(dst, space), id[:]...)
}

func appendControlKey(dst []byte, kind, name string) []byte {
	dst = append(append(dst, controlSpace), kind...)
	return append(append(dst, 0), name...)
}

// after returns the first key behind all keys with a prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
