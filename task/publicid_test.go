package task_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/task"
)

// peeked are public ids of one task, in each form that an installation may issue.
var peeked = []string{
	"k1AZLwwSo7fE2OX2BxgpOktQGLz-VoewAAAAcCAgGFAMg2yMiaU_chC4j7",
	"k2AZLwwSo7fE2OX2BxgpOktQGLz-VoewAAAAcCAgECYeRlfv3-bgIfTkLeNw",
	"q1AZLwwSo7fE2OX2BxgpOktQGLz-VoewRtYWlsaGlnaBIhnkPY_CwFL2U4JIA",
	"q2AgRzaG9wAZLwwSo7fE2OX2BxgpOktQGLz-VoAARtYWlsq9Ll54YbWPbUF-lDvA",
}

// A client without a key finds the id of a task in its public id, whichever key or sender sealed it: payloads
// are bound to that id.
func TestTheIDInAPublicID(t *testing.T) {
	t.Parallel()
	want := task.ID{0x01, 0x92, 0xf0, 0xc1, 0x2a, 0x3b, 0x7c, 0x4d, 0x8e, 0x5f, 0x60, 0x71, 0x82, 0x93, 0xa4, 0xb5}
	for i, text := range peeked {
		if i == len(peeked)-1 {
			want = task.InboundToken{ID: want, Sender: "shop"}.TaskID() // not the one that another sender gets
		}
		if id, err := task.PeekID(text); err != nil || id != want {
			t.Errorf("%s: %s, %v", text, id, err)
		}
	}
}

// What is shorter than an id of its form, and has no other characters, may be the beginning of one.
func TestTheBeginningOfAPublicID(t *testing.T) {
	t.Parallel()
	for _, id := range peeked[:2] {
		for n := range len(id) + 1 {
			if got, want := task.IsShortened(id[:n]), n > 1 && n < len(id); got != want {
				t.Errorf("%d characters of %s: %v", n, id, got)
			}
		}
	}
	for _, text := range []string{"", "k", "k4AZLwwSo7f", "q1AZLwwSo7f", "k1AZLwwSo7f ", "k1AZLwwSo7é", "k1AZ+/", "order-17"} {
		if task.IsShortened(text) {
			t.Errorf("%q", text)
		}
	}
}

func FuzzPeekID(f *testing.F) {
	for _, text := range peeked {
		f.Add(text)
		f.Add("x" + text[1:])
		f.Add(text[:20])
	}
	f.Add("q2Av8")
	f.Add("k1" + string(bytes.Repeat([]byte("A"), 10_000)))
	f.Fuzz(func(t *testing.T, text string) {
		alloctest.AtMost(t, 16<<10, func() { // however long it is
			if id, err := task.PeekID(text); err != nil && (!id.IsZero() || !errors.Is(err, task.ErrBadID)) {
				t.Errorf("%s, %v", id, err)
			}
		})
	})
}
