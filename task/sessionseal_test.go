package task

import (
	"bytes"
	"errors"
	"testing"
)

func ringOf(t *testing.T, seals uint8, keys ...Key) *Keyring {
	t.Helper()
	k, err := NewKeyring(Ring{Keys: keys, Seals: seals})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A server opens what another of the installation seals, for the same use, as long as the key messages.
func TestSessionSeals(t *testing.T) {
	first := Key{Number: 1, Secret: bytes.Repeat([]byte{1}, TokenKeyBytes)}
	second := Key{Number: 2, Secret: bytes.Repeat([]byte{2}, TokenKeyBytes), From: 1}
	sealed := ringOf(t, 1, first).Sessions().Seal("session", []byte("ada"))
	if bytes.Contains(sealed, []byte("ada")) || bytes.Equal(sealed, ringOf(t, 1, first).Sessions().Seal("session", []byte("ada"))) {
		t.Errorf("sealed as %q", sealed)
	}
	opens := func(k *Keyring, use string, sealed []byte) error {
		text, err := k.Sessions().Open(t.Context(), use, sealed)
		if err == nil && string(text) != "ada" {
			t.Errorf("opened as %q", text)
		}
		return err
	}
	if err := opens(ringOf(t, 2, first, second), "session", sealed); err != nil {
		t.Error("after a rotation:", err)
	}
	retired := first
	retired.IDsOnly = true
	if err := opens(ringOf(t, 2, retired, second), "session", sealed); !errors.Is(err, ErrKeyGone) {
		t.Error("a key that is out of use:", err)
	}
	if err := opens(ringOf(t, 1, first), "sign-in", sealed); !errors.Is(err, ErrUnsealed) {
		t.Error("for another use:", err)
	}
	other := Key{Number: 1, Secret: bytes.Repeat([]byte{3}, TokenKeyBytes)}
	if err := opens(ringOf(t, 1, other), "session", sealed); !errors.Is(err, ErrUnsealed) {
		t.Error("of another installation:", err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if opens(ringOf(t, 1, first), "session", changed) == nil {
			t.Errorf("byte %d changed, and opened", i)
		}
		if opens(ringOf(t, 1, first), "session", sealed[:i]) == nil {
			t.Errorf("cut off at %d, and opened", i)
		}
	}
}
