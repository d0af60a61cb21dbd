package task

import (
	"context"
	"errors"
)

// ErrUnsealed says that bytes were not sealed with a key of this installation for this purpose and subject, or
// were changed since.
var ErrUnsealed = errors.New("not sealed by this installation for this queue")

// SealBytes is the length of a seal: the number of the key, and a MAC of 128 bits.
const SealBytes = 1 + sealMACBytes

const sealMACBytes = 16

// purpose is what bytes are sealed for. A key for each is derived, so that a seal for one is none for another.
type purpose uint8

const (
	forMessages  purpose = iota // messages of lambda queues; the subject is the queue
	forPages                    // where the next page of a list begins; the subject is the list
	forLeases                   // what a worker shows to give its lease up; the subject is the worker
	forCallbacks                // with what a receiver reports how an attempt ended
	purposes
)

// Seal seals bytes for one purpose, each about a subject, so that whoever opens them believes only what a
// server of the same installation sealed for just that. A seal does not hide what it seals. Seal is safe for
// concurrent use.
type Seal struct {
	ring *Keyring
	purpose
}

// Messages returns the seal of messages of lambda queues.
func (k *Keyring) Messages() Seal { return Seal{k, forMessages} }

// Pages returns the seal of page tokens, which say where the next page of a list begins, so that a list goes on
// only where a server said so.
func (k *Keyring) Pages() Seal { return Seal{k, forPages} }

// Leases returns the seal of lease proofs. A worker gets the proof with its lease and shows it to give the
// lease up: the worker's id does not suffice, because logs and task rows have it. Every server of an installation
// can check a proof, and none has to store it.
func (k *Keyring) Leases() Seal { return Seal{k, forLeases} }

// Callbacks returns the seal of tokens with which the receiver of a call reports how the attempt ended. Whoever
// has a token may do that and nothing else, at every server of an installation, and none has to store it.
func (k *Keyring) Callbacks() Seal { return Seal{k, forCallbacks} }

// Seal returns the seal of a body about a subject, which has no zero byte, followed by the body, which is the
// concatenation of its parts.
func (s Seal) Seal(subject string, parts ...[]byte) []byte {
	size := SealBytes
	for _, part := range parts {
		size += len(part)
	}
	key, sealed := s.ring.seals(), make([]byte, SealBytes, size)
	for _, part := range parts {
		sealed = append(sealed, part...)
	}
	var sum [macBytes]byte
	sealed[0] = key.number
	copy(sealed[1:SealBytes], key.seals[s.purpose].sum(about(subject), sealed[SealBytes:], sum[:0]))
	return sealed
}

// Open returns the body that Seal sealed about a subject. If it was not, Open reads nothing behind the seal
// and returns ErrUnsealed, or ErrKeyGone if the key was rotated out.
func (s Seal) Open(ctx context.Context, subject string, sealed []byte) (body []byte, err error) {
	if len(sealed) < SealBytes {
		return nil, ErrUnsealed
	}
	key, err := s.ring.find(ctx, sealed[0])
	if err != nil {
		return nil, err
	}
	if !key.seals[s.purpose].verify(about(subject), sealed[SealBytes:], sealed[1:SealBytes]) {
		return nil, ErrUnsealed
	}
	if key.idsOnly {
		return nil, keyGone(key.number)
	}
	return sealed[SealBytes:], nil
}

// about returns what is sealed in front of a body. A subject has no zero byte, so that no two pairs of a subject and
// a body have the same seal.
func about(subject string) string { return subject + "\x00" }
