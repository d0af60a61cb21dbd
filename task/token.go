package task

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
)

// TokenKeyBytes is the length of the secret that seals public ids.
const TokenKeyBytes = 32

const (
	tokenPrefix    = "k1" // identifies the form, so that there can be another one later
	tokenBodyBytes = 16 + 6 + 4 + 1 + 2
	tokenMACBytes  = 13 // 104 bits; body and MAC make 42 bytes, 56 characters
)

// Token is the content of a public id: all that is needed to find the rows of the task without an index.
type Token struct {
	ID        ID
	Due       Instant
	Partition Partition
	// Direct means that the task went straight to the queue of its deliver lambda, and never had a row.
	Direct bool
}

// directShard is the bit that marks a direct task; shards are less than ShardsMax.
const directShard = 1 << 15

// TokenOf returns the token of a task.
func TokenOf(t *Task) Token { return Token{ID: t.ID, Due: t.Due, Partition: t.Partition} }

// Sealer makes public ids and detects forged ones: a public id is the token's fields and a keyed MAC
// (HMAC-SHA-256, truncated) in URL-safe base64. It is safe for concurrent use.
type Sealer struct{ macs macs }

// NewSealer returns a sealer for a secret of TokenKeyBytes.
func NewSealer(key []byte) *Sealer { return &Sealer{newMACs(key)} }

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
	s.macs.sum("", raw[:tokenBodyBytes], raw[tokenBodyBytes:tokenBodyBytes])

	const sealed = tokenBodyBytes + tokenMACBytes
	text := make([]byte, len(tokenPrefix)+base64.RawURLEncoding.EncodedLen(sealed))
	copy(text, tokenPrefix)
	base64.RawURLEncoding.Encode(text[len(tokenPrefix):], raw[:sealed])
	return string(text)
}

// Open reads a public id. It returns ErrBadID, and no reason, for anything that was not sealed with this
// secret.
func (s *Sealer) Open(text string) (Token, error) {
	raw, sealed := s.macs.open(tokenPrefix, "", text)
	if !sealed || len(raw) != tokenBodyBytes {
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

// macs computes MACs with a key.
type macs struct{ pool *sync.Pool }

func newMACs(key []byte) macs {
	key = append([]byte(nil), key...)
	return macs{&sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// sum appends to dst the MAC of a use and a body.
func (m macs) sum(use string, body, dst []byte) []byte {
	h := m.pool.Get().(hash.Hash) //nolint:errcheck,forcetypeassert // the pool holds nothing else
	h.Reset()
	h.Write([]byte(use))
	h.Write(body)
	dst = h.Sum(dst)
	m.pool.Put(h)
	return dst
}

// open returns the body of a public id if it was sealed with the key.
func (m macs) open(prefix, use, text string) (body []byte, sealed bool) {
	encoded, found := strings.CutPrefix(text, prefix)
	if !found || len(encoded) > base64.RawURLEncoding.EncodedLen(inboundBodyMax+tokenMACBytes) {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(raw) < tokenMACBytes {
		return nil, false
	}
	body = raw[:len(raw)-tokenMACBytes]
	var sum [sha256.Size]byte
	return body, subtle.ConstantTimeCompare(m.sum(use, body, sum[:0])[:tokenMACBytes], raw[len(body):]) == 1
}
