package task

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
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
type MessageSealer struct {
	id   byte
	macs macs
}

// NewMessageSealer derives a sealer from the secret of public ids, which it does not reveal. id is the number
// of that secret.
func NewMessageSealer(id byte, secret []byte) *MessageSealer {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("queue"))
	return &MessageSealer{id: id, macs: newMACs(m.Sum(nil))}
}

// Seal writes the seal of sealed[MessageSealBytes:], as a message of the queue, to the bytes before.
func (s *MessageSealer) Seal(queue string, sealed []byte) {
	sealed[0] = s.id
	copy(sealed[messageKeyIDBytes:MessageSealBytes], s.mac(queue, sealed))
}

// Open returns the message that was sealed for the queue. If it was not, Open returns ErrUnsealed and reads
// nothing behind the seal.
func (s *MessageSealer) Open(queue string, sealed []byte) (message []byte, err error) {
	if len(sealed) < MessageSealBytes || sealed[0] != s.id {
		return nil, ErrUnsealed
	}
	if subtle.ConstantTimeCompare(s.mac(queue, sealed), sealed[messageKeyIDBytes:MessageSealBytes]) != 1 {
		return nil, ErrUnsealed
	}
	return sealed[MessageSealBytes:], nil
}

// mac returns the MAC of a message for a queue. The name of a queue has no zero byte, so that no two pairs of
// a queue and a message have the same one.
func (s *MessageSealer) mac(queue string, sealed []byte) []byte {
	var sum [sha256.Size]byte
	return s.macs.sum(queue+"\x00", sealed[MessageSealBytes:], sum[:0])[:MessageSealBytes-messageKeyIDBytes]
}
