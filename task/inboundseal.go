package task

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// InboundMACBytes is the length of the MAC in the seal of a message of the inbound queue.
	InboundMACBytes = 16

	inboundMessageUse = "message\x00" // part of what is sealed, so that a message never passes for an id
	// inboundMark begins a message whose seal names its key and its sender. Other messages are base64, which
	// has no dot, and sealed with the FirstKey of all lambdas.
	inboundMark = "i2."
	// SenderSaltBytes is the length of the salt of an InboundSender.
	SenderSaltBytes = 16
	// SenderLambdasMax is how many patterns an InboundSender has at most.
	SenderLambdasMax = 100
)

// errInboundKey is ErrInvalid for the text of an inbound key. It has no part of the text, which may be one.
var errInboundKey = fmt.Errorf("%w inbound key: want what `kinesin inbound key` prints", ErrInvalid)

// InboundSender is who has an inbound key that is good for some lambdas only.
type InboundSender struct {
	Name    string // as CheckName allows
	Salt    []byte // SenderSaltBytes, so that a sender of the same name gets another key later
	Lambdas []string
	Revoked bool
}

// Allows reports whether one of the patterns matches a lambda. nil allows all.
func (s *InboundSender) Allows(lambda string) bool {
	if s == nil {
		return true
	}
	return slices.ContainsFunc(s.Lambdas, func(pattern string) bool {
		matched, err := path.Match(pattern, lambda)
		return err == nil && matched
	})
}

// CheckPattern refuses what is no pattern of lambdas: a name in which '*' stands for any characters.
func CheckPattern(pattern string) error {
	if len(pattern) > 64 || CheckName("lambda", strings.ReplaceAll(pattern, "*", "x")) != nil {
		return fmt.Errorf("%w pattern of lambdas %q: want 1 to 64 characters of a-z, A-Z, 0-9, '_', '-' and '*', which stands for any characters",
			ErrInvalid, pattern)
	}
	return nil
}

// Validate checks every setting and says for each wrong one what is allowed.
func (s *InboundSender) Validate() error {
	errs := []error{CheckName("sender", s.Name)}
	if n := len(s.Lambdas); n == 0 || n > SenderLambdasMax {
		errs = append(errs, fmt.Errorf("%w sender: want 1 to %d patterns of lambdas, have %d", ErrInvalid, SenderLambdasMax, n))
	}
	for _, pattern := range s.Lambdas {
		errs = append(errs, CheckPattern(pattern))
	}
	if len(s.Salt) != SenderSaltBytes {
		errs = append(errs, fmt.Errorf("%w sender: salt of %d bytes, want %d", ErrInvalid, len(s.Salt), SenderSaltBytes))
	}
	return errors.Join(errs...)
}

// InboundKey derives the key for sending to the inbound queue from a secret of the ring, which it does not
// reveal.
func InboundKey(secret []byte) []byte { return derive(secret, "inbound") }

// inboundKey is a key that seals ids and messages of senders.
type inboundKey struct {
	number uint8
	sender string // empty: of all lambdas
	raw    []byte
	macs   macs
	// idsOnly is that of the ring's key.
	idsOnly bool
}

// isNamed reports whether what the key seals names the key and its sender.
func (k *inboundKey) isNamed() bool { return k.number > FirstKey || k.sender != "" }

// appendName appends the number of the key and the name of its sender.
func (k *inboundKey) appendName(dst []byte) []byte {
	return append(append(dst, k.number, byte(len(k.sender))), k.sender...)
}

// inboundName reads what appendName wrote, and its length.
func inboundName(raw []byte) (number uint8, sender string, n int, ok bool) {
	if len(raw) < 2 || len(raw) < 2+int(raw[1]) {
		return 0, "", 0, false
	}
	n = 2 + int(raw[1])
	number, sender = raw[0], string(raw[2:n])
	named := sender != "" && CheckName("sender", sender) == nil
	return number, sender, n, number >= FirstKey && (named || sender == "" && number > FirstKey)
}

// text returns what `kinesin inbound key` prints.
func (k *inboundKey) text() string {
	text := base64.RawURLEncoding.EncodeToString(k.raw)
	switch {
	case k.sender != "":
		return strconv.Itoa(int(k.number)) + "." + k.sender + "." + text
	case k.isNamed():
		return strconv.Itoa(int(k.number)) + "." + text
	}
	return text
}

// InboundSealer seals and opens messages of the inbound queue, and ids that their senders issue. It has the
// keys of a ring, or one key of a sender. It is safe for concurrent use.
type InboundSealer struct {
	ring *Keyring // nil: only has the one key
	only inboundKey
}

// NewInboundSealer returns a sealer with the inbound key of FirstKey, for all lambdas.
func NewInboundSealer(key []byte) *InboundSealer {
	return &InboundSealer{only: inboundKey{number: FirstKey, raw: key, macs: newMACs(key)}}
}

// ParseInboundKey returns the sealer of a sender with the key that `kinesin inbound key` prints. It returns
// ErrInvalid for anything else.
func ParseInboundKey(text string) (*InboundSealer, error) {
	var k inboundKey
	parts, number := strings.Split(text, "."), uint64(FirstKey)
	var err error
	if len(parts) > 1 {
		number, err = strconv.ParseUint(parts[0], 10, 8)
	}
	switch {
	case err != nil || number < FirstKey || len(parts) > 3:
		return nil, errInboundKey
	case len(parts) == 3 && CheckName("sender", parts[1]) != nil:
		return nil, errInboundKey
	case len(parts) == 3:
		k.sender = parts[1]
	}
	k.number = uint8(number)
	if k.raw, err = base64.RawURLEncoding.Strict().DecodeString(parts[len(parts)-1]); err != nil || len(k.raw) != TokenKeyBytes {
		return nil, errInboundKey
	}
	k.macs = newMACs(k.raw)
	return &InboundSealer{only: k}, nil
}

// KeyText returns the key that seals, as ParseInboundKey reads it. It is a secret.
func (s *InboundSealer) KeyText() string {
	key := s.current()
	return key.text()
}

// SenderKeyText returns the key of a sender by the key of the ring that seals. It is a secret.
func (k *Keyring) SenderKeyText(sender *InboundSender) string {
	key := k.seals().inboundKeyOf(sender)
	return key.text()
}

// Sender returns whose key seals; empty: the key of all lambdas.
func (s *InboundSealer) Sender() string { return s.only.sender }

// inboundKeyOf returns the key of a sender, or that of all lambdas for nil.
func (r *ringKey) inboundKeyOf(sender *InboundSender) inboundKey {
	if sender == nil {
		return inboundKey{number: r.number, raw: r.inbound, macs: r.sealer, idsOnly: r.idsOnly}
	}
	raw := derive(r.secret, "inbound sender\x00", string(sender.Salt), sender.Name)
	return inboundKey{r.number, sender.Name, raw, newMACs(raw), r.idsOnly}
}

func (s *InboundSealer) current() inboundKey {
	if s.ring == nil {
		return s.only
	}
	return s.ring.seals().inboundKeyOf(nil)
}

// find returns the key of a sender, and the sender; nil if the key is that of all lambdas.
func (s *InboundSealer) find(ctx context.Context, number uint8, name string) (inboundKey, *InboundSender, error) {
	if s.ring == nil {
		if number != s.only.number || name != s.only.sender {
			return inboundKey{}, nil, ErrUnsealed
		}
		return s.only, nil, nil
	}
	key, err := s.ring.find(ctx, number)
	if err != nil {
		return inboundKey{}, nil, err
	}
	if name == "" {
		return key.inboundKeyOf(nil), nil, nil
	}
	sender := s.ring.sender(ctx, name)
	if sender == nil {
		return inboundKey{}, nil, fmt.Errorf("%w: there is no sender %s", ErrUnsealed, name)
	}
	return key.inboundKeyOf(sender), sender, nil
}

// SealMessage returns the body of a message of the inbound queue, which is text.
func (s *InboundSealer) SealMessage(message []byte) string {
	key := s.current()
	head, encoding, mark := []byte(nil), base64.StdEncoding, ""
	if key.isNamed() {
		head, encoding, mark = key.appendName(nil), base64.RawURLEncoding, inboundMark
	}
	sealed := make([]byte, 0, len(head)+InboundMACBytes+len(message))
	sealed = append(sealed, head...)
	sealed = append(sealed, key.macs.sum(inboundMessageUse+string(head), message, nil)[:InboundMACBytes]...)
	return mark + encoding.EncodeToString(append(sealed, message...))
}

// OpenMessage returns the message in a body, and who sealed it: a sender, or nil if that was a server or has
// the key of all lambdas. It returns ErrUnsealed, ErrKeyGone or ErrSenderRevoked for a body that no key
// vouches for, and reads nothing behind the seal.
func (s *InboundSealer) OpenMessage(ctx context.Context, body string) (message []byte, from *InboundSender, err error) {
	number, name, n := uint8(FirstKey), "", 0
	text, named := strings.CutPrefix(body, inboundMark)
	var raw []byte
	if named {
		raw, err = base64.RawURLEncoding.Strict().DecodeString(text)
	} else {
		raw, err = base64.StdEncoding.DecodeString(body)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: want base64: %w", ErrUnsealed, err)
	}
	if named {
		var ok bool
		if number, name, n, ok = inboundName(raw); !ok {
			return nil, nil, fmt.Errorf("%w: want the number of a key and a sender", ErrUnsealed)
		}
	}
	if len(raw) <= n+InboundMACBytes {
		return nil, nil, fmt.Errorf("%w: %d bytes, want a seal of %d and tasks", ErrUnsealed, len(raw), n+InboundMACBytes)
	}
	key, from, err := s.find(ctx, number, name)
	if err != nil {
		return nil, nil, err
	}
	mac := raw[n : n+InboundMACBytes]
	message = raw[n+InboundMACBytes:]
	switch {
	case !key.macs.verify(inboundMessageUse+string(raw[:n]), message, mac):
		return nil, nil, ErrUnsealed
	case key.idsOnly:
		return nil, nil, keyGone(number)
	case from != nil && from.Revoked:
		return nil, nil, fmt.Errorf("%w: %s", ErrSenderRevoked, name)
	}
	return message, from, nil
}
