package sdk

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An encoded payload begins with: the mark, which no JSON text begins with, the version of the form and the
// length of the key's id. The key's id, the nonce and the sealed payload follow.
const (
	payloadMark      = "\x00KP"
	payloadVersion   = 1
	payloadHeadBytes = len(payloadMark) + 2
	payloadKeyBytes  = 32
	payloadKeyIDMax  = 64
	payloadNonce     = 12
)

// PayloadKey is a key of an AESGCMCodec.
type PayloadKey struct {
	ID     string // names the key in every payload, in plain: up to 64 of A-Z, a-z, 0-9 and -._:/
	Secret []byte // 32 random bytes
}

// AESGCMCodec is a PayloadCodec that encrypts with AES-256-GCM. Each payload is bound to its lambda and its
// task (or key): moved to another task it is refused. Tasks without a key get a random nonce. The nonce of a
// task with a key follows from its payload, so that a repeated call makes the same bytes. Each task has a key
// of its own, derived from the PayloadKey, so there is no limit to the tasks that one PayloadKey is for.
type AESGCMCodec struct {
	newest *derivedKey
	keys   map[string]*derivedKey
	plain  bool
}

type derivedKey struct {
	head []byte // of the payloads that it encrypts
	root []byte // from which the keys of tasks are derived
}

// NewAESGCMCodec returns a codec that encrypts with the first key and decrypts with all. To change to a new
// key, give it to every program, after the first one; then make it the first; and remove the old one when no
// task of its time is left. An attempt without the key for its payload fails and is tried again; a payload
// that was altered ends its task as fatal_failure.
func NewAESGCMCodec(keys ...PayloadKey) (*AESGCMCodec, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w payload codec: want one key or more", ErrInvalid)
	}
	c := &AESGCMCodec{keys: map[string]*derivedKey{}}
	for i, key := range keys {
		isShared := func(other PayloadKey) bool { return bytes.Equal(other.Secret, key.Secret) }
		switch {
		case !isPayloadKeyID(key.ID):
			// It is not quoted: it may be the secret, in the wrong place.
			return nil, fmt.Errorf("%w id of %d characters of payload key %d: want 1 to %d characters of A-Z, a-z, 0-9 and -._:/", ErrInvalid, len(key.ID), i+1, payloadKeyIDMax)
		case len(key.Secret) != payloadKeyBytes:
			return nil, fmt.Errorf("%w payload key %q of %d bytes: want %d", ErrInvalid, key.ID, len(key.Secret), payloadKeyBytes)
		case c.keys[key.ID] != nil:
			return nil, fmt.Errorf("%w payload key %q: the id is there twice", ErrInvalid, key.ID)
		case slices.ContainsFunc(keys[:i], isShared):
			return nil, fmt.Errorf("%w payload key %q: another one has the same secret", ErrInvalid, key.ID)
		}
		root, err := hkdf.Extract(sha256.New, key.Secret, []byte("kinesin payload key"))
		if err != nil {
			return nil, fmt.Errorf("payload key %q: %w", key.ID, err)
		}
		head := append([]byte(payloadMark), payloadVersion, byte(len(key.ID)))
		c.keys[key.ID] = &derivedKey{head: append(head, key.ID...), root: root}
	}
	c.newest = c.keys[keys[0].ID]
	return c, nil
}

func isPayloadKeyID(id string) bool {
	return id != "" && len(id) <= payloadKeyIDMax && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-._:/", r)
	})
}

// AcceptPlain returns a copy that also takes payloads which are not encrypted, as they are. It is for the
// time when tasks from before the codec are left: until then, whoever can write to the store or the queues
// can give handlers a payload of their own.
func (c *AESGCMCodec) AcceptPlain() *AESGCMCodec {
	accepting := *c
	accepting.plain = true
	return &accepting
}

// Encode implements PayloadCodec.
func (c *AESGCMCodec) Encode(_ context.Context, p PayloadContext, plain []byte) ([]byte, error) {
	aead, nonces, err := c.newest.of(p)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, payloadNonce, sha256.Size)
	if p.Key == "" {
		_, _ = rand.Read(nonce) // never fails
	} else {
		h := hmac.New(sha256.New, nonces)
		h.Write(plain)
		nonce = h.Sum(nonce[:0])[:payloadNonce]
	}
	head := c.newest.head
	out := make([]byte, 0, len(head)+len(nonce)+len(plain)+aead.Overhead())
	return aead.Seal(append(append(out, head...), nonce...), nonce, plain, c.newest.bind(p)), nil
}

// Decode implements PayloadCodec.
func (c *AESGCMCodec) Decode(_ context.Context, p PayloadContext, encoded []byte) ([]byte, error) {
	if !bytes.HasPrefix(encoded, []byte(payloadMark)) {
		if c.plain {
			return encoded, nil
		}
		return nil, Fatal(errors.New("the payload is not encrypted, and this program takes encrypted ones only"))
	}
	errAltered := Fatal(errors.New("the payload was altered, or is that of another task"))
	if len(encoded) < payloadHeadBytes {
		return nil, errAltered
	}
	if version := encoded[len(payloadMark)]; version != payloadVersion {
		return nil, fmt.Errorf("the payload is encrypted in form %d, and this program knows form %d", version, payloadVersion)
	}
	id, rest := encoded[payloadHeadBytes:], int(encoded[payloadHeadBytes-1])
	if rest > len(id) || !isPayloadKeyID(string(id[:rest])) {
		return nil, errAltered
	}
	id, sealed := id[:rest], id[rest:]
	key := c.keys[string(id)]
	if key == nil {
		return nil, fmt.Errorf("the payload is encrypted with key %q, which this program does not have", id)
	}
	if len(sealed) < payloadNonce {
		return nil, errAltered
	}
	aead, _, err := key.of(p)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, sealed[:payloadNonce], sealed[payloadNonce:], key.bind(p))
	if err != nil {
		return nil, errAltered
	}
	return plain, nil
}

// bind returns what the payload of a task is authenticated with.
func (k *derivedKey) bind(p PayloadContext) []byte {
	return append(slices.Clip(k.head), p.AssociatedData()...)
}

// of returns the cipher of a task, and the key of its nonces.
func (k *derivedKey) of(p PayloadContext) (aead cipher.AEAD, nonces []byte, err error) {
	keys, err := hkdf.Expand(sha256.New, k.root, string(k.bind(p)), 2*payloadKeyBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("derive the key of a payload: %w", err)
	}
	block, err := aes.NewCipher(keys[:payloadKeyBytes])
	if err != nil {
		return nil, nil, fmt.Errorf("derive the key of a payload: %w", err)
	}
	aead, err = cipher.NewGCM(block)
	return aead, keys[payloadKeyBytes:], err
}
