package task

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"sync"
	"sync/atomic"
)

const (
	// TokenKeyBytes is the length of a secret of a Keyring.
	TokenKeyBytes = 32
	// FirstKey is the number of the key that an installation begins with. Its seals carry no number, in the
	// forms that releases without a key ring wrote.
	FirstKey = 1
	// KeyNumberMax is the highest number of a key: seals have one byte for it.
	KeyNumberMax = 255
)

// Why a seal is refused that names its key.
var (
	// ErrKeyGone says that a seal names a key that was rotated out.
	ErrKeyGone = errors.New("its seal names a key that was rotated out")
	// ErrSenderRevoked says that a message was sealed with the inbound key of a sender that was revoked.
	ErrSenderRevoked = errors.New("sealed with the inbound key of a revoked sender")
)

// Key is one secret of a Keyring.
type Key struct {
	Number uint8
	Secret []byte // TokenKeyBytes
	// From is since when the key seals ids: those of tasks that were made from then on, until the From of the
	// next key. So a task has one public id all its life.
	From Instant
	// IDsOnly says that the key was retired so long ago that it verifies public ids and nothing else.
	IDsOnly bool
}

// Ring is the content of a Keyring.
type Ring struct {
	Keys  []Key // by From
	Seals uint8 // number of the key that seals everything but ids
	// Senders have inbound keys of their own.
	Senders []InboundSender
}

// Keyring seals public ids, messages, page tokens and lease proofs, each with a key derived for that use, and
// verifies what any of its keys has sealed. It is safe for concurrent use.
type Keyring struct {
	// Unknown, if set, is called for a number above those of all keys and for a sender that is not in the
	// ring, with the context of the call that needs it. It may Set the ring again. It is set before the first
	// use.
	Unknown func(ctx context.Context)

	ring atomic.Pointer[ring]
}

// ring is what is known at a moment. It is never changed.
type ring struct {
	keys    [KeyNumberMax + 1]*ringKey
	order   []*ringKey // by from
	seals   *ringKey
	newest  uint8
	senders map[string]*InboundSender
}

// ringKey has the keys for each use, derived from one secret.
type ringKey struct {
	number  uint8
	idsOnly bool
	from    Instant
	secret  []byte

	ids      macs
	seals    [purposes]macs
	sessions cipher.AEAD

	inbound []byte // given to senders
	sealer  macs   // by inbound
}

// NewKeyring returns a ring with these keys. It returns ErrInvalid for a ring without a key that seals, for
// two keys of one number, and for a secret of another length than TokenKeyBytes.
func NewKeyring(r Ring) (*Keyring, error) {
	k := &Keyring{}
	return k, k.Set(r)
}

// oneKey returns a ring of one key, whose secret may have any length.
func oneKey(number uint8, secret []byte) *Keyring {
	k, r := &Keyring{}, &ring{newest: number}
	r.seals = newRingKey(Key{Number: number, Secret: secret})
	r.keys[number], r.order = r.seals, []*ringKey{r.seals}
	k.ring.Store(r)
	return k
}

// Set replaces the content, or returns ErrInvalid and leaves it as it was.
func (k *Keyring) Set(content Ring) error {
	next, known := &ring{senders: make(map[string]*InboundSender, len(content.Senders))}, k.ring.Load()
	for _, key := range content.Keys {
		switch {
		case len(key.Secret) != TokenKeyBytes:
			return fmt.Errorf("%w key %d of %d bytes: want %d", ErrInvalid, key.Number, len(key.Secret), TokenKeyBytes)
		case key.Number < FirstKey || next.keys[key.Number] != nil:
			return fmt.Errorf("%w key %d: want each number once, from %d on", ErrInvalid, key.Number, FirstKey)
		}
		if n := len(next.order); n > 0 && key.From < next.order[n-1].from {
			return fmt.Errorf("%w key %d: it seals earlier than the one before it", ErrInvalid, key.Number)
		}
		next.keys[key.Number] = known.reuse(key)
		next.order = append(next.order, next.keys[key.Number])
		next.newest = max(next.newest, key.Number)
	}
	if next.seals = next.keys[content.Seals]; next.seals == nil || next.seals.idsOnly {
		return fmt.Errorf("%w key ring: key %d is to seal, and is not one that may", ErrInvalid, content.Seals)
	}
	for i := range content.Senders {
		sender := content.Senders[i]
		next.senders[sender.Name] = &sender
	}
	k.ring.Store(next)
	return nil
}

// reuse returns the known keys derived from a secret, or derives them.
func (r *ring) reuse(key Key) *ringKey {
	if r != nil {
		if known := r.keys[key.Number]; known != nil && known.idsOnly == key.IDsOnly && known.from == key.From && bytes.Equal(known.secret, key.Secret) {
			return known
		}
	}
	return newRingKey(key)
}

func newRingKey(key Key) *ringKey {
	secret := bytes.Clone(key.Secret)
	r := &ringKey{number: key.Number, idsOnly: key.IDsOnly, from: key.From, secret: secret, inbound: InboundKey(secret)}
	r.ids = newMACs(derive(secret, "id"))
	if r.number <= FirstKey { // as installations without a rotation do
		r.ids = newMACs(secret)
	}
	for p, name := range [purposes]string{forMessages: "queue", forPages: "page", forLeases: "lease", forCallbacks: "callback"} {
		r.seals[p] = newMACs(derive(secret, name))
	}
	r.sealer = newMACs(r.inbound)
	r.sessions = newSessionCipher(derive(secret, "session"))
	return r
}

// find returns a key by its number. It returns ErrKeyGone for one that the ring has no more, and ErrUnsealed
// for one that it never had.
func (k *Keyring) find(ctx context.Context, number uint8) (*ringKey, error) {
	r := k.ring.Load()
	if number > r.newest && k.Unknown != nil {
		k.Unknown(ctx)
		r = k.ring.Load()
	}
	switch key := r.keys[number]; {
	case key != nil:
		return key, nil
	case number < FirstKey || number > r.newest:
		return nil, fmt.Errorf("%w: there is no key %d", ErrUnsealed, number)
	}
	return nil, keyGone(number)
}

func keyGone(number uint8) error { return fmt.Errorf("%w: key %d", ErrKeyGone, number) }

// sender returns a sender by name; nil when there is none.
func (k *Keyring) sender(ctx context.Context, name string) *InboundSender {
	if sender := k.ring.Load().senders[name]; sender != nil || k.Unknown == nil {
		return sender
	}
	k.Unknown(ctx)
	return k.ring.Load().senders[name]
}

func (k *Keyring) seals() *ringKey { return k.ring.Load().seals }

// sealsIDs returns the key for the public id of a task that was made at a time: the oldest that is kept, if
// its own is not any more.
func (k *Keyring) sealsIDs(made Instant) *ringKey {
	r := k.ring.Load()
	for i := len(r.order) - 1; i > 0; i-- {
		if r.order[i].from <= made {
			return r.order[i]
		}
	}
	return r.order[0]
}

// IDs returns the sealer of public ids.
func (k *Keyring) IDs() *Sealer { return &Sealer{k} }

// Inbound returns the sealer of messages of the inbound queue and of the ids that their senders issue.
func (k *Keyring) Inbound() *InboundSealer { return &InboundSealer{ring: k} }

// derive returns a key of TokenKeyBytes for one use of a secret, which does not reveal the secret.
func derive(secret []byte, parts ...string) []byte {
	m := hmac.New(sha256.New, secret)
	for _, part := range parts {
		m.Write([]byte(part))
	}
	return m.Sum(nil)
}

// macBytes is the length of a whole MAC.
const macBytes = sha256.Size

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

// verify reports in constant time whether mac is the beginning of the MAC of a use and a body.
func (m macs) verify(use string, body, mac []byte) bool {
	var sum [sha256.Size]byte
	return subtle.ConstantTimeCompare(m.sum(use, body, sum[:0])[:len(mac)], mac) == 1
}
