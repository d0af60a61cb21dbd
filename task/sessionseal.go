package task

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
)

const (
	sessionForm = 1 // the first byte
	sessionHead = 2 // form and number of the key
)

// SessionSealer encrypts and authenticates what browsers keep for the servers, so that each server of an
// installation can read it and nobody else can. It is safe for concurrent use.
type SessionSealer struct{ ring *Keyring }

// Sessions returns the sealer of what browsers keep.
func (k *Keyring) Sessions() *SessionSealer { return &SessionSealer{k} }

// Seal encrypts a text for one use, which is not part of it and has to be named to open it.
func (s *SessionSealer) Seal(use string, text []byte) []byte {
	key := s.ring.seals()
	sealed := append(make([]byte, 0, sessionHead+12+len(text)+16), sessionForm, key.number)
	nonce := make([]byte, key.sessions.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	sealed = append(sealed, nonce...)
	return key.sessions.Seal(sealed, nonce, text, associated(sealed[:sessionHead], use))
}

var errSession = fmt.Errorf("%w: it was not sealed for this use by this installation", ErrUnsealed)

// Open returns what was sealed for this use. Its errors are ErrUnsealed and ErrKeyGone.
func (s *SessionSealer) Open(ctx context.Context, use string, sealed []byte) ([]byte, error) {
	if len(sealed) < sessionHead || sealed[0] != sessionForm {
		return nil, errSession
	}
	key, err := s.ring.find(ctx, sealed[1])
	if err != nil {
		return nil, err
	}
	if key.idsOnly {
		return nil, keyGone(key.number)
	}
	head, rest := sealed[:sessionHead], sealed[sessionHead:]
	size := key.sessions.NonceSize()
	if len(rest) < size {
		return nil, errSession
	}
	text, err := key.sessions.Open(nil, rest[:size], rest[size:], associated(head, use))
	if err != nil {
		return nil, errors.Join(errSession, err)
	}
	return text, nil
}

func associated(head []byte, use string) []byte { return append(append([]byte{}, head...), use...) }

// newSessionCipher returns the cipher for a key of TokenKeyBytes.
func newSessionCipher(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // another length than derive gives
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only for a block of another size than that of AES
	}
	return aead
}
