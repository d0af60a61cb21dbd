package harness

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/job"
)

// HotKey is the limit key with most of the tasks of Keyed.
const HotKey = "hot"

// Keyed are tasks of many limit keys, one key with many of them. They are of all priorities, come due one by
// one within a time, and each runs for up to a time. One in ten fails at first, and one in 60 runs for long.
func Keyed(hot, others, ofEach int, dueWithin, runsFor, long time.Duration) []Wanted {
	priorities := []string{"high", "normal", "low"}
	keys := make([]string, 0, hot+others*ofEach)
	for range hot {
		keys = append(keys, HotKey)
	}
	for i := range others * ofEach {
		keys = append(keys, "key-"+strconv.Itoa(i%others))
	}
	all := make([]Wanted, len(keys))
	for i, key := range keys {
		all[i] = Wanted{
			Job:     job.Job{Millis: 1 + rand.Int64N(runsFor.Milliseconds())},
			Options: []sdk.Option{sdk.LimitKey(key), sdk.In(rand.N(dueWithin)), sdk.Priority(priorities[rand.IntN(3)])},
		}
		switch {
		case i%10 == 0:
			all[i].Job.Do, all[i].Job.Times = job.Failing, 1
		case i%60 == 1:
			all[i].Job.Millis = long.Milliseconds()
		}
	}
	return all
}

// ScheduleAll schedules jobs by calls of a hundred, all of which must be acknowledged.
func (c *Client) ScheduleAll(wanted []Wanted) (ids []sdk.ID) {
	c.site.T.Helper()
	for some := range slices.Chunk(wanted, 100) {
		ids = append(ids, c.Schedule(some...)...)
	}
	return ids
}

// Shortfalls prints for how long a limit key had fewer than n tasks running while others of it were due, at
// most: after each kill of a server, of a worker, and before the first kill.
func (h *History) Shortfalls(name, limitKey string, n int) {
	h.tb.Helper()
	events := slices.Clone(h.Events())
	slices.SortFunc(events, func(a, b checker.Event) int { return int(a.At - b.At) })
	short := slices.DeleteFunc(checker.Shortfalls(events, n), func(s checker.Shortfall) bool { return s.LimitKey != limitKey })
	kind, from := "before", int64(0)
	found := map[string][]time.Duration{}
	until := func(to int64) {
		var longest int64
		for _, s := range short {
			end := s.To
			if from == 0 {
				end = min(end, to) // the rest is due to the first kill
			}
			if s.From < to && end > from {
				longest = max(longest, end-max(s.From, from))
			}
		}
		found[kind] = append(found[kind], time.Duration(longest)*time.Microsecond)
	}
	for _, e := range events {
		switch e.Kind {
		case checker.ServerDown:
			until(e.At)
			kind, from = "after_server_kill", e.At
		case checker.Died:
			until(e.At)
			kind, from = "after_worker_kill", e.At
		default:
		}
	}
	until(events[len(events)-1].At)
	for kind, longest := range found {
		Quantiles(h.tb, name+"_short_"+kind, longest)
	}
}

// NearLimits fails the test unless the hot key, and all tasks together if that limit is not 0, came near what
// may run at once: the checker, which refuses more, would have seen nothing otherwise. A busy machine fills
// freed slots late, so more than half of them will do.
func (h *History) NearLimits(ofKey, all int) {
	h.tb.Helper()
	byKey, most := checker.MostAtOnce(h.Events())
	Figure(h.tb, "most_at_once", most)
	if byKey[HotKey]*2 <= ofKey || most*2 <= all {
		h.tb.Errorf("the run tested too little: %d of the hot key ran at once, %d may; %d of all, %d may",
			byKey[HotKey], ofKey, most, all)
	}
}
