package hold_test

import (
	"testing"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

const now = task.Instant(1000)

// waiting is a task that was to wake a moment ago.
func waiting() *task.Task {
	return &task.Task{Partition: task.Partition{Lambda: 7, Priority: 1}, State: task.Scheduled, Wake: now - 10, Collection: "c", Tags: []task.Tag{{Name: "n", Value: "v"}}}
}

func TestWhatAGateHolds(t *testing.T) {
	probing := func(change func(t *task.Task)) func(*hold.Gate, *task.Task) {
		return func(g *hold.Gate, t *task.Task) {
			g.Breaker, g.Resumed = &hold.Breaker{}, now-5
			change(t)
		}
	}
	for name, c := range map[string]struct {
		change func(g *hold.Gate, t *task.Task)
		holds  bool
	}{
		"all of its lambda":               {func(*hold.Gate, *task.Task) {}, true},
		"its lambda, created again":       {func(_ *hold.Gate, t *task.Task) { t.Partition.Lambda = 8 }, false},
		"its priority":                    {func(g *hold.Gate, _ *task.Task) { g.Priority, g.Class = "p", 1 }, true},
		"another priority":                {func(g *hold.Gate, _ *task.Task) { g.Priority, g.Class = "p", 2 }, false},
		"its collection":                  {func(g *hold.Gate, _ *task.Task) { g.Collection = "c" }, true},
		"another collection":              {func(g *hold.Gate, _ *task.Task) { g.Collection = "d" }, false},
		"its tag":                         {func(g *hold.Gate, _ *task.Task) { g.TagName, g.TagValue = "n", "v" }, true},
		"another value of its tag":        {func(g *hold.Gate, _ *task.Task) { g.TagName, g.TagValue = "n", "w" }, false},
		"before it ends":                  {func(g *hold.Gate, _ *task.Task) { g.Until = now + 1 }, true},
		"when it ends":                    {func(g *hold.Gate, _ *task.Task) { g.Until = now }, false},
		"ended":                           {func(g *hold.Gate, _ *task.Task) { g.Ended = now - 1 }, false},
		"resumed when the task was to go": {func(g *hold.Gate, t *task.Task) { g.Resumed, t.Wake = now-10, now-10 }, true},
		"resumed before":                  {func(g *hold.Gate, t *task.Task) { g.Resumed, t.Wake = now-10, now-9 }, false},
		"probing, not let through":        {probing(func(t *task.Task) { t.Enqueued = now - 6 }), true},
		"probing, a probe":                {probing(func(t *task.Task) { t.State, t.Enqueued = task.Enqueued, now-5 }), false},
		"probing, a probe in its row":     {probing(func(t *task.Task) { t.Enqueued = now - 5 }), false},
		"probing, a probe that snoozes":   {probing(func(t *task.Task) { t.Enqueued, t.Attempt = now-5, 1 }), true},
		"probing, a probe to be retried":  {probing(func(t *task.Task) { t.State, t.Enqueued, t.Attempt = task.RetriableFailure, now-5, 1 }), true},
	} {
		g, one := &hold.Gate{Ref: 7, Action: hold.Pause}, waiting()
		c.change(g, one)
		if g.Holds(one, now) != c.holds {
			t.Errorf("%s: it holds the task: %t, want %t", name, !c.holds, c.holds)
		}
	}
}

func TestOfSeveralGatesThePausingOneHolds(t *testing.T) {
	gate := func(id string, a hold.Action, until task.Instant) *hold.Gate {
		return &hold.Gate{ID: id, Ref: 7, Action: a, Until: until}
	}
	all := hold.Gates{gate("1", hold.Drop, now+30), gate("2", hold.Pause, now), gate("3", hold.Pause, now+20), gate("4", hold.Pause, now+10)}
	if g := all.Of(waiting(), now); g != all[2] {
		t.Errorf("%v holds the task, want the oldest one that pauses and is in force", g)
	}
	if at := all.Ends(now); at != now+10 {
		t.Errorf("the first one ends at %d, want %d", at, now+10)
	}
}

// TestWhenGatesHoldOtherTasks compares a gate with what became of it.
func TestWhenGatesHoldOtherTasks(t *testing.T) {
	for name, c := range map[string]struct {
		probes bool
		change func(g *hold.Gate)
		same   bool
	}{
		"not at all":              {false, func(*hold.Gate) {}, true},
		"changed":                 {false, func(g *hold.Gate) { g.Version++ }, false},
		"another one":             {true, func(g *hold.Gate) { g.ID = "2" }, false},
		"that has counted probes": {true, func(g *hold.Gate) { g.Version++ }, true},
		"that probes anew":        {true, func(g *hold.Gate) { g.Version++; g.Resumed++ }, false},
		"that pauses again":       {true, func(g *hold.Gate) { g.Version++; g.Resumed = 0 }, false},
		"that has closed":         {true, func(g *hold.Gate) { g.Version++; g.Ended = now }, false},
	} {
		g := hold.Gate{Meta: control.Meta{Version: 3}, ID: "1", Ref: 7}
		if c.probes {
			g.Breaker, g.Resumed = &hold.Breaker{}, now-5
		}
		next := g
		if c.change(&next); (hold.Gates{&g}).Equal(hold.Gates{&next}) != c.same {
			t.Errorf("a gate %s: the same tasks: %t, want %t", name, !c.same, c.same)
		}
	}
}
