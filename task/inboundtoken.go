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

	// InboundMACBytes is the length of what InboundSealer.Sum returns.
	InboundMACBytes = 16
)

// What is sealed with the inbound key begins with what it is, so that one thing never passes for another.
const (
	inboundTokenUse   = "id\x00"
	inboundMessageUse = "message\x00"
)

// InboundToken is what the public id of a task says that was sent straight to the inbound buffer. Who sends
// there knows lambdas by name only, so the server finds the partition: the lambda's Ref, the number of the
// priority, and the shard of the id.
type InboundToken struct {
	ID       ID
	Due      Instant // whole milliseconds
	Lambda   string  // a name as CheckName allows
	Priority string  // of the lambda; empty for the default
}

// InboundKey derives the key of those who send to the inbound buffer from the secret of public ids. It seals
// ids of the form q1 and messages, and says nothing of the secret.
func InboundKey(secret []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("inbound"))
	return m.Sum(nil)
}

// InboundSealer makes and opens ids of the form q1, and vouches for messages of the inbound buffer.
// It is safe for concurrent use.
type InboundSealer struct{ macs macs }

// NewInboundSealer returns a sealer for an inbound key of TokenKeyBytes.
func NewInboundSealer(key []byte) *InboundSealer { return &InboundSealer{newMACs(key)} }

// IsInboundToken reports whether a public id claims to be of the form q1.
func IsInboundToken(text string) bool { return strings.HasPrefix(text, inboundTokenPrefix) }

// Seal returns the public id of a task. It refuses names that CheckName refuses (the priority may be empty)
// and a due time that is no whole millisecond from 1970 to the year 10889, with ErrInvalid.
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

// Open reads a public id. It returns ErrBadID for anything that this key did not seal, without saying what
// was wrong with it.
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
	if t.check() != nil { // sealed by a holder of the key with code of its own
		return InboundToken{}, ErrBadID
	}
	return t, nil
}

// Sum is the seal of a message of the inbound buffer: InboundMACBytes.
func (s *InboundSealer) Sum(message []byte) []byte {
	return s.macs.sum(inboundMessageUse, message, nil)[:InboundMACBytes]
}

// Vouches reports whether seal is the Sum of the message.
func (s *InboundSealer) Vouches(message, seal []byte) bool {
	return subtle.ConstantTimeCompare(s.Sum(message), seal) == 1
}
