package crash_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
)

// The tasks of each round, and when the server is killed while clients change them.
const (
	changedEach   = 20
	changeKillMax = 15 * time.Millisecond
	changeSettle  = 20 * time.Second
	changedIn     = 30 * time.Second // within a minute, by which killWhileChanging knows that a task was moved
)

// A task's row has room for the first payload, and not for the second one.
var oldPayload, newPayload = []byte("old"), bytes.Repeat([]byte("new"), 1000)

// changeCalls are the calls that are cut off, and how their tasks are prepared.
var changeCalls = map[string]struct {
	prepare  func(t *testing.T, c *sdk.Client, key string) sdk.ID
	call     func(ctx context.Context, c *sdk.Client, id sdk.ID, key string) error
	isUpdate bool // the call gives the task newPayload
	undone   sdk.State
}{
	"run now": {
		prepare: plain, undone: sdk.StateScheduled,
		call: func(ctx context.Context, c *sdk.Client, id sdk.ID, _ string) error {
			return only(c.RunNow(ctx, []sdk.ID{id}))
		},
	},
	"reschedule": {
		prepare: plain, undone: sdk.StateScheduled,
		call: func(ctx context.Context, c *sdk.Client, id sdk.ID, _ string) error {
			return only(c.Reschedule(ctx, []sdk.ID{id}, sdk.In(changedIn)))
		},
	},
	"cancel": {
		prepare: plain, undone: sdk.StateScheduled,
		call: func(ctx context.Context, c *sdk.Client, id sdk.ID, _ string) error {
			_, err := c.Cancel(ctx, id)
			return err
		},
	},
	"update": {
		prepare: plain, undone: sdk.StateScheduled, isUpdate: true,
		call: func(ctx context.Context, c *sdk.Client, id sdk.ID, _ string) error {
			_, err := c.Update(ctx, id, sdk.Update{Payload: newPayload})
			return err
		},
	},
	"priority": {
		prepare: plain, undone: sdk.StateScheduled, isUpdate: true,
		call: func(ctx context.Context, c *sdk.Client, id sdk.ID, _ string) error {
			_, err := c.Update(ctx, id, sdk.Update{Payload: newPayload, Priority: "high"})
			return err
		},
	},
	"redrive": {
		prepare: cancelled, undone: sdk.StateCancelled, isUpdate: true,
		call: func(ctx context.Context, c *sdk.Client, id sdk.ID, _ string) error {
			return only(c.Redrive(ctx, []sdk.ID{id}, sdk.WithNewPayload(newPayload)))
		},
	},
	"replace": {
		prepare: keyed, undone: sdk.StateScheduled, isUpdate: true,
		call: func(ctx context.Context, c *sdk.Client, _ sdk.ID, key string) error {
			_, err := c.Schedule(ctx, sdk.Item{Lambda: "changed", Key: key, Payload: newPayload, OnConflict: sdk.ConflictReplace})
			return err
		},
	},
}

// waiting schedules a task that is due in an hour.
func waiting(t *testing.T, c *sdk.Client, opts ...sdk.Option) sdk.ID {
	t.Helper()
	item := sdk.Item{Lambda: "changed", Payload: oldPayload, In: time.Hour}
	for _, o := range opts {
		o(&item)
	}
	r, err := c.Schedule(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func plain(t *testing.T, c *sdk.Client, _ string) sdk.ID { t.Helper(); return waiting(t, c) }

func keyed(t *testing.T, c *sdk.Client, key string) sdk.ID {
	t.Helper()
	return waiting(t, c, sdk.Key(key))
}

func cancelled(t *testing.T, c *sdk.Client, _ string) sdk.ID {
	t.Helper()
	id := waiting(t, c)
	if _, err := c.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

func only(results []sdk.ChangeResult, err error) error {
	if err != nil {
		return err
	}
	return results[0].Err
}

// TestKilledServerDoesChangesOrNot kills the server while clients change waiting tasks. After the restart
// what was acknowledged is done, everything else is done or not, and each task runs once, with the payload
// that it showed.
func TestKilledServerDoesChangesOrNot(t *testing.T) {
	for range killsWanted() {
		for name := range changeCalls {
			t.Run(name, func(t *testing.T) { killWhileChanging(t, name) })
		}
	}
}

func killWhileChanging(t *testing.T, name string) {
	t.Helper()
	s := harness.StartServer(t, harness.ServerOptions{})
	c, err := sdk.NewClient(s.URL, sdk.WithTries(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, _, err := admin.New(c).Lambdas.Create(t.Context(), admin.Lambda{Name: "changed"}); err != nil {
		t.Fatal(err)
	}
	scenario, ids, acked := changeCalls[name], make([]sdk.ID, changedEach), make([]bool, changedEach)
	for i := range ids {
		ids[i] = scenario.prepare(t, c, fmt.Sprintf("key-%d", i))
	}
	var calls sync.WaitGroup
	for i, id := range ids {
		calls.Go(func() {
			time.Sleep(rand.N(changeKillMax))
			acked[i] = scenario.call(t.Context(), c, id, fmt.Sprintf("key-%d", i)) == nil
		})
	}
	time.Sleep(rand.N(changeKillMax))
	s.Crash()
	calls.Wait()
	s.Start()

	want := map[sdk.ID]string{}
	done, answered := 0, 0
	for i, id := range ids {
		info, err := c.Get(t.Context(), id, sdk.WithPayload())
		if err != nil {
			t.Fatalf("%s is lost: %v", id, err)
		}
		isDone := info.State != scenario.undone || info.Due.Before(time.Now().Add(time.Minute)) || !bytes.Equal(info.Payload, oldPayload)
		isNew := bytes.Equal(info.Payload, newPayload)
		if acked[i] && !isDone || isDone && isNew != scenario.isUpdate {
			t.Errorf("answered %v, and after the restart the task is %s, due %v, with %.10q", acked[i], info.State, info.Due, info.Payload)
		}
		want[id] = string(info.Payload)
		if isDone {
			done++
		}
		if acked[i] {
			answered++
		}
	}
	harness.Figure(t, "crash_change_done_and_answered", fmt.Sprintf("%s: %d and %d of %d", name, done, answered, changedEach))
	runEachOnce(t, c, want)
}

// runEachOnce has all tasks run now, and checks that each does so once, with its payload.
func runEachOnce(t *testing.T, c *sdk.Client, want map[sdk.ID]string) {
	t.Helper()
	for id := range want {
		_, _ = c.RunNow(t.Context(), []sdk.ID{id})  // of what waits
		_, _ = c.Redrive(t.Context(), []sdk.ID{id}) // of what is cancelled
	}
	var mu sync.Mutex
	runs := map[sdk.ID][]string{}
	w := sdk.NewWorker(c)
	w.Register("changed", func(_ context.Context, task *sdk.Task[[]byte]) error {
		mu.Lock()
		defer mu.Unlock()
		runs[task.ID] = append(runs[task.ID], string(task.Payload))
		return nil
	})
	stop := runtest.Start(t, w.Run)
	runtest.Eventually(t, changeSettle, "all tasks have ended in success", func() bool {
		for id := range want {
			if info, err := c.Get(t.Context(), id); err != nil || info.State != sdk.StateSuccess {
				return false
			}
		}
		return true
	})
	stop()
	for id, payload := range want {
		if got := runs[id]; len(got) != 1 || got[0] != payload {
			t.Errorf("task %s ran with %.10q, want once with %.10q", id, got, payload)
		}
	}
}
