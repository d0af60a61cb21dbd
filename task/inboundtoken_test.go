package task_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

func drawInboundToken(t *rapid.T) task.InboundToken {
	name := rapid.StringMatching(`[a-zA-Z0-9_-]{1,64}`)
	token := task.InboundToken{
		ID: drawID(t), Due: task.FromMillis(rapid.Int64Range(1, 1<<48-1).Draw(t, "due")), Lambda: name.Draw(t, "lambda"),
	}
	if rapid.Bool().Draw(t, "classed") {
		token.Priority = name.Draw(t, "priority")
	}
	return token
}

func sealInbound(t rapid.TB, s *task.InboundSealer, token task.InboundToken) string {
	t.Helper()
	text, err := s.Seal(token)
	if err != nil {
		t.Fatalf("%+v: %v", token, err)
	}
	return text
}

func TestInboundTokenSurvivesItsText(t *testing.T) {
	sealer := task.NewInboundSealer(task.InboundKey(key(0)))
	rapid.Check(t, func(t *rapid.T) {
		token := drawInboundToken(t)
		text := sealInbound(t, sealer, token)
		if got, err := sealer.Open(t.Context(), text); err != nil || got != token {
			t.Fatalf("%q opens as %+v, %v; want %+v", text, got, err, token)
		}
		if strings.ContainsAny(text, "+/= ") || len(text) > 222 || !task.IsInboundToken(text) {
			t.Fatalf("%q of %d characters", text, len(text))
		}
	})
}

func TestForgedInboundTokensAreRefused(t *testing.T) {
	sealer, other := task.NewInboundSealer(task.InboundKey(key(0))), task.NewInboundSealer(task.InboundKey(key(1)))
	plain, secret := task.NewSealer(key(0)), task.NewInboundSealer(key(0))
	rapid.Check(t, func(t *rapid.T) {
		text := sealInbound(t, sealer, drawInboundToken(t))
		for what, open := range map[string]func(string) error{
			"another key":         func(s string) error { _, err := other.Open(t.Context(), s); return err },
			"the secret itself":   func(s string) error { _, err := secret.Open(t.Context(), s); return err },
			"the sealer of k1":    func(s string) error { _, err := plain.Open(t.Context(), s); return err },
			"k1 with q1's prefix": func(string) error { _, err := sealer.Open(t.Context(), "q1"+plain.Seal(drawToken(t))[2:]); return err },
			"q1 with k1's prefix": func(s string) error { _, err := plain.Open(t.Context(), "k1"+s[2:]); return err },
		} {
			if err := open(text); !errors.Is(err, task.ErrBadID) {
				t.Fatalf("%s opens %q: %v", what, text, err)
			}
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		with := rapid.SampledFrom([]byte("AZaz09-_q1+ ")).Draw(t, "with")
		forged := text[:at] + string(with) + text[at+1:]
		if _, err := sealer.Open(t.Context(), forged); forged != text && !errors.Is(err, task.ErrBadID) {
			t.Fatalf("%q with one other character opens: %v", text, err)
		}
		if _, err := sealer.Open(t.Context(), text[:at]); !errors.Is(err, task.ErrBadID) {
			t.Fatalf("a part of %q opens: %v", text, err)
		}
		if _, err := sealer.Open(t.Context(), text+"A"); !errors.Is(err, task.ErrBadID) {
			t.Fatalf("%q with more behind it opens: %v", text, err)
		}
	})
}

// A letter cannot move from the lambda's name to the priority's, nor a message's seal pass for an id's.
func TestInboundTokenPartsDoNotMix(t *testing.T) {
	s := task.NewInboundSealer(key(0))
	a := sealInbound(t, s, task.InboundToken{ID: task.ID{1}, Due: start, Lambda: "ab", Priority: "c"})
	b := sealInbound(t, s, task.InboundToken{ID: task.ID{1}, Due: start, Lambda: "a", Priority: "bc"})
	if a == b {
		t.Errorf("both are %q", a)
	}
	raw, err := base64.RawURLEncoding.DecodeString(a[2:])
	if err != nil {
		t.Fatal(err)
	}
	body := raw[:len(raw)-13]
	sealed, err := base64.StdEncoding.DecodeString(s.SealMessage(body))
	if err != nil {
		t.Fatal(err)
	}
	forged := "q1" + base64.RawURLEncoding.EncodeToString(append(slices.Clip(body), sealed[:13]...))
	if _, err := s.Open(t.Context(), forged); !errors.Is(err, task.ErrBadID) {
		t.Errorf("the seal of a message opens an id: %v", err)
	}
}

func TestInboundTokensThatNobodyMaySeal(t *testing.T) {
	s := task.NewInboundSealer(key(0))
	good := task.InboundToken{ID: task.ID{1}, Due: start, Lambda: "mail", Priority: "high"}
	for name, change := range map[string]func(*task.InboundToken){
		"no lambda":      func(t *task.InboundToken) { t.Lambda = "" },
		"long lambda":    func(t *task.InboundToken) { t.Lambda = strings.Repeat("x", 65) },
		"odd lambda":     func(t *task.InboundToken) { t.Lambda = "a b" },
		"odd priority":   func(t *task.InboundToken) { t.Priority = "ä" },
		"never due":      func(t *task.InboundToken) { t.Due = 0 },
		"due before":     func(t *task.InboundToken) { t.Due = -1_000_000 },
		"due too far":    func(t *task.InboundToken) { t.Due = task.FromMillis(1 << 48) },
		"due too far ×2": func(t *task.InboundToken) { t.Due = 1<<63 - 1 },
	} {
		token := good
		change(&token)
		if text, err := s.Seal(token); !errors.Is(err, task.ErrInvalid) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestMessageSeals(t *testing.T) {
	s, other := task.NewInboundSealer(key(0)), task.NewInboundSealer(key(1))
	body := s.SealMessage([]byte("message"))
	if message, from, err := s.OpenMessage(t.Context(), body); err != nil || from != nil || string(message) != "message" {
		t.Errorf("%q, %v, %v", message, from, err)
	}
	raw, err := base64.StdEncoding.DecodeString(body)
	if err != nil || len(raw) != task.InboundMACBytes+len("message") {
		t.Fatalf("%x, %v", raw, err)
	}
	if _, _, err := other.OpenMessage(t.Context(), body); !errors.Is(err, task.ErrUnsealed) {
		t.Errorf("another key opens it: %v", err)
	}
	for at := range raw {
		raw[at] ^= 0x40
		if _, _, err := s.OpenMessage(t.Context(), base64.StdEncoding.EncodeToString(raw)); !errors.Is(err, task.ErrUnsealed) {
			t.Errorf("changed at %d: %v", at, err)
		}
		raw[at] ^= 0x40
	}
	if bytes.Equal(task.InboundKey(key(0)), task.InboundKey(key(1))) || len(task.InboundKey(key(0))) != task.TokenKeyBytes {
		t.Error("inbound keys")
	}
}

func FuzzOpenInboundToken(f *testing.F) {
	s := task.NewInboundSealer(key(0))
	f.Add("")
	f.Add("q1")
	f.Add(sealInbound(f, s, task.InboundToken{ID: task.ID{1}, Due: start, Lambda: "mail"}))
	f.Fuzz(func(t *testing.T, text string) {
		token, err := s.Open(t.Context(), text)
		if err != nil {
			if !errors.Is(err, task.ErrBadID) || token != (task.InboundToken{}) {
				t.Errorf("%q: %+v, %v", text, token, err)
			}
			return
		}
		if again, err := s.Seal(token); err != nil || again != text {
			t.Errorf("%q opens as what is sealed as %q, %v", text, again, err)
		}
	})
}
