package task

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// ErrBadID means that a text is not an id in the form that is wanted: a canonical UUID, or a public id.
var ErrBadID = errors.New("bad task id")

// ID identifies a task. It is a UUID: version 7 for a task without an idempotency key, version 8 (derived
// from lambda and key) for a task with a key.
type ID [16]byte

// IDOf derives an id from content: a UUID of version 8, which is the same for the same parts.
func IDOf(parts ...[]byte) (id ID) {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
	}
	copy(id[:], h.Sum(nil))
	return id.versioned(8)
}

// KeyedID returns the id of all tasks of a lambda with a key.
func KeyedID(lambda uint32, key string) ID {
	var space ID
	binary.BigEndian.PutUint32(space[:], lambda)
	return IDOf(space[:], []byte(key))
}

// NewID returns an id of version 7: Unix milliseconds and 74 of the random bits a and b.
func NewID(now Instant, a, b uint64) (id ID) {
	binary.BigEndian.PutUint64(id[0:8], uint64(now.Millis())<<16|a&0xffff)
	binary.BigEndian.PutUint64(id[8:16], b)
	return id.versioned(7)
}

// boundBytes is how much of a bound id says what it is bound to: so much that few other ids pass for a bound
// one, and so little that 58 random bits are left, which nobody can guess.
const boundBytes = 2

// BoundTo returns the id with its last bytes derived from the others, a lambda and a collection. A caller who
// needs to know the id of its task beforehand, to encrypt the payload for it, chooses such a request id: the
// id of the task is then what OwnedBy returns for nobody.
func (id ID) BoundTo(lambda, collection string) ID {
	rest := len(id) - boundBytes
	sum := IDOf(id[:rest], []byte(lambda), []byte{0}, []byte(collection))
	copy(id[rest:], sum[rest:])
	return id
}

// OwnedBy returns the id that a caller gets when it chooses this one, for a request with this content: with
// the same time and version, and with random bits that no other caller and no other request leads to. An id
// becomes the key of a row, and one that counted as it is could be that of the row of somebody else.
func (id ID) OwnedBy(caller string, content ...byte) ID {
	own := IDOf(id[:], []byte(caller), []byte{0}, content)
	copy(own[:6], id[:6])
	return own.versioned(id[6] >> 4)
}

// versioned sets the version and the variant of RFC 9562.
func (id ID) versioned(version byte) ID {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Made returns when an id of version 7 was made, by the clock of its maker; false for other versions.
func (id ID) Made() (Instant, bool) {
	if id[6]>>4 != 7 {
		return 0, false
	}
	return FromMillis(int64(binary.BigEndian.Uint64(id[:8]) >> 16)), true
}

// IsDerived reports whether the id was made by IDOf, as the id of a task with a key is.
func (id ID) IsDerived() bool { return id[6]>>4 == 8 }

// IsZero reports whether the id was never set.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the canonical 36-character UUID form.
func (id ID) String() string {
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
	return string(b[:])
}

// ParseID reads the 36-character UUID form, in either case. It returns ErrBadID for anything else.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, fmt.Errorf("%w: want 36 characters of a UUID", ErrBadID)
	}
	if _, err := hex.Decode(id[:], []byte(s[0:8]+s[9:13]+s[14:18]+s[19:23]+s[24:36])); err != nil {
		return ID{}, fmt.Errorf("%w: %w", ErrBadID, err)
	}
	return id, nil
}

// Partition is the unit of ownership: one shard of one priority of one lambda. A task never leaves its
// partition.
type Partition struct {
	Lambda   uint32 // Lambda.Ref
	Priority uint8  // index into Lambda.Priorities; 0 is the highest
	Shard    uint16 // hash(task id) mod Lambda.ShardsFor(id); with a limit key hash(that) mod Lambda.ShardsFirst()
}

func (p Partition) String() string {
	return fmt.Sprintf("%08x/%d/%d", p.Lambda, p.Priority, p.Shard)
}
