package scheduler_test

import (
	"cmp"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// TestNoBoundStopsALambda has three times as many tasks due at one instant as each bound of a loop allows. All
// of them start, and no key has more running than it may.
func TestNoBoundStopsALambda(t *testing.T) {
	const (
		least = 64 // rows that are read ahead and kept, at least
		most  = 4096
	)
	for _, c := range []struct {
		name         string
		look, flight int // 0: as many as a server has
		depth        int // of the queue
		keys         int // 0: the tasks have none
		tasks        int
		atOnce       int // of a key
		running      int
	}{
		{name: "buffer", look: 1, tasks: 3 * least},
		{name: "in flight", look: 1, flight: least, tasks: 6 * least, running: 3 * least},
		{name: "one dispatch", tasks: 3 * 512},
		{name: "room in the queue", depth: 10, tasks: 3 * 10},
		{name: "rows that keys keep", look: 1, keys: 3 * least, tasks: 6 * least, atOnce: 1},
		{name: "rows that keys keep, as many as of a server", keys: 3 * most, tasks: 3 * most, atOnce: 1},
		{name: "memory for keys", look: 1, flight: least, keys: 3 * least, tasks: 6 * least, atOnce: 1},
		{name: "memory for keys, and keys beyond it", flight: least, keys: 3 * most, tasks: 3 * most, atOnce: 1},
		{name: "rows of one key", keys: 1, tasks: 3 * 1024, atOnce: 100},
		{name: "rows of one key, with little memory", look: 1, flight: least, keys: 1, tasks: 6 * least, atOnce: 10},
		{name: "keys that are ready", look: 1, depth: 50, keys: 3 * 512, tasks: 3 * 512, atOnce: 2},
		{name: "tasks of keys that run", look: 1, flight: least, keys: 3 * least, tasks: 6 * least, atOnce: 2, running: 3 * least},
	} {
		for _, on := range []struct {
			name   string
			dynamo bool
			due    time.Duration
		}{{"embedded", false, 2 * time.Second}, {"embedded, overdue", false, -time.Hour}, {"DynamoDB", true, 2 * time.Second}, {"DynamoDB, overdue", true, -time.Hour}} {
			t.Run(c.name+", "+on.name, func(t *testing.T) {
				if c.tasks > most && (testing.Short() || on.dynamo && c.flight > 0 && on.due < 0) {
					t.Skip("long") // a backlog is read again for each few that start
				}
				inWorld(t, cmp.Or(c.depth, depth), func(w *world) {
					if on.dynamo {
						w.onDynamo()
					} else {
						w.onPebble()
					}
					w.look, w.flight = c.look, c.flight
					if c.keys > 0 {
						w.withKeyLimit(int32(c.atOnce))
					}
					for i := range c.tasks {
						if c.keys > 0 {
							w.keyed(high, fmt.Sprint("k", i%c.keys), on.due)
						} else {
							w.waiting(high, on.due)
						}
					}
					w.endAll(w.start(), c.tasks, c.running, c.atOnce)
				})
			})
		}
	}
}

// onDynamo puts the tables of DynamoDB below the world, as if other servers shared them. The driver has the
// bubble's time: it waits in the middle of a call, when the world's stands still.
func (w *world) onDynamo() {
	const prefix = "k"
	db := fakedynamo.New(fakedynamo.Config{Clock: clock.Real(), Attempts: 3})
	for _, spec := range dynamo.Tables(prefix) {
		if _, err := db.CreateTable(w.ctx, dynamo.CreateTableInput(&spec)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.on(dynamo.New(db, dynamo.Config{Prefix: prefix, Clock: clock.Real()}))
	w.shared = true
}

// onPebble puts the embedded store below the world, in memory.
func (w *world) onPebble() {
	driver, err := pebble.Open("data", pebble.Config{FS: vfs.NewMem()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.on(driver)
}

func (w *world) on(driver store.Driver) {
	w.t.Cleanup(func() { _ = driver.Close() })
	w.rows.Store = store.New(driver, store.Config{Clock: w.clock})
	w.leases = lease.NewBook(w.rows.Store, w.clock)
}

// endAll has tasks run, so many at once, and end, until all have. There is always one that starts within 15 s.
func (w *world) endAll(s *scheduler.Scheduler, tasks, running, atOnce int) {
	w.t.Helper()
	const step, longest = 100 * time.Millisecond, 15 * time.Second
	var run []task.Task
	of := map[string]int{} // what runs of each key
	for ended, idle := 0, time.Duration(0); ended < tasks; idle += step {
		if idle > longest {
			w.t.Fatalf("%d of %d tasks have ended, and none started for %v", ended, tasks, longest)
		}
		w.advance(step)
		time.Sleep(step) // for the driver: in the bubble's time
		messages := w.drain(tasks)
		for i := range messages {
			if row := w.read(messages[i].Task.ID); row.State != task.Enqueued || row.Seq != messages[i].Task.Seq {
				continue // the message came again
			}
			t := w.claim(messages[i].Task)
			run, idle = append(run, t), 0
			if of[t.LimitKey]++; t.LimitKey != "" && of[t.LimitKey] > atOnce {
				w.t.Fatalf("%d tasks of key %s run at once, of %d that may", of[t.LimitKey], t.LimitKey, atOnce)
			}
		}
		left := running
		if len(messages) == 0 {
			left = 0
		}
		for len(run) > left {
			w.report(s, run[0], task.OutcomeSuccess)
			of[run[0].LimitKey]--
			run, ended = run[1:], ended+1
		}
		synctest.Wait()
	}
}
