package task_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

func drawID(t *rapid.T) (id task.ID) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	return id
}

func TestIDSurvivesItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := drawID(t)
		for _, text := range []string{id.String(), strings.ToUpper(id.String())} {
			if got, err := task.ParseID(text); err != nil || got != id {
				t.Fatalf("%q reads as %v, %v", text, got, err)
			}
		}
		if id.IsZero() != (id == task.ID{}) {
			t.Fatal("zero or not?")
		}
	})
}

func TestIDsOfEachKind(t *testing.T) {
	now := task.FromMillis(1_700_000_000_123)
	if id := task.NewID(now, ^uint64(0), ^uint64(0)); id.String() != "018bcfe5-687b-7fff-bfff-ffffffffffff" || id.IsDerived() {
		t.Errorf("new id %s", id)
	}
	a, b := task.IDOf([]byte("ab"), []byte("c")), task.IDOf([]byte("abd"))
	if a == b || a != task.IDOf([]byte("abc")) || !a.IsDerived() || a.String()[14] != '8' || a[8]>>6 != 2 {
		t.Errorf("derived ids %s and %s", a, b)
	}
}

func TestPayloadID(t *testing.T) {
	plain := task.Task{ID: task.NewID(1, 2, 3)}
	if plain.PayloadID() != plain.ID {
		t.Errorf("%s of %s", plain.PayloadID(), plain.ID)
	}
	one := task.Task{ID: task.IDOf([]byte("k")), Key: "k", Digest: [16]byte{1}}
	other := one
	other.Digest[0]++
	if one.PayloadID() == one.ID || one.PayloadID() == other.PayloadID() {
		t.Errorf("%s and %s of %s", one.PayloadID(), other.PayloadID(), one.ID)
	}
}

func TestBadIDs(t *testing.T) {
	const good = "01934f5d-2a00-7000-8000-000000000001"
	for _, text := range []string{
		"", good[:35], good + "0", strings.ReplaceAll(good, "-", ""), strings.Replace(good, "-", "_", 1),
		strings.Replace(good, "1", "g", 1), "{" + good[1:35] + "}", strings.Replace(good, "0193", "é93", 1),
	} {
		if id, err := task.ParseID(text); !errors.Is(err, task.ErrBadID) || !id.IsZero() {
			t.Errorf("%q reads as %v, %v; want ErrBadID", text, id, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("01934f5d-2a00-7000-8000-000000000001")
	f.Add("")
	f.Add("01934F5D-2A00-7000-8000-00000000000-")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := task.ParseID(text)
		if err != nil {
			if !errors.Is(err, task.ErrBadID) || !id.IsZero() {
				t.Errorf("%q: %v, %v", text, id, err)
			}
			return
		}
		if id.String() != strings.ToLower(text) {
			t.Errorf("%q reads as %v", text, id)
		}
	})
}

func drawToken(t *rapid.T) task.Token {
	return task.Token{
		ID:  drawID(t),
		Due: task.FromMillis(rapid.Int64Range(0, 1<<48-1).Draw(t, "due")),
		Partition: task.Partition{
			Lambda: rapid.Uint32().Draw(t, "lambda"), Priority: rapid.Uint8().Draw(t, "priority"), Shard: rapid.Uint16Max(task.ShardsMax-1).Draw(t, "shard"),
		},
		Direct: rapid.Bool().Draw(t, "direct"),
	}
}

func key(b byte) []byte { return []byte(strings.Repeat(string(rune('a'+b)), task.TokenKeyBytes)) }

func TestTokenSurvivesItsText(t *testing.T) {
	sealer := task.NewSealer(key(0))
	rapid.Check(t, func(t *rapid.T) {
		token := drawToken(t)
		text := sealer.Seal(token)
		if got, err := sealer.Open(t.Context(), text); err != nil || got != token {
			t.Fatalf("%q opens as %+v, %v; want %+v", text, got, err, token)
		}
		if strings.ContainsAny(text, "+/= ") || len(text) != 58 {
			t.Fatalf("%q of %d characters", text, len(text))
		}
	})
}

func TestForgedTokensAreRefused(t *testing.T) {
	sealer, other := task.NewSealer(key(0)), task.NewSealer(key(1))
	rapid.Check(t, func(t *rapid.T) {
		text := sealer.Seal(drawToken(t))
		if _, err := other.Open(t.Context(), text); !errors.Is(err, task.ErrBadID) {
			t.Fatalf("another secret opens %q: %v", text, err)
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		with := rapid.SampledFrom([]byte("AZaz09-_k1+ ")).Draw(t, "with")
		forged := text[:at] + string(with) + text[at+1:]
		if _, err := sealer.Open(t.Context(), forged); forged != text && !errors.Is(err, task.ErrBadID) {
			t.Fatalf("%q with one other character opens: %v", text, err)
		}
		if _, err := sealer.Open(t.Context(), text[:at]); !errors.Is(err, task.ErrBadID) {
			t.Fatalf("a part of %q opens: %v", text, err)
		}
	})
}

func FuzzOpenToken(f *testing.F) {
	sealer := task.NewSealer(key(0))
	f.Add("")
	f.Add("k1")
	f.Add(sealer.Seal(task.Token{ID: task.ID{1}, Due: start}))
	f.Fuzz(func(t *testing.T, text string) {
		token, err := sealer.Open(t.Context(), text)
		if err == nil && sealer.Seal(token) != text {
			t.Errorf("%q opens as what is sealed as %q", text, sealer.Seal(token))
		}
	})
}

func TestInstants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := task.Instant(rapid.Int64Range(1, 1<<52).Draw(t, "micros"))
		if task.InstantOf(i.Time()) != i {
			t.Fatalf("%d does not survive time.Time", i)
		}
		if up := i.CeilMillis(); up < i || up-i >= 1000 || up%1000 != 0 || task.FromMillis(up.Millis()) != up {
			t.Fatalf("%d rounds up to %d", i, up)
		}
		if down := task.FromMillis(i.Millis()); down > i || i-down >= 1000 {
			t.Fatalf("%d rounds down to %d", i, down)
		}
		d := time.Duration(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "d")) * time.Microsecond
		if i.Add(d).Sub(i) != d {
			t.Fatalf("%d plus %v is %d", i, d, i.Add(d))
		}
	})
	if !task.InstantOf(time.Time{}).IsZero() || !task.Instant(0).Time().IsZero() {
		t.Error("never is not the zero time")
	}
}

func TestWhoseAnIDIs(t *testing.T) {
	id := task.NewID(task.FromMillis(1_800_000_000_000), 1, 2)
	own := id.OwnedBy("a")
	made, is := own.Made()
	if was, _ := id.Made(); own == id || own == id.OwnedBy("b") || own != id.OwnedBy("a") || !is || made != was {
		t.Errorf("%s became %s", id, own)
	}
	if of := id.OwnedBy("a", 1); of == own || of != id.OwnedBy("a", 1) || of == id.OwnedBy("a", 2) || of == id.OwnedBy("a\x01") {
		t.Errorf("%s became %s for a request", id, of)
	}
	if from := (task.InboundToken{ID: id, Sender: "a"}); from.TaskID() == id || from.TaskID() == own || (task.InboundToken{ID: id}).TaskID() != id {
		t.Errorf("%s of a sender became %s", id, from.TaskID())
	}
	bound := id.BoundTo("mail", "c")
	if at, is := bound.Made(); !is || at != made || bound != bound.BoundTo("mail", "c") || bound == bound.BoundTo("mail", "") ||
		bound == bound.BoundTo("mai", "c") || bound == bound.BoundTo("mailc", "") {
		t.Errorf("%s became %s", id, bound)
	}
	if task.IDOf([]byte("x")).BoundTo("a", "").IsDerived() != true {
		t.Error("the version is gone")
	}
}
