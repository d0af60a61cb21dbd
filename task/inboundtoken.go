package task

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

const (
	inboundTokenPrefix = "q1"
	inboundHeadBytes   = 16 + 6 + 1 // id, due, length of the lambda's name
	inboundBodyMax     = inboundHeadBytes + 64 + 64

	// InboundMACBytes is the length of the seal that InboundSealer.Sum returns.
	InboundMACBytes = 16
)

// The use of the key is part of what is sealed, so that an id never passes for a message.
const (
	inboundTokenUse   = "id\x00"
	inboundMessageUse = "message\x00"
)

// InboundToken is the content of the public id of a task that a client sent to the inbound queue itself. Such
// a client knows lambdas by name only, so the server finds the partition.
type InboundToken struct {
	ID       ID
	Due      Instant // whole milliseconds
	Lambda   string  // a name as CheckName allows
	Priority string  // of the lambda; empty for the default
}

// InboundKey derives the key for sending to the inbound queue from the secret of public ids. It seals ids of
// the form q1 and messages, and does not reveal the secret.
func InboundKey(secret []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("inbound"))
	return m.Sum(nil)
}

// InboundSealer seals and opens ids of the form q1, and seals messages of the inbound queue. It is safe for
// concurrent use.
type InboundSealer struct{ macs macs }

// NewInboundSealer returns a sealer for an inbound key of TokenKeyBytes.
func NewInboundSealer(key []byte) *InboundSealer { return &InboundSealer{newMACs(key)} }

// IsInboundToken reports whether a public id has the form q1, whoever made it.
func IsInboundToken(text string) bool { return strings.HasPrefix(text, inboundTokenPrefix) }

// Seal returns the public id of a task. It returns ErrInvalid for names that CheckName refuses (the priority
// may be empty) and for due times before 1970 or after the year 10889.
func (s *InboundSealer) Seal(t InboundToken) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	raw := make([]byte, 0, inboundBodyMax+sha256.Size)
	raw = append(raw, t.ID[:]...)
	ms := uint64(t.Due.Millis())
	raw = append(raw, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
	raw = append(raw, byte(len(t.Lambda)))
	raw = append(append(raw, t.Lambda...), t.Priority...)
	var sum [sha256.Size]byte
	raw = append(raw, s.macs.sum(inboundTokenUse, raw, sum[:0])[:tokenMACBytes]...)
	return inboundTokenPrefix + base64.RawURLEncoding.EncodeToString(raw), nil
}

func (t *InboundToken) check() error {
	if err := CheckName("lambda", t.Lambda); err != nil {
		return err
	}
	if t.Priority != "" {
		if err := CheckName("priority", t.Priority); err != nil {
			return err
		}
	}
	if ms := t.Due.Millis(); ms < 1 || ms >= 1<<48 {
		return fmt.Errorf("%w due time %d: want whole milliseconds from 1970 to the year 10889", ErrInvalid, t.Due)
	}
	return nil
}

// Open reads a public id. It returns ErrBadID, and no reason, for anything that was not sealed with this key.
func (s *InboundSealer) Open(text string) (InboundToken, error) {
	body, sealed := s.macs.open(inboundTokenPrefix, inboundTokenUse, text)
	if !sealed || len(body) < inboundHeadBytes {
		return InboundToken{}, ErrBadID
	}
	names, n := body[inboundHeadBytes:], int(body[inboundHeadBytes-1])
	if n > len(names) {
		return InboundToken{}, ErrBadID
	}
	t := InboundToken{Lambda: string(names[:n]), Priority: string(names[n:])}
	copy(t.ID[:], body)
	t.Due = FromMillis(int64(binary.BigEndian.Uint64(append([]byte{0, 0}, body[16:22]...))))
	if t.check() != nil { // sealed with the key by other code
		return InboundToken{}, ErrBadID
	}
	return t, nil
}

// Sum returns the seal of a message of the inbound queue, which has InboundMACBytes.
func (s *InboundSealer) Sum(message []byte) []byte {
	return s.macs.sum(inboundMessageUse, message, nil)[:InboundMACBytes]
}

// Verify reports whether seal is the Sum of the message.
func (s *InboundSealer) Verify(message, seal []byte) bool {
	return subtle.ConstantTimeCompare(s.Sum(message), seal) == 1
}
