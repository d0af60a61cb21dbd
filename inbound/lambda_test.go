package inbound_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	isUnknownLambda = kinesinv1.Reason_REASON_UNKNOWN_LAMBDA
	isInUse         = kinesinv1.Reason_REASON_IN_USE
)

type lambda = kinesinv1.Lambda

func TestCreateLambdaRefusals(t *testing.T) {
	run(t, func(f *fixture) {
		for what, c := range map[string]struct {
			lambda *lambda
			reason kinesinv1.Reason
			word   string
		}{
			"nothing":              {nil, isInvalid, "no lambda"},
			"bad name":             {&lambda{Name: "a/b"}, isInvalid, "a-z, A-Z, 0-9"},
			"deliver":              {&lambda{Name: "x", Mode: "deliver"}, kinesinv1.Reason_REASON_UNSUPPORTED, "need SQS"},
			"unknown mode":         {&lambda{Name: "x", Mode: "magic"}, isInvalid, "managed or deliver"},
			"too many shards":      {&lambda{Name: "x", Shards: 1025}, isInvalid, "1 to 1024"},
			"shards that overflow": {&lambda{Name: "x", Shards: 1 << 16}, isInvalid, "1 to 1024"},
			"nine priorities":      {&lambda{Name: "x", Priorities: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}}, isInvalid, "1 to 8"},
			"timeout overflows":    {&lambda{Name: "x", Timeout: 18_446_744_073_709_552 + 1_000_000}, isInvalid, "timeout"},
			"weight of nobody":     {&lambda{Name: "x", PriorityWeights: map[string]uint32{"urgent": 2}}, isInvalid, `"urgent" is no priority of the lambda, which has high, normal, low`},
			"weight 0":             {&lambda{Name: "x", PriorityWeights: map[string]uint32{"high": 0}}, isInvalid, `weight of priority "high" 0: want 1 to 1000`},
			"weights to deliver":   {&lambda{Name: "x", Mode: "deliver", PriorityWeights: map[string]uint32{"high": 2}}, isInvalid, "priority weights: not for mode deliver"},
			"key limit to deliver": {&lambda{Name: "x", Mode: "deliver", LimitKeyConcurrency: 2}, isInvalid, "limits by key: not for mode deliver"},
			"key limit too high":   {&lambda{Name: "x", LimitKeyConcurrency: 100_001}, isInvalid, "limit key concurrency 100001: want 1 to 100000"},
			"key rate too low":     {&lambda{Name: "x", LimitKeyRate: 0.0001}, isInvalid, "want 0.001 to 1000000 starts per second"},
			"other weights":        {&lambda{Name: "mail", Shards: 2, PriorityWeights: map[string]uint32{"high": 2}}, kinesinv1.Reason_REASON_EXISTS, "exists with other settings"},
			"short retention":      {&lambda{Name: "x", Retention: 59_999_999}, isInvalid, "1m0s"},
			"other settings":       {&lambda{Name: "mail", Shards: 7}, kinesinv1.Reason_REASON_EXISTS, "shards 2"},
		} {
			_, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: c.lambda})
			wantError(t, what, err, c.reason, c.word)
		}
		_, err := f.GetLambda(f.ctx, &kinesinv1.GetLambdaRequest{Name: "nobody"})
		wantError(t, "get", err, isUnknownLambda, "nobody")
	})
}

func TestUpdateLambda(t *testing.T) {
	run(t, func(f *fixture) {
		update := func(l *lambda) (*lambda, error) {
			l.Name = "mail"
			r, err := f.UpdateLambda(f.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: l}))
			return r.GetLambda(), err
		}
		got, err := update(&lambda{MaxAttempts: 2, Shards: 2, Priorities: []string{"high", "normal", "low"}})
		if err != nil || got.MaxAttempts != 2 || got.Version != 2 || got.Timeout != task.TimeoutDefault.Microseconds() {
			t.Errorf("%v, %v", got, err)
		}
		got, err = update(&lambda{BackoffMin: 5_000_000}) // the other one stays
		if err != nil || got.BackoffMin != 5_000_000 || got.BackoffMax != task.BackoffMaxDefault.Microseconds() {
			t.Errorf("%v, %v", got, err)
		}
		got, err = update(&lambda{BackoffMax: 6_000_000, Timeout: 200_000, Retention: 61_000_000})
		if err != nil || got.BackoffMin != 5_000_000 || got.BackoffMax != 6_000_000 || got.Timeout != 200_000 || got.Retention != 61_000_000 {
			t.Errorf("%v, %v", got, err)
		}
		got, err = update(&lambda{PriorityWeights: map[string]uint32{"high": 8, "normal": 3}})
		if want := map[string]uint32{"high": 8, "normal": 3, "low": 1}; err != nil || !maps.Equal(got.PriorityWeights, want) {
			t.Errorf("%v, %v; want weights %v", got, err, want)
		}
		if got, err = update(&lambda{MaxAttempts: 3}); err != nil || got.PriorityWeights["high"] != 8 {
			t.Errorf("another change: %v, %v", got, err)
		}
		for what, c := range map[string]struct {
			lambda *lambda
			word   string
		}{
			"weights":         {&lambda{PriorityWeights: map[string]uint32{"high": 1001}}, "1 to 1000"},
			"priorities":      {&lambda{Priorities: []string{"low", "high"}}, "cannot change"},
			"fewer shards":    {&lambda{Shards: 1}, "shards only grow: lambda mail has 2, and 1 are asked for"},
			"mode":            {&lambda{Mode: "deliver"}, "cannot change"},
			"backoff minimum": {&lambda{BackoffMin: 7_000_000}, "backoff maximum"},
			"negative":        {&lambda{Timeout: -1}, "100ms"},
			"key limit":       {&lambda{LimitKeyConcurrency: -1}, "limit key concurrency -1: want 1 to 100000"},
			"breaker":         {&lambda{Breaker: &kinesinv1.Breaker{}}, "breaker failures 0: want 0.01 to 1"},
			"breaker window":  {&lambda{Breaker: &kinesinv1.Breaker{Window: 10_000_000}}, "the lambda has no breaker"},
		} {
			_, err := update(c.lambda)
			wantError(t, what, err, isInvalid, c.word)
		}
		_, err = f.UpdateLambda(f.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: &lambda{Name: "nobody"}}))
		wantError(t, "unknown", err, isUnknownLambda)
	})
}

// Each setting of a lambda is set, stays when another one changes, and gets its default again.
func TestEachSettingOfALambda(t *testing.T) {
	values := &lambda{
		Shards: 8, MaxAttempts: 3, Timeout: 60_000_000, BackoffMin: 2_000_000, BackoffMax: 4_000_000, Retention: 86_400_000_000, KeyRetention: 3_600_000_000,
		PoisonBound: 5, StartWithin: 60_000_000, PriorityWeights: map[string]uint32{"high": 8, "normal": 2, "low": 1}, LimitKeyConcurrency: 3, LimitKeyRate: 0.5,
		RetryShare: 0.2, Breaker: &kinesinv1.Breaker{Failures: 0.5, Window: 30_000_000}, Target: &kinesinv1.Target{Url: "https://example.com/", Method: "PUT", Slots: 3},
	}
	run(t, func(f *fixture) {
		made, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &lambda{Name: "each", Shards: 1}})
		if err != nil {
			t.Fatal(err)
		}
		update := func(l *lambda, reset ...string) protoreflect.Message {
			l.Name = "each"
			r, err := f.UpdateLambda(f.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: l}, reset...))
			if err != nil {
				t.Fatal(l, reset, err)
			}
			return r.GetLambda().ProtoReflect()
		}
		for _, name := range api.Changeable(&kinesinv1.UpdateLambdaRequest{}) {
			if name == "target_headers" || name == "target_secrets" {
				continue // no answer has them: TestTargetOfALambda of cmd/kinesin/cli
			}
			field := values.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
			want, before := values.ProtoReflect().Get(field), made.GetLambda().ProtoReflect().Get(field)
			one := &lambda{}
			one.ProtoReflect().Set(field, want)
			if got := update(one).Get(field); !got.Equal(want) {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
			if got := update(&lambda{MaxAttempts: 7, Timeout: 30_000_000}).Get(field); name != "max_attempts" && name != "timeout" && !got.Equal(want) {
				t.Errorf("%s is %v after another change, want %v", name, got, want)
			}
			if name == "shards" { // they only grow
				_, err := f.UpdateLambda(f.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: &lambda{Name: "each"}}, name))
				wantError(t, name, err, isInvalid, "shards only grow")
				continue
			}
			if got := update(&lambda{}, name).Get(field); !got.Equal(before) {
				t.Errorf("%s is %v after a reset, want %v", name, got, before)
			}
		}
		_, err = f.UpdateLambda(f.ctx, &kinesinv1.UpdateLambdaRequest{Lambda: &lambda{Name: "each", Timeout: 1_000_000}})
		wantError(t, "no mask", err, isInvalid, "timeout is set, and not in fields")
		_, err = f.UpdateLambda(f.ctx, &kinesinv1.UpdateLambdaRequest{Lambda: &lambda{Name: "each"}, Fields: []string{"mode"}})
		wantError(t, "mode", err, isInvalid, `"mode" is no field that can be changed or reset: want any of backoff_max, backoff_min`)
	})
}

// remove deletes lambda mail beside the moving clock.
func (f *fixture) remove(d time.Duration, dropTasks bool) (dropped int64, err error) {
	f.t.Helper()
	f.during(d, func() {
		var r *kinesinv1.DeleteLambdaResponse
		r, err = f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail", DropTasks: dropTasks})
		dropped = r.GetDropped()
	})
	return dropped, err
}

func TestDeleteLambdaRefusesWhileTasksLive(t *testing.T) {
	for name, live := range map[string]func(f *fixture){
		"waiting":  func(f *fixture) { f.accept(in(time.Minute)) },
		"keyed":    func(f *fixture) { f.accept(with(in(time.Minute), func(i *item) { i.Key = "k" })) },
		"enqueued": func(f *fixture) { f.accept(in(0)) },
		"running":  func(f *fixture) { f.claim(f.accept(in(0))) },
		"failed":   func(f *fixture) { id := f.accept(in(0)); f.claim(id); f.finish(id, task.OutcomeRetriable) },
		"far away": func(f *fixture) { f.accept(in(horizon)) },
	} {
		run(t, func(f *fixture) {
			live(f)
			_, err := f.remove(0, false)
			wantError(t, name, err, isInUse, "mail", "dropped")
			f.accept(in(time.Minute)) // it was not touched
		})
	}
}

func TestDeleteLambdaForgetsItsMessagesAndKeepsItsHistory(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(0))
		f.claim(id)
		f.finish(id, task.OutcomeSuccess)
		if _, err := f.remove(0, false); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.dropped, []uint32{f.lambda.Ref}) {
			t.Errorf("messages of %v were dropped", f.dropped)
		}
		wantRefusal(t, "schedule", f.schedule(in(0))[0].Problem, isUnknownLambda)
		if got := f.get(id).Task; got.GetState() != "success" || got.Lambda != "(deleted)" {
			t.Errorf("%v", got)
		}
		_, err := f.remove(0, false)
		wantError(t, "again", err, isUnknownLambda)
	})
}

func TestDeleteLambdaDropsWhatLives(t *testing.T) {
	run(t, func(f *fixture) {
		var ids []string
		for n := range 1200 { // more than one write takes
			ids = append(ids, f.accept(with(in(time.Minute), func(i *item) { i.Priority = f.lambda.Priorities[n%3] })))
		}
		failed := f.accept(in(0))
		f.claim(failed)
		f.finish(failed, task.OutcomeRetriable)
		ids = append(ids, f.accept(in(0)), f.accept(with(in(time.Minute), func(i *item) { i.Key = "k" })), failed)
		done := f.wait(30*time.Second, ids[:900]...)
		f.during(0, func() {})
		dropped, err := f.remove(time.Second, true)
		if err != nil || dropped != int64(len(ids)) {
			t.Errorf("dropped %d of %d, %v", dropped, len(ids), err)
		}
		for _, id := range ids {
			if got := f.row(id).State; got != task.Dropped {
				t.Fatalf("a task is %s", got)
			}
		}
		if len(f.waitingRows()) != 0 {
			t.Errorf("%d wake-up rows are left", len(f.waitingRows()))
		}
		f.wantAnswer(done, 20*time.Millisecond, "dropped")
	})
}

func TestDeleteLambdaWaitsForRunningTasks(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(0))
		running := f.claim(id)
		done := make(chan error, 1)
		go func() {
			_, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail", DropTasks: true})
			done <- err
		}()
		synctest.Wait()
		f.time.Advance(3 * time.Second)
		if len(f.stopped) != 1 || f.stopped[0] != running.ID {
			t.Errorf("workers were told of %v", f.stopped)
		}
		wantRefusal(t, "schedule", f.schedule(in(0))[0].Problem, isUnknownLambda, "being deleted")
		f.finish(id, task.OutcomeCancelled)
		f.time.Advance(time.Second)
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Fatal("still waits")
		}
	})
}

func TestDeleteLambdaGivesUpOnATaskThatDoesNotStop(t *testing.T) {
	run(t, func(f *fixture) {
		f.claim(f.accept(in(0)))
		_, err := f.remove(time.Minute, true)
		wantError(t, "running", err, isInUse, "told to stop", "try again")
		f.accept(in(0)) // the lambda takes tasks again
	})
}

func TestADeletionWhoseCallerIsGoneIsTakenBack(t *testing.T) {
	run(t, func(f *fixture) {
		f.claim(f.accept(in(0)))
		ctx, cancel := context.WithCancel(f.ctx)
		done := make(chan error, 1)
		go func() {
			_, err := f.DeleteLambda(ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail", DropTasks: true})
			done <- err
		}()
		f.during(time.Second, cancel)
		synctest.Wait()
		if err := <-done; err == nil {
			t.Error("deleted")
		}
		f.accept(in(0))
	})
}

// A call that saw the lambda before its deletion began must not store a task after the deletion looked.
func TestDeleteLambdaWaitsForCallsInHand(t *testing.T) {
	run(t, func(f *fixture) {
		blocked, goOn := make(chan struct{}), make(chan struct{})
		f.rows.beforeApply = func(ops []store.Op) {
			if ops[0].Kind == store.PutWakeup {
				f.rows.mu.Lock()
				f.rows.beforeApply = nil
				f.rows.mu.Unlock()
				close(blocked)
				<-goOn
			}
		}
		var all sync.WaitGroup
		var result *kinesinv1.ScheduleResult
		all.Go(func() { result = f.schedule(in(time.Minute))[0] })
		<-blocked
		deleted := make(chan error, 1)
		all.Go(func() {
			_, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail"})
			deleted <- err
		})
		synctest.Wait()
		if len(deleted) != 0 {
			t.Error("deleted while a call was in flight")
		}
		wantRefusal(t, "a later call", f.schedule(in(time.Minute))[0].Problem, isUnknownLambda, "being deleted")
		close(goOn)
		all.Wait()
		if result.Problem != nil {
			t.Errorf("the call in flight: %v", result.Problem)
		}
		wantError(t, "delete", <-deleted, isInUse)
		f.accept(in(time.Minute))
	})
}

func TestDropLeavesOtherLambdasAlone(t *testing.T) {
	run(t, func(f *fixture) {
		if _, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &lambda{Name: "other"}}); err != nil {
			t.Fatal(err)
		}
		near := f.accept(with(in(0), func(i *item) { i.Lambda = "other" }))
		far := f.accept(with(in(time.Hour), func(i *item) { i.Lambda = "other" }))
		f.accept(in(0))
		if dropped, err := f.remove(0, true); err != nil || dropped != 1 {
			t.Errorf("dropped %d, %v", dropped, err)
		}
		if got := f.get(far).Task.State; got != "scheduled" {
			t.Errorf("%s", got)
		}
		d, err := f.queue.Depth(f.ctx, queue.NameFor(&task.Task{Partition: f.row(near).Partition}))
		if err != nil || d.Visible != 1 {
			t.Errorf("%d messages, %v", d.Visible, err)
		}
	})
}
