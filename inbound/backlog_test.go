package inbound_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// TestAWithdrawnLambdaIsKeptWhileTheBufferMayHaveTasksOfIt has a task that was acknowledged and waits in the
// buffer: without its lambda it would be set aside.
func TestAWithdrawnLambdaIsKeptWhileTheBufferMayHaveTasksOfIt(t *testing.T) {
	r := &registering{}
	runBuffered(t, func(c *settings) {
		c.Shared = true
		c.Registered = func(_ context.Context, lambda, outcome string, err error) {
			r.note(func() { r.told, r.errs = append(r.told, lambda+" "+outcome), append(r.errs, err) })
		}
	}, func(b *buffered) {
		r.fixture = b.fixture
		r.start()
		defer func() { r.stop() }()
		r.put("busy", `{"format":2}`)
		r.put("idle", `{"format":2}`)
		b.time.Advance(10 * time.Second)
		r.wantTold("busy created", "idle created")
		b.accepted(&kinesinv1.ScheduleItem{Lambda: "busy", Delay: time.Hour.Microseconds()})
		if b.memory.Len() != 1 {
			t.Fatal("the task is not in the buffer")
		}
		r.withdrawAll([]string{"busy", "idle"})
		b.time.Advance(2 * time.Minute)
		r.note(func() {
			if len(r.errs) == 0 || !strings.Contains(r.errs[0].Error(), "nothing could be received") {
				t.Errorf("told %v, want that the buffer is not known", r.errs)
			}
		})
		r.wantTold("busy kept", "idle kept")
		b.consume()
		b.time.Advance(90 * time.Second)
		r.note(func() {
			if len(r.errs) == 0 || !strings.Contains(r.errs[0].Error(), "accepted more than 30s before") {
				t.Errorf("told %v, want that the buffer is late", r.errs)
			}
		})
		r.wantTold("busy kept", "idle kept") // for another reason
		b.time.Advance(5 * time.Minute)
		r.wantTold("busy kept", "idle deleted") // for its task, which is in the store now
		if len(b.aside) != 0 || b.consumed != 1 {
			t.Errorf("%d consumed, set aside %q", b.consumed, b.aside)
		}
	})
}
