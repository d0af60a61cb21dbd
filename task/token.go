package task

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
)

// TokenKeyBytes is the length of the secret that seals public ids.
const TokenKeyBytes = 32

const (
	tokenPrefix    = "k1" // names the form, so that a later one can be told apart
	tokenBodyBytes = 16 + 6 + 4 + 1 + 2
	tokenMACBytes  = 13 // 104 bits; body and MAC make 42 bytes, 56 characters
)

// Token is what a public id says: all that is needed to find the task's row,
// waiting or not, without an index.
type Token struct {
	ID        ID
	Due       Instant
	Partition Partition
	// Direct says that the task went straight to the queue of its deliver lambda, so that it never had a row.
	Direct bool
}

// directShard marks a direct task in the shard of its partition, which is less than ShardsMax.
const directShard = 1 << 15

// TokenOf is the token of a task.
func TokenOf(t *Task) Token { return Token{ID: t.ID, Due: t.Due, Partition: t.Partition} }

// Sealer makes public ids and tells ours from forged ones: a public id is the
// token's fields and a keyed MAC (HMAC-SHA-256, truncated) in URL-safe base64.
// It is safe for concurrent use.
type Sealer struct{ macs sync.Pool }

// NewSealer returns a sealer for a secret of TokenKeyBytes.
func NewSealer(key []byte) *Sealer {
	key = append([]byte(nil), key...)
	return &Sealer{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// Seal returns the public id of a task.
func (s *Sealer) Seal(t Token) string {
	var raw [tokenBodyBytes + sha256.Size]byte
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
	s.mac(raw[:tokenBodyBytes], raw[tokenBodyBytes:tokenBodyBytes])

	const sealed = tokenBodyBytes + tokenMACBytes
	text := make([]byte, len(tokenPrefix)+base64.RawURLEncoding.EncodedLen(sealed))
	copy(text, tokenPrefix)
	base64.RawURLEncoding.Encode(text[len(tokenPrefix):], raw[:sealed])
	return string(text)
}

// Open reads a public id. It returns ErrBadID for anything that this secret did not
// seal, without saying what was wrong with it.
func (s *Sealer) Open(text string) (Token, error) {
	if len(text) < len(tokenPrefix) || text[:len(tokenPrefix)] != tokenPrefix {
		return Token{}, ErrBadID
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text[len(tokenPrefix):])
	if err != nil || len(raw) != tokenBodyBytes+tokenMACBytes {
		return Token{}, ErrBadID
	}
	var sum [sha256.Size]byte
	s.mac(raw[:tokenBodyBytes], sum[:0])
	if subtle.ConstantTimeCompare(sum[:tokenMACBytes], raw[tokenBodyBytes:]) != 1 {
		return Token{}, ErrBadID
	}
	var t Token
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

func (s *Sealer) mac(body, dst []byte) {
	m := s.macs.Get().(hash.Hash) //nolint:errcheck,forcetypeassert // the pool holds nothing else
	m.Reset()
	m.Write(body)
	m.Sum(dst)
	s.macs.Put(m)
}
