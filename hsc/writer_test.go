package hsc

import (
	"testing"
	"time"
)

// TestAStreamIsNeverSilentForLong checks the limit by which workers close streams.
func TestAStreamIsNeverSilentForLong(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(1, "mail"))
		for n := 1; n < 5; n++ {
			all := w.all()
			if len(all) != n || all[n-1].GetNext() != SilenceDefault.Microseconds() || all[n-1].GetNow() != int64(f.svc.Clock.Now()) {
				t.Fatalf("%d messages, the last is %v: want %d, which say when they were sent and until when the next one is", len(all), all[len(all)-1], n)
			}
			time.Sleep(SilenceDefault)
		}
	})
}

func TestAStreamMayBeSilent(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.svc.Silence = 0
		w := f.work(slots(1, "mail"))
		time.Sleep(time.Minute)
		if all := w.all(); len(all) != 1 || all[0].GetNext() != 0 {
			t.Errorf("%d messages, the first is %v: want one, which promises nothing", len(all), all[0])
		}
	})
}
