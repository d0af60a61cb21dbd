package task_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

func TestCheckTraceparent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, text := range []string{"", good, "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what=ever", "01" + good[2:]} {
		if err := task.CheckTraceparent(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"x", good + "-more", good + " ", " " + good, good + "\n", strings.ToUpper(good), "ff" + good[2:], good[:54], good + "0",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"01" + good[2:] + "-" + strings.Repeat("x", task.TraceparentBytesMax),
		"01" + good[2:] + "-a b",
	} {
		err := task.CheckTraceparent(text)
		if !errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), "want the W3C form") {
			t.Errorf("%q: %v, want a refusal that says what is allowed", text, err)
		}
	}
}
