package task

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// The forms of ids that senders issue. The second one begins with the number of the key and the sender.
const (
	inboundTokenPrefix       = "q1" // sealed with the FirstKey of all lambdas
	inboundTokenPrefixSender = "q2"

	inboundHeadBytes   = 16 + 6 + 1 // id, due, length of the lambda's name
	inboundSenderBytes = 1 + 1 + 64 // number of the key, length of the sender's name, name
	inboundBodyMax     = inboundSenderBytes + inboundHeadBytes + 64 + 64
)

// inboundTokenUse is part of what is sealed, so that an id never passes for a message.
const inboundTokenUse = "id\x00"

// InboundToken is the content of the public id of a task that a client sent to the inbound queue itself. Such
// a client knows lambdas by name only, so the server finds the partition.
type InboundToken struct {
	ID       ID
	Due      Instant // whole milliseconds
	Lambda   string  // a name as CheckName allows
	Priority string  // of the lambda; empty for the default
	// Sender is whose inbound key sealed the id; empty: the key of all lambdas.
	Sender string
}

// TaskID returns the id of the task: that of a sender counts for it alone, so that it cannot be the id of a
// task of somebody else.
func (t InboundToken) TaskID() ID {
	if t.Sender == "" {
		return t.ID
	}
	return t.ID.OwnedBy("sender " + t.Sender) // no identity has such a name
}

// IsInboundToken reports whether a public id has a form of senders, whoever made it.
func IsInboundToken(text string) bool {
	return strings.HasPrefix(text, inboundTokenPrefix) || strings.HasPrefix(text, inboundTokenPrefixSender)
}

// Seal returns the public id of a task; the sender is that of the key. It returns ErrInvalid for names that
// CheckName refuses (the priority may be empty) and for due times before 1970 or after the year 10889.
func (s *InboundSealer) Seal(t InboundToken) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	key, prefix := s.current(), inboundTokenPrefix
	raw := make([]byte, 0, inboundBodyMax+tokenMACBytes)
	if key.isNamed() {
		prefix, raw = inboundTokenPrefixSender, key.appendName(raw)
	}
	raw = append(raw, t.ID[:]...)
	ms := uint64(t.Due.Millis())
	raw = append(raw, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
	raw = append(raw, byte(len(t.Lambda)))
	raw = append(append(raw, t.Lambda...), t.Priority...)
	raw = append(raw, key.macs.sum(inboundTokenUse, raw, nil)[:tokenMACBytes]...)
	return prefix + base64.RawURLEncoding.EncodeToString(raw), nil
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

// Open reads a public id. It returns ErrBadID, and no reason, for anything that was not sealed with a key of
// the ring, or of one of its senders. An id stays valid when its sender is revoked.
func (s *InboundSealer) Open(ctx context.Context, text string) (InboundToken, error) {
	raw, isFirst := decodeToken(inboundTokenPrefix, text)
	number, sender, n := uint8(FirstKey), "", 0
	if !isFirst {
		var ok bool
		if raw, ok = decodeToken(inboundTokenPrefixSender, text); !ok {
			return InboundToken{}, ErrBadID
		}
		if number, sender, n, ok = inboundName(raw); !ok {
			return InboundToken{}, ErrBadID
		}
	}
	if len(raw) < n+inboundHeadBytes+tokenMACBytes {
		return InboundToken{}, ErrBadID
	}
	key, _, err := s.find(ctx, number, sender)
	mac := len(raw) - tokenMACBytes
	if err != nil || !key.macs.verify(inboundTokenUse, raw[:mac], raw[mac:]) {
		return InboundToken{}, ErrBadID
	}
	body := raw[n:mac]
	names, length := body[inboundHeadBytes:], int(body[inboundHeadBytes-1])
	if length > len(names) {
		return InboundToken{}, ErrBadID
	}
	t := InboundToken{Lambda: string(names[:length]), Priority: string(names[length:]), Sender: sender}
	copy(t.ID[:], body)
	t.Due = FromMillis(int64(binary.BigEndian.Uint64(append([]byte{0, 0}, body[16:22]...))))
	if t.check() != nil { // sealed with the key by other code
		return InboundToken{}, ErrBadID
	}
	return t, nil
}
