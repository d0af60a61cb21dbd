package dispatcher

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

func TestTasksWaitForCompanyOnlyWhereThereIsSome(t *testing.T) {
	const apart = 40 * time.Millisecond
	start := task.Instant(1_700_000_000_000_000)
	at := func(d time.Duration) task.Instant { return start.Add(d) }
	var f traffic
	alone := func(due task.Instant) {
		t.Helper()
		if got := f.sendAt(due, apart); got != due {
			t.Errorf("sent %v after it is due, want at once", got.Sub(due))
		}
	}
	alone(at(time.Millisecond))
	for n := range 20 { // fewer than one in 40 ms
		alone(at(time.Duration(n) * 50 * time.Millisecond))
		f.note(at(time.Duration(n)*50*time.Millisecond), 1)
	}
	f.note(at(time.Second), 20)
	f.note(at(1500*time.Millisecond), 6)
	for _, millis := range []int{1600, 1601, 1639, 1640, 2100} {
		due := at(time.Duration(millis) * time.Millisecond)
		got := f.sendAt(due, apart)
		if late := got.Sub(due); late < 0 || late >= apart || got%task.Instant(apart/time.Microsecond) != 0 {
			t.Errorf("due after %d ms, sent %v later", millis, late)
		}
	}
	if got := f.sendAt(at(1600*time.Millisecond+1), 0); got != at(1600*time.Millisecond+1) {
		t.Errorf("sent at %v though nothing is to go together", got)
	}
	f.note(at(0), 1000) // late ones
	alone(at(3100 * time.Millisecond))
	f.note(at(3100*time.Millisecond), 1)
	alone(at(4100*time.Millisecond + 1))
	alone(at(time.Hour))
}
