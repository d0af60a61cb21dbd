package task_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/task"
)

func FuzzCheckTraceparent(f *testing.F) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, text := range []string{"", good, "01" + good[2:] + "-more", "ff" + good[2:], good + "-", strings.ToUpper(good), strings.Repeat(good, 1000), "\x00\u202e"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var err error
		alloctest.AtMost(t, 16<<10, func() { err = task.CheckTraceparent(text) }) // however long it is
		switch {
		case err != nil && (!errors.Is(err, task.ErrInvalid) || len(err.Error()) > 600):
			t.Errorf("%d bytes: %v", len(err.Error()), err)
		case err == nil && (len(text) > task.TraceparentBytesMax || strings.ContainsAny(text, " \n\x00ABCDEF")):
			t.Errorf("%q is accepted", text)
		}
	})
}
