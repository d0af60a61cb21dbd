package scheduler_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// TestAMissingQueueIsLoggedRarely has all partitions of a lambda meet the same missing queue for an hour.
func TestAMissingQueueIsLoggedRarely(t *testing.T) {
	inWorld(t, 10, func(w *world) {
		var text bytes.Buffer // which the handler guards
		w.log = slog.New(slog.NewTextHandler(&text, nil))
		w.rows.setFails(func(task.Partition) error { return fmt.Errorf("%w: that of mail", queue.ErrMissing) })
		w.start()
		w.advance(time.Hour)
		w.rows.setFails(nil)
		w.advance(time.Minute)
		if n := strings.Count(text.String(), "that of mail"); n < 11 || n > 13 {
			t.Errorf("logged %d times in an hour, want once every five minutes:\n%s", n, text.String())
		}
		tries := 0
		w.note(func() {
			for _, n := range w.failed {
				tries += n
			}
		})
		if tries < 100 {
			t.Errorf("tried %d times: it is to be tried as before", tries)
		}
	})
}
