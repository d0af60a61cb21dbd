package task_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/task"
)

// Seals that the release before the key ring made with this secret.
const (
	goldenSecret  = "0123456789abcdef0123456789abcdef"
	goldenID      = "k1AZLwwSo7fE2OX2BxgpOktQGLz-VoewAAAAcCAgGFAMg2yMiaU_chC4j7"
	goldenDirect  = "k1AZLwwSo7fE2OX2BxgpOktQGLz-VoewAAAAcCggFTesrv8KIzrRJ13xcj"
	goldenInbound = "q1AZLwwSo7fE2OX2BxgpOktQGLz-VoewRtYWlsaGlnaBIhnkPY_CwFL2U4JIA"
	goldenBody    = "srIYRsftPd+Y1tHqnd4/zmEgbWVzc2FnZQ==" // of the inbound queue: "a message"
	goldenMessage = "01bbf63811d97327d87aebcee74d39f7df61206d657373616765"
	goldenKey     = "iyjCKnJ860lWCAy2jkgt9eW4dTQUUpoV6OXZARKKqNI" // what `kinesin inbound key` printed
)

var goldenToken = task.Token{
	ID:  task.ID{0x01, 0x92, 0xf0, 0xc1, 0x2a, 0x3b, 0x7c, 0x4d, 0x8e, 0x5f, 0x60, 0x71, 0x82, 0x93, 0xa4, 0xb5},
	Due: task.FromMillis(1_700_000_000_123), Partition: task.Partition{Lambda: 7, Priority: 2, Shard: 513},
}

// ringOf returns a ring with keys of these numbers, of which the first has goldenSecret, and the last seals.
func ringOf(tb testing.TB, numbers ...uint8) *task.Keyring {
	tb.Helper()
	ring, err := task.NewKeyring(contentOf(numbers...))
	if err != nil {
		tb.Fatal(err)
	}
	return ring
}

func contentOf(numbers ...uint8) task.Ring {
	r := task.Ring{Seals: numbers[len(numbers)-1]}
	for _, n := range numbers {
		secret := bytes.Repeat([]byte{n}, task.TokenKeyBytes)
		if n == task.FirstKey {
			secret = []byte(goldenSecret)
		}
		r.Keys = append(r.Keys, task.Key{Number: n, Secret: secret})
	}
	return r
}

// Everything that the first key ever sealed is what it was, and stays valid after a rotation.
func TestWhatTheReleaseBeforeSealed(t *testing.T) {
	first := ringOf(t, 1)
	if got := first.IDs().Seal(goldenToken); got != goldenID {
		t.Errorf("%q", got)
	}
	if got := first.Inbound().SealMessage([]byte("a message")); got != goldenBody {
		t.Errorf("%q", got)
	}
	if got := first.Inbound().KeyText(); got != goldenKey {
		t.Errorf("%q", got)
	}
	message := first.Messages().Seal("prod-mail", []byte("a "), []byte("message"))
	if hex.EncodeToString(message) != goldenMessage {
		t.Errorf("%x", message)
	}
	direct := goldenToken
	direct.Direct = true
	inbound := task.InboundToken{ID: goldenToken.ID, Due: goldenToken.Due, Lambda: "mail", Priority: "high"}
	for _, numbers := range [][]uint8{{1}, {1, 2}, {1, 2, 3, 200}} {
		ring := ringOf(t, numbers...)
		if got, err := ring.IDs().Open(t.Context(), goldenID); err != nil || got != goldenToken {
			t.Errorf("%v: %+v, %v", numbers, got, err)
		}
		if got, err := ring.IDs().Open(t.Context(), goldenDirect); err != nil || got != direct {
			t.Errorf("%v: %+v, %v", numbers, got, err)
		}
		if got, err := ring.Inbound().Open(t.Context(), goldenInbound); err != nil || got != inbound {
			t.Errorf("%v: %+v, %v", numbers, got, err)
		}
		if got, from, err := ring.Inbound().OpenMessage(t.Context(), goldenBody); err != nil || from != nil || string(got) != "a message" {
			t.Errorf("%v: %q, %v, %v", numbers, got, from, err)
		}
		if got, err := ring.Messages().Open(t.Context(), "prod-mail", message); err != nil || string(got) != "a message" {
			t.Errorf("%v: %q, %v", numbers, got, err)
		}
	}
}

// sealed is something of each kind, sealed with a ring, and whether another ring opens it.
type sealed struct {
	id, inbound, body string
	proof, message    []byte
	page              []byte
}

func sealAll(tb testing.TB, ring *task.Keyring) sealed {
	tb.Helper()
	s := sealed{id: ring.IDs().Seal(goldenToken), proof: ring.Leases().Seal("w"), body: ring.Inbound().SealMessage([]byte("m")), page: ring.Pages().Seal("l", []byte("{}"))}
	s.inbound = sealInbound(tb, ring.Inbound(), task.InboundToken{ID: task.ID{1}, Due: start, Lambda: "mail"})
	s.message = ring.Messages().Seal("q", []byte("m"))
	return s
}

func (s *sealed) openedBy(ring *task.Keyring) (ids, messages []error) {
	_, err := ring.IDs().Open(context.Background(), s.id)
	_, inboundErr := ring.Inbound().Open(context.Background(), s.inbound)
	_, _, bodyErr := ring.Inbound().OpenMessage(context.Background(), s.body)
	_, messageErr := ring.Messages().Open(context.Background(), "q", s.message)
	return []error{err, inboundErr}, []error{bodyErr, messageErr}
}

func (s *sealed) restOpenedBy(ring *task.Keyring) (proof, page bool) {
	_, pageErr := ring.Pages().Open(context.Background(), "l", s.page)
	_, proofErr := ring.Leases().Open(context.Background(), "w", s.proof)
	return proofErr == nil, pageErr == nil
}

func TestEveryKeyOfARingVerifies(t *testing.T) {
	ring := ringOf(t, 1, 2, 7, 255)
	for _, numbers := range [][]uint8{{1}, {1, 2}, {1, 2, 7}, {255}} {
		s := sealAll(t, ringOf(t, numbers...))
		ids, messages := s.openedBy(ring)
		proof, page := s.restOpenedBy(ring)
		if err := errors.Join(slices.Concat(ids, messages)...); err != nil || !proof || !page {
			t.Errorf("sealed with %v: %v, %v, %v", numbers, err, proof, page)
		}
	}
	// A removed key, or one that never was, verifies nothing; messages say which of the two it is.
	for number, want := range map[uint8]error{1: task.ErrKeyGone, 7: task.ErrKeyGone, 9: task.ErrUnsealed} {
		s, other := sealAll(t, ringOf(t, number)), ringOf(t, 2, 8)
		ids, messages := s.openedBy(other)
		for _, err := range ids {
			if !errors.Is(err, task.ErrBadID) || err.Error() != task.ErrBadID.Error() {
				t.Errorf("key %d: %v", number, err)
			}
		}
		for _, err := range messages {
			if !errors.Is(err, want) {
				t.Errorf("key %d: %v, want %v", number, err, want)
			}
		}
		if proof, page := s.restOpenedBy(other); proof || page {
			t.Errorf("key %d: %v, %v", number, proof, page)
		}
	}
	// One that was retired long ago verifies ids only.
	content := contentOf(1, 2, 3)
	content.Keys[0].IDsOnly, content.Keys[1].IDsOnly = true, true
	old, err := task.NewKeyring(content)
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []uint8{1, 2} {
		s := sealAll(t, ringOf(t, number))
		ids, messages := s.openedBy(old)
		if err := errors.Join(ids...); err != nil {
			t.Errorf("key %d: %v", number, err)
		}
		for _, err := range messages {
			if !errors.Is(err, task.ErrKeyGone) {
				t.Errorf("key %d: %v", number, err)
			}
		}
		if proof, page := s.restOpenedBy(old); proof || page {
			t.Errorf("key %d: %v, %v", number, proof, page)
		}
	}
}

// No change of an id by a later key opens, and none of its parts.
func TestForgedIDsOfALaterKeyAreRefused(t *testing.T) {
	ring := ringOf(t, 1, 2, 3)
	rapid.Check(t, func(t *rapid.T) {
		want := drawToken(t)
		id := ring.IDs().Seal(want)
		if got, err := ring.IDs().Open(t.Context(), id); err != nil || got != want || len(id) != 60 || !strings.HasPrefix(id, "k2") {
			t.Fatalf("%q opens as %+v, %v", id, got, err)
		}
		at := rapid.IntRange(0, len(id)-1).Draw(t, "at")
		with := rapid.SampledFrom([]byte("AZaz09-_k123+ ")).Draw(t, "with")
		forged := id[:at] + string(with) + id[at+1:]
		for _, text := range []string{forged, id[:at], id + "A", "k1" + id[2:], "q2" + id[2:]} {
			if _, err := ring.IDs().Open(t.Context(), text); text != id && !errors.Is(err, task.ErrBadID) {
				t.Fatalf("%q opens: %v", text, err)
			}
		}
		for number := range 256 {
			raw, err := base64.RawURLEncoding.DecodeString(id[2:])
			if err != nil {
				t.Fatal(err)
			}
			raw[29] = byte(number)
			if _, err := ring.IDs().Open(t.Context(), "k2"+base64.RawURLEncoding.EncodeToString(raw)); (err == nil) != (number == 3) {
				t.Fatalf("as of key %d: %v", number, err)
			}
		}
	})
}

// TestASealIsForOnePurposeAndSubject opens nothing that was sealed for another purpose, about another subject, by
// another ring, or that was changed since.
func TestASealIsForOnePurposeAndSubject(t *testing.T) {
	ring, other := ringOf(t, 1, 2), ringOf(t, 1, 3)
	seals := func(r *task.Keyring) []task.Seal {
		return []task.Seal{r.Messages(), r.Pages(), r.Leases(), r.Callbacks()}
	}
	for i, seal := range seals(ring) {
		for _, body := range []string{`{"a":1}`, ""} {
			sealed := seal.Seal("tasks 1", []byte(body))
			if got, err := seal.Open(t.Context(), "tasks 1", sealed); err != nil || string(got) != body || len(sealed) != task.SealBytes+len(body) {
				t.Errorf("%d: %q, %v", i, got, err)
			}
			refused := func(what string, s task.Seal, subject string, sealed []byte) {
				if _, err := s.Open(t.Context(), subject, sealed); !errors.Is(err, task.ErrUnsealed) && !errors.Is(err, task.ErrKeyGone) {
					t.Errorf("%d, %q: opened %s: %v", i, body, what, err)
				}
			}
			refused("about another subject", seal, "tasks 2", sealed)
			refused("by another ring", seals(other)[i], "tasks 1", sealed)
			refused("for another purpose", seals(ring)[(i+1)%3], "tasks 1", sealed)
			refused("with more behind it", seal, "tasks 1", append(bytes.Clone(sealed), 0))
			refused("without a seal", seal, "tasks 1", []byte(body))
			for at := range sealed {
				changed := bytes.Clone(sealed)
				changed[at] ^= 1
				refused("changed", seal, "tasks 1", changed)
				refused("cut", seal, "tasks 1", sealed[:at])
			}
		}
	}
}

func senderOf(name string, lambdas ...string) task.InboundSender {
	return task.InboundSender{Name: name, Salt: bytes.Repeat([]byte{5}, task.SenderSaltBytes), Lambdas: lambdas}
}

func TestASenderSealsWithItsKeyOnly(t *testing.T) {
	content := contentOf(1, 2)
	shop, vendor := senderOf("shop", "mail-*", "invoice"), senderOf("vendor", "*")
	content.Senders = []task.InboundSender{shop, vendor}
	for _, seals := range []uint8{1, 2} {
		content.Seals = seals
		ring, err := task.NewKeyring(content)
		if err != nil {
			t.Fatal(err)
		}
		text := ring.SenderKeyText(&shop)
		sender, err := task.ParseInboundKey(text)
		if err != nil || sender.Sender() != "shop" || sender.KeyText() != text {
			t.Fatalf("%v, %+v", err, sender)
		}
		if text == ring.SenderKeyText(&vendor) || text == ring.Inbound().KeyText() {
			t.Error("two senders have one key")
		}
		id := sealInbound(t, sender, task.InboundToken{ID: task.ID{1}, Due: start, Lambda: "invoice"})
		if got, err := ring.Inbound().Open(t.Context(), id); err != nil || got.Sender != "shop" || got.Lambda != "invoice" || !task.IsInboundToken(id) {
			t.Errorf("%+v, %v", got, err)
		}
		body := sender.SealMessage([]byte("m"))
		got, from, err := ring.Inbound().OpenMessage(t.Context(), body)
		if err != nil || string(got) != "m" || from == nil || from.Name != "shop" {
			t.Fatalf("%q, %v, %v", got, from, err)
		}
		for lambda, want := range map[string]bool{"mail-out": true, "mail-": true, "invoice": true, "invoices": false, "mail": false, "xmail-a": false} {
			if from.Allows(lambda) != want {
				t.Errorf("%s: %v", lambda, !want)
			}
		}
		// Its name in the message cannot be another one's.
		raw, err := base64.RawURLEncoding.DecodeString(body[3:])
		if err != nil {
			t.Fatal(err)
		}
		for _, head := range []string{"\x06vendor", "\x00", "\x04none"} {
			forged := slices.Concat([]byte{seals}, []byte(head), raw[2+len("shop"):])
			if _, _, err := ring.Inbound().OpenMessage(t.Context(), "i2."+base64.RawURLEncoding.EncodeToString(forged)); !errors.Is(err, task.ErrUnsealed) {
				t.Errorf("as of %q: %v", head, err)
			}
		}
		revoked := content
		revoked.Senders = slices.Clone(content.Senders)
		revoked.Senders[0].Revoked = true
		if err := ring.Set(revoked); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ring.Inbound().OpenMessage(t.Context(), body); !errors.Is(err, task.ErrSenderRevoked) {
			t.Errorf("a revoked sender's message: %v", err)
		}
		if got, err := ring.Inbound().Open(t.Context(), id); err != nil || got.Sender != "shop" {
			t.Errorf("a revoked sender's id: %+v, %v", got, err)
		}
		again := shop
		again.Salt = bytes.Repeat([]byte{6}, task.SenderSaltBytes)
		if ring.SenderKeyText(&again) == text {
			t.Error("a later sender of the name has the same key")
		}
	}
}

func TestInboundKeysThatCannotBe(t *testing.T) {
	secret := goldenKey
	for _, text := range []string{
		"", "x", secret[1:], secret + "A", secret + "=", "0." + secret, "256." + secret, "-1." + secret, "two." + secret, "." + secret,
		"2..x" + secret, "2.a b." + secret, "2." + strings.Repeat("x", 65) + "." + secret, "2.shop.x." + secret, "2.shop.", strings.Repeat("!", 43),
	} {
		if s, err := task.ParseInboundKey(text); !errors.Is(err, task.ErrInvalid) || s != nil || strings.Contains(err.Error(), secret[1:]) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{secret, "2." + secret, "1.shop." + secret, "255.shop." + secret} {
		if s, err := task.ParseInboundKey(text); err != nil || s.KeyText() != text {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRingsThatCannotBe(t *testing.T) {
	good := task.Key{Number: 2, Secret: make([]byte, task.TokenKeyBytes)}
	old := good
	old.IDsOnly = true
	ring := ringOf(t, 1)
	for name, r := range map[string]task.Ring{
		"none":        {},
		"none seals":  {Keys: []task.Key{good}, Seals: 3},
		"an old one":  {Keys: []task.Key{old}, Seals: 2},
		"twice":       {Keys: []task.Key{good, good}, Seals: 2},
		"number 0":    {Keys: []task.Key{{Number: 0, Secret: good.Secret}}, Seals: 0},
		"short":       {Keys: []task.Key{{Number: 2, Secret: good.Secret[1:]}}, Seals: 2},
		"no secret":   {Keys: []task.Key{{Number: 2}}, Seals: 2},
		"one is long": {Keys: []task.Key{good, {Number: 3, Secret: make([]byte, 33)}}, Seals: 2},
	} {
		if err := ring.Set(r); !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ring.IDs().Open(t.Context(), goldenID); err != nil {
			t.Errorf("%s took effect: %v", name, err)
		}
	}
	for _, pattern := range []string{"", "a b", "[a-z]", "mail-?", "ä*", strings.Repeat("*", 65)} {
		if err := task.CheckPattern(pattern); !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// A key above all that are known may be new; one below is not asked for.
func TestUnknownKeysAreAskedForOnce(t *testing.T) {
	s := sealAll(t, ringOf(t, 5))
	ring, asked := ringOf(t, 1, 3), 0
	ring.Unknown = func(context.Context) { asked++ }
	gone := sealAll(t, ringOf(t, 2))
	if ids, _ := gone.openedBy(ring); ids[0] == nil || asked != 0 {
		t.Errorf("%v, asked %d times for a removed key", ids, asked)
	}
	if ids, _ := s.openedBy(ring); ids[0] == nil || asked == 0 {
		t.Errorf("%v, asked %d times", ids, asked)
	}
	ring.Unknown = func(context.Context) {
		if err := ring.Set(contentOf(1, 3, 5)); err != nil {
			t.Error(err)
		}
	}
	ids, messages := s.openedBy(ring)
	if err := errors.Join(slices.Concat(ids, messages)...); err != nil {
		t.Error(err)
	}
}

func FuzzOpenInboundMessage(f *testing.F) {
	content := contentOf(1, 2)
	content.Senders = []task.InboundSender{senderOf("shop", "*")}
	ring, err := task.NewKeyring(content)
	if err != nil {
		f.Fatal(err)
	}
	sender, err := task.ParseInboundKey(ring.SenderKeyText(&content.Senders[0]))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(goldenBody)
	f.Add(ring.Inbound().SealMessage([]byte("m")))
	f.Add(sender.SealMessage([]byte("m")))
	f.Add("i2.")
	f.Fuzz(func(t *testing.T, body string) {
		var message []byte
		var from *task.InboundSender
		var err error
		alloctest.AtMost(t, uint64(32<<10+4*len(body)), func() { message, from, err = ring.Inbound().OpenMessage(t.Context(), body) })
		if err != nil && (message != nil || from != nil || !errors.Is(err, task.ErrUnsealed) && !errors.Is(err, task.ErrKeyGone)) {
			t.Errorf("%q, %v, %v", message, from, err)
		}
	})
}

// A task has one public id all its life: that of the key that sealed when it was made.
func TestATaskKeepsItsPublicID(t *testing.T) {
	content := contentOf(1, 2, 3)
	for i := range content.Keys {
		content.Keys[i].From = start.Add(time.Duration(i) * time.Hour)
	}
	ring, err := task.NewKeyring(content)
	if err != nil {
		t.Fatal(err)
	}
	for made, want := range map[time.Duration]uint8{-time.Hour: 1, 0: 1, time.Hour - time.Millisecond: 1, time.Hour: 2, 2 * time.Hour: 3, 1000 * time.Hour: 3} {
		at := start.Add(made)
		for what, one := range map[string]task.Task{
			"by its id":      {ID: task.NewID(at, 1, 2), Created: start.Add(9000 * time.Hour)},
			"by its row":     {ID: task.IDOf([]byte("key")), Created: at},
			"due much later": {ID: task.IDOf([]byte("key")), Created: at, Due: start.Add(9000 * time.Hour)},
		} {
			if want := ringOf(t, want).IDs().SealTask(&one); ring.IDs().SealTask(&one) != want {
				t.Errorf("made after %v, %s: another key seals it", made, what)
			}
			if got, err := ring.IDs().Open(t.Context(), ring.IDs().SealTask(&one)); err != nil || got != task.TokenOf(&one) {
				t.Errorf("%+v, %v", got, err)
			}
		}
	}
	content.Keys = content.Keys[1:] // the first is removed
	if err := ring.Set(content); err != nil {
		t.Fatal(err)
	}
	old := task.Task{ID: task.NewID(start, 1, 2)}
	if ring.IDs().SealTask(&old) != ringOf(t, 2).IDs().SealTask(&old) {
		t.Error("a task whose key is gone is not sealed by the oldest")
	}
	content.Keys[0], content.Keys[1] = content.Keys[1], content.Keys[0]
	if err := ring.Set(content); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("out of order: %v", err)
	}
}
