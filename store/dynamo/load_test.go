package dynamo_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// TestKeyLoads checks the counts of what was written to each key of the schedule, and which was throttled.
func TestKeyLoads(t *testing.T) {
	t.Parallel()
	inBubble(t, fakedynamo.Config{WriteUnits: 50}, func(b *bubble) {
		taken := b.Capabilities().KeyLoads
		want := func(what string, want map[task.Partition]store.KeyLoad) {
			b.Helper()
			if got := taken(); !maps.Equal(got, want) {
				b.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		want("nothing", nil)
		gone := wakeupRow(1, cold, 10)
		gone.Kind = store.DeleteWakeup
		b.apply(wakeupRow(1, cold, 10), wakeupRow(2, cold, 1500), taskRow(3, hot, 0))
		b.apply(gone)
		if err := <-b.begin(wakeupRow(2, cold, 10)); err == nil {
			b.Error("a row was put twice")
		}
		if got := taken()[cold]; got.Units < 5 || got.Units > 6 || got.Throttled { // a conflict in a batch is found out by two writes
			b.Errorf("%+v of a partition that was written to four times, once two units", got)
		}
		want("taken", nil)

		var many []store.Op
		for n := range 200 {
			many = append(many, wakeupRow(n, hot, 10))
		}
		many = append(many, wakeupRow(9, cold, 10))
		done := b.begin(many...)
		for range 100 {
			b.v.Advance(100 * time.Millisecond)
		}
		if !isDone(done) {
			b.Fatal("200 writes at 50 a second took more than 10 s")
		}
		want("throttled", map[task.Partition]store.KeyLoad{hot: {Units: 200, Throttled: true}, cold: {Units: 1}})

		b.db.Faults.Odds(awsfake.Any, awsfake.Refused, 1)
		if err := <-b.begin(wakeupRow(201, hot, 10)); err == nil {
			b.Error("a refused write succeeded")
		}
		if got := slices.Collect(maps.Keys(taken())); len(got) > 1 {
			b.Errorf("refused: %v", got)
		}
	})
}
