package task

import (
	"context"
	"crypto/sha256"
	"errors"
)

// ErrUnsealed says that a message was not sealed with a key of this installation for the queue it came from,
// or was changed since.
var ErrUnsealed = errors.New("not sealed by this installation for this queue")

const (
	// messageKeyIDBytes is the length of the number of the key, with which a seal begins.
	messageKeyIDBytes = 1
	// MessageSealBytes is the length of the seal in front of a message.
	MessageSealBytes = messageKeyIDBytes + 16
)

// MessageSealer seals the messages of lambda queues, so that a receiver believes only what a server of the
// same installation sent to that queue. The seal does not hide the content. It is safe for concurrent use.
type MessageSealer struct{ ring *Keyring }

// NewMessageSealer returns a sealer with one secret and its number.
func NewMessageSealer(number byte, secret []byte) *MessageSealer {
	return oneKey(number, secret).Messages()
}

// Seal writes the seal of sealed[MessageSealBytes:], as a message of the queue, to the bytes before.
func (s *MessageSealer) Seal(queue string, sealed []byte) {
	key := s.ring.seals()
	var sum [sha256.Size]byte
	sealed[0] = key.number
	copy(sealed[messageKeyIDBytes:MessageSealBytes], key.messages.sum(messageUse(queue), sealed[MessageSealBytes:], sum[:0]))
}

// Open returns the message that was sealed for the queue. If it was not, Open reads nothing behind the seal
// and returns ErrUnsealed, or ErrKeyGone if the key was rotated out.
func (s *MessageSealer) Open(ctx context.Context, queue string, sealed []byte) (message []byte, err error) {
	if len(sealed) < MessageSealBytes {
		return nil, ErrUnsealed
	}
	key, err := s.ring.find(ctx, sealed[0])
	if err != nil {
		return nil, err
	}
	if !key.messages.verify(messageUse(queue), sealed[MessageSealBytes:], sealed[messageKeyIDBytes:MessageSealBytes]) {
		return nil, ErrUnsealed
	}
	if key.idsOnly {
		return nil, keyGone(key.number)
	}
	return sealed[MessageSealBytes:], nil
}

// messageUse is what is sealed in front of a message for a queue. The name of a queue has no zero byte, so
// that no two pairs of a queue and a message have the same seal.
func messageUse(queue string) string { return queue + "\x00" }
