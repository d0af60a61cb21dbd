package cli

import (
	"fmt"
	"testing"
)

func TestTheWorkerSaysWhenItHasRegistered(t *testing.T) {
	t.Parallel()
	said := ""
	c := newObserver(func(format string, args ...any) { said += fmt.Sprintf(format, args...) + "\n" })
	for _, held := range []struct {
		worker string
		broken bool
		says   string
	}{
		{"w1", false, "registered for a, b at http://s\n"},
		{"w1", false, ""},
		{"w1", true, "connected again to http://s\n"},
		{"w1", false, ""},
		{"w2", true, "registered again at http://s\n"},
		{"w2", false, ""},
	} {
		said = ""
		c.broken.Store(held.broken || c.broken.Load())
		if c.held(held.worker, []string{"a", "b"}, "http://s"); said != held.says || *c.worker.Load() != held.worker {
			t.Errorf("%+v: %q", held, said)
		}
	}
}
