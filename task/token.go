package task

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// The forms of public ids. In the second one the number of the ring's key follows the body, in the third one
// the life of the idempotency key and then that number.
const (
	tokenPrefix       = "k1" // sealed with FirstKey
	tokenPrefixNumber = "k2"
	tokenPrefixLife   = "k3"

	tokenBodyBytes = 16 + 6 + 4 + 1 + 2
	tokenLifeBytes = 8
	tokenMACBytes  = 13 // 104 bits; body and MAC make 42 bytes, 56 characters

	// tokenTextMax is the number of characters of the longest public id.
	tokenTextMax = len(tokenPrefix) + (tokenBodyBytes+tokenLifeBytes+1+tokenMACBytes)*4/3 + 1
)

// Token is the content of a public id: all that is needed to find the rows of the task without an index.
type Token struct {
	ID        ID
	Due       Instant // the first one: it stays when the task is rescheduled
	Partition Partition
	Life      uint64 // Task.Life
	// Direct means that the task went straight to the queue of its deliver lambda, and never had a row.
	Direct bool
}

// directShard is the bit that marks a direct task; shards are less than ShardsMax.
const directShard = 1 << 15

// TokenOf returns the token of a task.
func TokenOf(t *Task) Token {
	return Token{ID: t.ID, Due: cmp.Or(t.FirstDue, t.Due), Partition: cmp.Or(t.FirstPartition, t.Partition), Life: t.Life}
}

// Sealer makes public ids and detects forged ones: a public id is the token's fields and a keyed MAC
// (HMAC-SHA-256, truncated) in URL-safe base64. It is safe for concurrent use.
type Sealer struct{ ring *Keyring }

// NewSealer returns a sealer with one secret as its FirstKey.
func NewSealer(secret []byte) *Sealer { return oneKey(FirstKey, secret).IDs() }

// Ring returns the keys that the sealer seals with.
func (s *Sealer) Ring() *Keyring { return s.ring }

// SealTask returns the public id of a task. It is the same all the task's life, also after a rotation, and
// whichever server seals it.
func (s *Sealer) SealTask(t *Task) string {
	if made, known := t.ID.Made(); known {
		return s.seal(TokenOf(t), s.ring.sealsIDs(made))
	}
	return s.seal(TokenOf(t), s.ring.sealsIDs(t.Created))
}

// Seal returns the public id of a token. It is sealed with the key of the time at which the token's id was made; an id that
// does not tell that time counts as made now.
func (s *Sealer) Seal(t Token) string {
	if made, known := t.ID.Made(); known {
		return s.seal(t, s.ring.sealsIDs(made))
	}
	return s.seal(t, s.ring.seals())
}

func (s *Sealer) seal(t Token, key *ringKey) string {
	var raw [tokenBodyBytes + tokenLifeBytes + 1 + sha256.Size]byte
	copy(raw[:16], t.ID[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(t.Due.Millis()))
	copy(raw[16:22], ms[2:])
	binary.BigEndian.PutUint32(raw[22:26], t.Partition.Lambda)
	raw[26] = t.Partition.Priority
	shard := t.Partition.Shard
	if t.Direct {
		shard |= directShard
	}
	binary.BigEndian.PutUint16(raw[27:29], shard)
	prefix, n := tokenPrefix, tokenBodyBytes
	switch {
	case t.Life != 0:
		binary.BigEndian.PutUint64(raw[n:], t.Life)
		n += tokenLifeBytes
		prefix, raw[n] = tokenPrefixLife, key.number
		n++
	case key.number > FirstKey:
		prefix, raw[n] = tokenPrefixNumber, key.number
		n++
	}
	key.ids.sum("", raw[:n], raw[n:n])
	n += tokenMACBytes

	text := append(make([]byte, 0, tokenTextMax), prefix...) // on the stack
	return string(base64.RawURLEncoding.AppendEncode(text, raw[:n]))
}

// Open reads a public id. It returns ErrBadID, and no reason, for anything that was not sealed with a key of
// the ring.
func (s *Sealer) Open(ctx context.Context, text string) (Token, error) {
	raw, number, life, ok := splitToken(text)
	if !ok {
		return Token{}, ErrBadID
	}
	n := len(raw) - tokenMACBytes
	key, err := s.ring.find(ctx, number)
	if err != nil || !key.ids.verify("", raw[:n], raw[n:]) {
		return Token{}, ErrBadID
	}
	t := Token{Life: life}
	copy(t.ID[:], raw[:16])
	var ms [8]byte
	copy(ms[2:], raw[16:22])
	t.Due = FromMillis(int64(binary.BigEndian.Uint64(ms[:])))
	shard := binary.BigEndian.Uint16(raw[27:29])
	t.Direct = shard&directShard != 0
	t.Partition = Partition{
		Lambda:   binary.BigEndian.Uint32(raw[22:26]),
		Priority: raw[26],
		Shard:    shard &^ directShard,
	}
	return t, nil
}

// splitToken returns the bytes of a public id, with the number of the ring's key that sealed it and its life.
func splitToken(text string) (raw []byte, number uint8, life uint64, ok bool) {
	if raw, ok = decodeToken(tokenPrefix, text); ok {
		return raw, FirstKey, 0, len(raw) == tokenBodyBytes+tokenMACBytes
	}
	n := tokenBodyBytes
	if raw, ok = decodeToken(tokenPrefixNumber, text); ok {
		if len(raw) != n+1+tokenMACBytes || raw[n] <= FirstKey {
			return nil, 0, 0, false
		}
		return raw, raw[n], 0, true
	}
	if raw, ok = decodeToken(tokenPrefixLife, text); !ok || len(raw) != n+tokenLifeBytes+1+tokenMACBytes {
		return nil, 0, 0, false
	}
	life = binary.BigEndian.Uint64(raw[n:])
	number = raw[n+tokenLifeBytes]
	return raw, number, life, life != 0 && number >= FirstKey
}

// decodeToken returns the bytes of a public id with a prefix.
func decodeToken(prefix, text string) (raw []byte, ok bool) {
	encoded, found := strings.CutPrefix(text, prefix)
	if !found || len(encoded) > base64.RawURLEncoding.EncodedLen(inboundBodyMax+tokenMACBytes) {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return raw, err == nil && len(raw) >= tokenMACBytes
}

// idChars are the characters of public ids.
const idChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// IsShortened reports whether a text may be the beginning of a public id that servers make, and not the whole of it.
func IsShortened(text string) bool {
	whole := tokenBodyBytes + tokenMACBytes
	switch text[:min(len(text), len(tokenPrefix))] {
	case tokenPrefix:
	case tokenPrefixNumber:
		whole++
	case tokenPrefixLife:
		whole += tokenLifeBytes + 1
	default:
		return false
	}
	return len(text) < len(tokenPrefix)+base64.RawURLEncoding.EncodedLen(whole) && strings.Trim(text, idChars) == ""
}

// IsShortenedUUID reports whether a text may be the beginning of a UUID as ID.String writes it, and not the whole of it.
func IsShortenedUUID(text string) bool {
	return text != "" && len(text) < len(ID{}.String()) && strings.Trim(text, "0123456789abcdef-") == ""
}

// PeekID returns the id of the task that a public id names. It has no key, and so cannot tell a forged public id. It returns
// ErrBadID for forms that it does not know. The task's id is first in the body; in the form q2 the number of a key, the
// length of a sender's name and the name come before, and the id is one of that sender's.
func PeekID(text string) (id ID, err error) {
	const prefixChars = 2
	unknown := fmt.Errorf("%w: not one of the forms that this version knows", ErrBadID)
	if len(text) < prefixChars || len(text) > prefixChars+base64.RawURLEncoding.EncodedLen(publicIDBytesMax) {
		return ID{}, unknown
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text[prefixChars:])
	if err != nil {
		return ID{}, unknown
	}
	at := 0
	switch text[:prefixChars] {
	case "k1", "k2", "k3", "q1":
	case "q2":
		if len(raw) < 2 {
			return ID{}, unknown
		}
		at = 2 + int(raw[1])
	default:
		return ID{}, unknown
	}
	if len(raw) < at+len(id) {
		return ID{}, unknown
	}
	id = ID(raw[at : at+len(id)])
	if at > 0 {
		return InboundToken{ID: id, Sender: string(raw[2:at])}.TaskID(), nil
	}
	return id, nil
}

// publicIDBytesMax is above the length of every public id.
const publicIDBytesMax = 512
