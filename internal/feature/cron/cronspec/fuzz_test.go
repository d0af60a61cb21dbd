package cronspec_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/cron/cronspec"
)

const (
	fuzzedFires      = 5
	fuzzedBytesMax   = 64 << 20         // that one expression may allocate, all calls together
	fuzzedHangsAfter = 20 * time.Second // of what takes milliseconds, and a second when it is bad
)

// FuzzParse holds every expression to bounds on time and memory, and every schedule to what Next promises.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"*/5 * * * *", "0 0 29 2 1#5", "H(0-29)/10 H L,15W,LW * fri#l", "59 59 23 31 12 7", "@every 90s", "@weekly", "? ? ? ? ?", "0 0 30 2 *",
		start + "FREQ=MINUTELY;BYHOUR=23;BYMONTH=2;BYMONTHDAY=29",
		start + "FREQ=SECONDLY;INTERVAL=86399",
		start + "FREQ=HOURLY;INTERVAL=25;BYHOUR=3;BYDAY=MO;BYSETPOS=-1",
		start + "FREQ=YEARLY;INTERVAL=3;BYWEEKNO=53,-53;BYDAY=MO;WKST=SU",
		start + "FREQ=YEARLY;BYDAY=53MO,-53SU;BYYEARDAY=366,-366",
		start + "FREQ=MONTHLY;BYDAY=5MO,-5FR;BYMONTHDAY=-31;COUNT=1000",
		start + "FREQ=WEEKLY;INTERVAL=2;UNTIL=20280101T000000Z",
		start + "FREQ=WEEKLY;INTERVAL=5214",
		"DTSTART;TZID=America/Santiago:20260906T000000 RRULE:FREQ=DAILY",
	} {
		f.Add(seed, uint32(1_800_000_000), false, false)
	}
	f.Fuzz(func(t *testing.T, expression string, from uint32, skip, both bool) {
		hang := time.AfterFunc(fuzzedHangsAfter, func() { panic("hangs: " + expression) })
		defer hang.Stop()
		c := cronspec.Config{Expression: expression, Zone: "America/Santiago", Start: time.Unix(int64(from), 0), Name: "x", Zones: embedded}
		if skip {
			c.Gap = cronspec.GapSkip
		}
		if both {
			c.Fold = cronspec.FoldBoth
		}
		before := allocated()
		s, err := cronspec.Parse(c)
		if err != nil {
			if s != nil || err.Error() == "" {
				t.Fatalf("%q: %v, %v", expression, s, err)
			}
			checkAllocated(t, expression, before)
			return
		}
		last := c.Start.Add(-1)
		for range fuzzedFires {
			next, ok := s.Next(last)
			if !ok {
				break
			}
			if !next.After(last) || next.Before(c.Start) || next.Nanosecond() != 0 {
				t.Fatalf("%q fires at %s, after %s", expression, next, last)
			}
			if again, _ := s.Next(next.Add(-time.Second)); !again.Equal(next) {
				t.Fatalf("%q fires at %s, and from a second before at %s", expression, next, again)
			}
			last = next
		}
		checkAllocated(t, expression, before)
	})
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func checkAllocated(t *testing.T, expression string, before uint64) {
	t.Helper()
	if bytes := allocated() - before; bytes > fuzzedBytesMax {
		t.Errorf("%q allocates %d bytes", expression, bytes)
	}
}
