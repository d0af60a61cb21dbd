package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// stepLog notes which tasks ran, by their payload, and what they were told of the task before them.
type stepLog struct {
	mu   sync.Mutex
	seen []string
}

func (s *stepLog) handler(_ context.Context, t *sdk.Task[[]byte]) error {
	name := string(t.Payload)
	text := name
	if p := t.Parent; p != nil {
		text += fmt.Sprintf("<%s:%s:%s:%s", p.Edge, p.State, p.Result, p.Error)
	}
	s.mu.Lock()
	s.seen = append(s.seen, text)
	s.mu.Unlock()
	switch {
	case strings.HasPrefix(name, "fail"):
		return sdk.Fatal(errors.New("no " + name))
	case name == "sleep":
		time.Sleep(10 * time.Minute)
	case name == "typo":
		t.Then(sdk.Item{Lambda: "mial"}.Step())
	case strings.HasPrefix(name, "more"):
		t.Then(sdk.Item{Lambda: "mail", Payload: []byte("added")}.Step())
	}
	t.SetResult([]byte("r-" + name))
	return nil
}

func (s *stepLog) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(s.seen)), " ")
}

func mail(payload string) sdk.Step { return sdk.Item{Lambda: "mail", Payload: []byte(payload)}.Step() }

// states draws a chain in a line.
func states(t *sdk.ChainTask) string {
	text := string(t.State)
	for i := range t.Followups {
		next := &t.Followups[i]
		text += fmt.Sprintf(" %s(%s)", next.Edge, states(next))
	}
	return text
}

func (r *rig) chain(id sdk.ID) string {
	r.Helper()
	c, err := r.client.GetChain(r.ctx, id)
	if err != nil {
		r.Fatal(err)
	}
	return c.State + ": " + states(&c.Root)
}

func TestAChainRuns(t *testing.T) {
	for _, n := range []int{1, 3} {
		inRig(t, drivers{}, n, nil, func(r *rig) {
			r.lambda(admin.Lambda{Name: "mail"})
			var s stepLog
			r.work(r.nodes[0], "mail", s.handler)
			id, err := sdk.Chain(mail("a"), mail("b").After(10*time.Minute).Finally(mail("always")), mail("more"), mail("fail"), mail("never")).
				OnFailure(mail("undo")).Schedule(r.ctx, r.client)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if got, want := r.chain(id), "live: success then(scheduled then(planned"; !strings.HasPrefix(got, want) {
				t.Errorf("%s, want %s…", got, want)
			}
			time.Sleep(11 * time.Minute)
			const want = "a added<then:success:r-more: always<finally:success:r-b: b<then:success:r-a: fail<then:success:r-more: more<then:success:r-b: undo<else:fatal_failure::no fail"
			if got := s.all(); got != want {
				t.Errorf("%d nodes: ran %s\nwant %s", n, got, want)
			}
			if got, want := r.chain(id), "ended: success then(success then(success then(fatal_failure then(skipped else(skipped)) else(success)) then(success) else(skipped)) else(skipped) finally(success)) else(skipped)"; got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

// interrupted is a store that breaks when a task has ended that another one follows, as if the process died before
// the next write.
type interrupted struct {
	store.Driver

	broken, mended atomic.Bool
}

func (s *interrupted) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	if s.broken.Load() && !s.mended.Load() {
		return nil, store.ErrUnknown
	}
	ends := slices.IndexFunc(ops, func(op store.Op) bool { return op.Task.State.IsEnd() && op.Task.HasFollowups() })
	if ends < 0 || !s.broken.CompareAndSwap(false, true) {
		return s.Driver.Apply(ctx, ops)
	}
	results, err := s.Driver.Apply(ctx, ops[:ends+1])
	return append(results, slices.Repeat([]error{store.ErrUnknown}, len(ops)-ends-1)...), err
}

// A chain between the end of a task and the first rows of what follows that is neither over, nor cancelled without
// the task that is to come.
func TestAChainBetweenAnEndAndWhatFollows(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		var rows interrupted
		over := func(d store.Driver) store.Driver {
			rows.Driver = d
			return &rows
		}
		inRig(t, drivers{over: over}, 1, nil, func(r *rig) {
			r.lambda(admin.Lambda{Name: "mail"})
			var s stepLog
			r.work(r.nodes[0], "mail", s.handler)
			id, err := sdk.Chain(mail("a"), mail("b").After(time.Minute)).Schedule(r.ctx, r.client)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
			rows.mended.Store(true)
			want, ran := "live: success then(scheduled)", "a b<then:success:r-a:"
			if cancel {
				want, ran = "ended: success then(cancelled)", "a"
				if c, err := r.admin().Chains.Cancel(r.ctx, id); err != nil || c.Changed != 1 {
					t.Errorf("cancel: %+v, %v; want 1 changed", c, err)
				}
			}
			if got := r.chain(id); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			time.Sleep(2 * time.Minute)
			if got := s.all(); got != ran {
				t.Errorf("ran %s, want %s", got, ran)
			}
		})
	}
}

// A task whose handler adds a follow-up of an unknown lambda has failed for good, and says why.
func TestAHandlerAddsAnUnknownLambda(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		id, err := sdk.Chain(mail("typo")).OnFailure(mail("undo")).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		const want = `typo undo<else:fatal_failure::what was to follow the task is refused: then[0]: unknown lambda "mial"`
		if got := s.all(); !strings.HasPrefix(got, want) {
			t.Errorf("ran %s, want %s", got, want)
		}
		if got, want := r.chain(id), "ended: fatal_failure else(success)"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// A handler that always adds one more ends at the 100th task of the row, which says why.
func TestAHandlerAddsUntilTheChainIsTooDeep(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var ran atomic.Int32
		r.work(r.nodes[0], "mail", func(_ context.Context, k *sdk.Task[[]byte]) error {
			ran.Add(1)
			k.Then(mail("again"))
			return nil
		})
		id, err := sdk.Chain(mail("again")).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		all, err := r.client.Count(r.ctx, "lambda = mail AND state = success", true)
		if ran.Load() != task.ChainDepthMax || err != nil || all.Count != task.ChainDepthMax-1 {
			t.Errorf("%d ran, and %d of them succeeded, %v; want %d and all but the last", ran.Load(), all.Count, err, task.ChainDepthMax)
		}
		c, err := r.client.GetChain(r.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		last := &c.Root
		for len(last.Followups) > 0 {
			last = &last.Followups[0]
		}
		if last.State != sdk.StateFatalFailure || !strings.Contains(last.Error, "it is task 101 of a row: at most 100 tasks may follow each other") {
			t.Errorf("the last one: %s, %s", last.State, last.Error)
		}
	})
}

// A redrive leaves tasks that else and finally lead to, and says so if only these have failed.
func TestARedriveSaysWhatItLeaves(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		id, err := sdk.Chain(mail("a").Finally(mail("fail"))).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := r.admin().Chains.Redrive(r.ctx, id); !errors.Is(err, sdk.ErrTooLate) || !strings.Contains(err.Error(), "only tasks have failed that else or finally lead to") {
			t.Error(err)
		}
	})
}

// What followed the ends of a task from which it was redriven is shown, and cancelled by the same rule as what
// follows its newest end: also what its handler had added, and what came after that in turn.
func TestWhatFollowedBeforeARedrive(t *testing.T) {
	later := func(payload string) sdk.Step { return mail(payload).After(3 * time.Hour) }
	for name, c := range map[string]struct {
		first     sdk.Step
		shown     string
		before    int // tasks that are shown as from before a redrive
		change    admin.ChainChange
		cancelled string
	}{
		"else": {
			mail("fail").Else(later("undo")), "live: fatal_failure else(scheduled) else(scheduled) else(scheduled)", 2,
			admin.ChainChange{Left: 3},
			"live: fatal_failure else(scheduled) else(scheduled) else(scheduled)",
		},
		"then": {
			mail("a").Then(later("b")), "live: success then(scheduled) then(scheduled) then(scheduled)", 2,
			admin.ChainChange{Changed: 3},
			"ended: success then(cancelled) then(cancelled) then(cancelled)",
		},
		"finally": {
			mail("a").Finally(later("b")), "live: success finally(scheduled) finally(scheduled) finally(scheduled)", 2,
			admin.ChainChange{Left: 3},
			"live: success finally(scheduled) finally(scheduled) finally(scheduled)",
		},
		"added": {
			mail("adds").Then(later("b")), "live: success" + strings.Repeat(" then(scheduled)", 6), 4,
			admin.ChainChange{Changed: 6},
			"ended: success" + strings.Repeat(" then(cancelled)", 6),
		},
		"added to nothing": {
			mail("adds"), "live: success" + strings.Repeat(" then(scheduled)", 3), 2,
			admin.ChainChange{Changed: 3},
			"ended: success" + strings.Repeat(" then(cancelled)", 3),
		},
		"with a key": {
			mail("a").Then(keyed("b").After(3 * time.Hour)), "live: success then(held) then(scheduled)", 1,
			admin.ChainChange{Changed: 1},
			"ended: success then(held) then(cancelled)",
		},
		"further down": {
			mail("a").Then(mail("b").Then(later("c"))), "live: success" + strings.Repeat(" then(success then(scheduled))", 3), 4,
			admin.ChainChange{Changed: 3},
			"ended: success" + strings.Repeat(" then(success then(cancelled))", 3),
		},
		"both ways": {
			mail("sleep").Then(later("b")).Else(later("undo")), "live: success then(scheduled) else(skipped) then(scheduled) then(scheduled)", 2,
			admin.ChainChange{Changed: 3},
			"ended: success then(cancelled) else(skipped) then(cancelled) then(cancelled)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, drivers{}, 1, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail"})
				var s stepLog
				r.work(r.nodes[0], "mail", func(ctx context.Context, k *sdk.Task[[]byte]) error {
					if string(k.Payload) == "adds" {
						k.Then(later("added"))
					}
					return s.handler(ctx, k)
				})
				id, err := sdk.Chain(c.first).Schedule(r.ctx, r.client)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Minute)
				for range 2 {
					if changed, err := r.client.Redrive(r.ctx, []sdk.ID{id}, sdk.Force()); err != nil || changed[0].Err != nil {
						t.Fatal(changed, err)
					}
					time.Sleep(20 * time.Minute)
				}
				if got := r.chain(id); got != c.shown {
					t.Errorf("%s, want %s", got, c.shown)
				}
				if got := r.beforeRedrive(id); got != c.before {
					t.Errorf("%d tasks are shown as from before a redrive, want %d", got, c.before)
				}
				c.change.ID = id
				if got, err := r.admin().Chains.Cancel(r.ctx, id); err != nil || got != c.change {
					t.Errorf("%+v, %v, want %+v", got, err, c.change)
				}
				time.Sleep(time.Minute)
				if got := r.chain(id); got != c.cancelled {
					t.Errorf("cancelled: %s, want %s", got, c.cancelled)
				}
			})
		})
	}
}

// beforeRedrive returns how many tasks of a chain are shown as from before a redrive.
func (r *rig) beforeRedrive(id sdk.ID) int {
	r.Helper()
	c, err := r.client.GetChain(r.ctx, id)
	if err != nil {
		r.Fatal(err)
	}
	var count func(t *sdk.ChainTask) int
	count = func(t *sdk.ChainTask) (n int) {
		if t.BeforeRedrive {
			n = 1
		}
		for i := range t.Followups {
			n += count(&t.Followups[i])
		}
		return n
	}
	return count(&c.Root)
}

// What followed an earlier end is shown while the task runs anew, and is not redriven with the chain. Only the
// newest ends are known.
func TestWhatFollowedLongBeforeARedrive(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		id, err := sdk.Chain(mail("sleep").Then(mail("fail"))).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		for range task.EarlierMax + 2 {
			time.Sleep(20 * time.Minute)
			if changed, err := r.client.Redrive(r.ctx, []sdk.ID{id}, sdk.Force()); err != nil || changed[0].Err != nil {
				t.Fatal(changed, err)
			}
		}
		time.Sleep(time.Minute)
		if got, want := r.chain(id), "live: processing then(planned)"+strings.Repeat(" then(fatal_failure)", task.EarlierMax); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		c, err := r.client.GetChain(r.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if newest := c.Root.Followups[task.EarlierMax]; time.Since(newest.Ended) > 15*time.Minute {
			t.Errorf("the newest one that is shown ended at %v", newest.Ended)
		}
		if oldest := c.Root.Followups[1]; time.Since(oldest.Ended) > task.EarlierMax*20*time.Minute {
			t.Errorf("the oldest one that is shown ended at %v, and later ones are not", oldest.Ended)
		}
		time.Sleep(20 * time.Minute)
		if got, err := r.admin().Chains.Redrive(r.ctx, id); err != nil || got.Changed != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Nothing is half created, and a refusal says where it is.
func TestABadChainIsRefused(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		to := func(lambda string) sdk.Step { return sdk.Item{Lambda: lambda}.Step() }
		deep, wide := mail("x"), make([]sdk.Step, 10_000)
		for range 100 {
			deep = mail("x").Then(deep)
		}
		for i := range wide {
			wide[i] = mail("").Then(mail(""))
		}
		for text, step := range map[string]sdk.Step{
			`then[0].else[0]: unknown lambda "nobody"`: mail("a").Then(mail("b").Else(to("nobody"))),
			"then[0]: invalid priority":                mail("a").Then(sdk.Item{Lambda: "mail", Priority: "x"}.Step()),
			"finally[0]: on_conflict reject":           mail("a").Finally(sdk.Item{Lambda: "mail", Key: "k", OnConflict: sdk.ConflictReject}.Step()),
			"then[0].then[0].then[0] (100 steps down): it is task 101 of a row: at most 100 tasks": deep,
			"then[5000]: it is follow-up 10001 of the task: at most 10000 are allowed":             mail("").Then(wide...).Else(wide[0]),
			"the task could never start, since it is due at 2000-01-01T02:00:05Z at the earliest": mail("a").
				Finally(mail("b").After(time.Hour).Then(sdk.Item{Lambda: "mail", StartBefore: time.Now()}.Step())),
			"what follows the task has 3": mail("a").Then(mail(strings.Repeat("x", 300_000/2)), mail(strings.Repeat("x", 300_000/2))),
		} {
			item, err := sdk.Chain(step.After(time.Hour)).Item()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.client.Schedule(r.ctx, item); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%.300v, want %s", err, text)
			}
		}
		if n, err := r.client.Count(r.ctx, "lambda = mail", true); err != nil || n.Count != 0 {
			t.Errorf("%+v tasks, %v", n, err)
		}
	})
}

// workMailAndGone runs the tasks of two lambdas; deleteGone deletes those of the second once they have ended.
func (r *rig) workMailAndGone(s *stepLog) {
	r.Helper()
	for _, lambda := range []string{"mail", "gone"} {
		r.lambda(admin.Lambda{Name: lambda})
		r.work(r.nodes[0], lambda, s.handler)
	}
}

func (r *rig) deleteGone() {
	r.Helper()
	time.Sleep(time.Minute)
	if _, err := r.admin().Jobs.Create(r.ctx, admin.JobSpec{Action: admin.JobDelete, Where: "lambda = gone"}); err != nil {
		r.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// A task of a chain that was deleted is shown as missing, with the reason and what followed it as far as
// that is known, and holds up no change of the chain.
func TestADeletedTaskOfAChain(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		var s stepLog
		r.workMailAndGone(&s)
		id, err := sdk.Chain(mail("a"), sdk.Item{Lambda: "gone", Payload: []byte("b")}.Step(), mail("c").After(90*time.Minute)).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		r.deleteGone()
		c, err := r.client.GetChain(r.ctx, id)
		if err != nil || len(c.Root.Followups) != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		if b := &c.Root.Followups[0]; b.State != "missing" || b.Lambda != "gone" || !strings.Contains(b.Error, "deleted") {
			t.Errorf("the deleted task is shown as %+v", b)
		}
		if _, err := r.admin().Chains.Cancel(r.ctx, id); err != nil {
			t.Error(err)
		}
	})
}

// A redrive leaves out a task that failed and was deleted.
func TestAChainIsRedrivenPastADeletedTask(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		var s stepLog
		r.workMailAndGone(&s)
		gone := sdk.Item{Lambda: "gone", Payload: []byte("fail gone")}.Step()
		id, err := sdk.Chain(mail("a").Then(gone.Finally(mail("fail under")), mail("fail beside"))).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		r.deleteGone()
		if got, err := r.admin().Chains.Redrive(r.ctx, id); err != nil || got.Changed != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		time.Sleep(time.Minute)
		const want = "a fail beside<then:success:r-a: fail beside<then:success:r-a: fail gone<then:success:r-a: fail under<finally:fatal_failure::no fail gone"
		if got := s.all(); got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
	})
}

// Follow-ups that a handler adds follow the end of that run alone: another run adds them anew.
func TestARedriveForgetsWhatTheHandlerAdded(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		for _, large := range []int{0, 20_000} { // in its row, and in a payload row
			var s stepLog
			var again atomic.Bool
			name := fmt.Sprint("large", large)
			r.lambda(admin.Lambda{Name: name})
			r.work(r.nodes[0], name, func(_ context.Context, k *sdk.Task[[]byte]) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.seen = append(s.seen, string(k.Payload[:1]))
				if string(k.Payload) == "root" && !again.Load() {
					k.Then(sdk.Item{Lambda: name, Payload: append([]byte("added"), make([]byte, large)...)}.Step())
				}
				return nil
			})
			root := sdk.Item{Lambda: name, Payload: []byte("root")}
			root.Then = []sdk.Item{{Lambda: name, Payload: []byte("fixed")}}
			first, err := r.client.Schedule(r.ctx, root)
			if err != nil {
				t.Fatal(err)
			}
			for n, want := range []string{"a f r", "a a f f r r", "a a f f f r r r"} {
				if n > 0 {
					again.Store(n == 2)
					if _, err := r.client.Redrive(r.ctx, []sdk.ID{first.ID}, sdk.Force()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				if got := s.all(); got != want {
					t.Errorf("%d bytes, run %d: %s ran, want %s", large, n, got, want)
				}
			}
		}
	})
}

// A cancel undoes what was done, and nothing follows but that.
func TestACancelledChainIsUndone(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		waits, err := sdk.Chain(mail("a"), mail("b").After(time.Hour), mail("c")).OnFailure(mail("undo")).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		runs, err := sdk.Chain(mail("sleep"), mail("d")).OnFailure(mail("unsleep")).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for id, want := range map[sdk.ID]admin.ChainChange{waits: {ID: waits, Changed: 1}, runs: {ID: runs, Told: 1}} {
			if got, err := r.admin().Chains.Cancel(r.ctx, id); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		time.Sleep(2 * time.Hour)
		if got, want := s.all(), "a sleep undo<else:cancelled:: unsleep<else:success:r-sleep:"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		if got, want := r.chain(waits), "ended: success then(cancelled then(skipped else(skipped)) else(success)) else(skipped)"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// A chain is redriven from the task that failed.
func TestAChainIsRedriven(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var mended atomic.Bool
		var s stepLog
		r.work(r.nodes[0], "mail", func(ctx context.Context, k *sdk.Task[[]byte]) error {
			if mended.Load() && string(k.Payload) == "fail" {
				k.Payload = []byte("mended")
			}
			return s.handler(ctx, k)
		})
		id, err := sdk.Chain(mail("a"), mail("fail"), mail("c")).OnFailure(mail("undo")).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, want := range []string{"", "too late"} {
			mended.Store(true)
			got, err := r.admin().Chains.Redrive(r.ctx, id)
			if want == "" && (err != nil || got.Changed != 1) || want != "" && !errors.Is(err, sdk.ErrTooLate) {
				t.Errorf("%+v, %v", got, err)
			}
			time.Sleep(time.Minute)
		}
		if got, want := s.all(), "a c<then:success:r-mended: fail<then:success:r-a: mended<then:success:r-a: undo<else:fatal_failure::no fail"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
	})
}
