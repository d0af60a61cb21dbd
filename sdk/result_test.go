package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
	"github.com/kinesin-io/kinesin/task"
)

// sum is a lambda whose handler gives a result.
var sum = sdk.NewLambda[[]int]("sum", sdk.Backoff(time.Minute, time.Minute), sdk.MaxAttempts(2))

// summing is a Kinesin with a worker of sum, which ends its attempts by end.
func summing(t *testing.T, end func(task *sdk.Task[[]int]) error, opts ...sdktest.Option) *sdktest.Kinesin {
	t.Helper()
	k := sdktest.New(t, opts...)
	k.Lambda(sum.Name())
	w := sdk.NewWorker(k.Client(), sdk.Slots(4), sdk.Use(func(next sdk.Handler) sdk.Handler {
		return func(ctx context.Context, task *sdk.Task[[]byte]) error { return next(ctx, task) }
	}))
	sum.Handle(w, func(_ context.Context, task *sdk.Task[[]int]) error { return end(task) })
	k.Run(w)
	return k
}

// mailed is the handler of the guide.
func mailed(_ context.Context, t *sdk.Task[[]int]) error {
	t.SetResult(map[string]string{"message": "sent"}) // kept with the task if the handler returns nil
	return nil
}

func total(task *sdk.Task[[]int]) (n int) {
	for _, i := range task.Args {
		n += i
	}
	return n
}

func TestAHandlerGivesAResult(t *testing.T) {
	k := summing(t, func(task *sdk.Task[[]int]) error {
		task.SetResult("half")
		task.SetResult(map[string]int{task.Tags["as"]: total(task)})
		return nil
	})
	id, err := sum.Schedule(t.Context(), k.Client(), []int{40, 2}, sdk.Tag("as", "x"), sdk.Tag("as", "sum"))
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(time.Second)
	info := k.Task(id)
	if string(info.Result) != `{"sum":42}` || info.ResultBytes != 10 || info.State != sdk.StateSuccess || info.Tags["as"] != "sum" {
		t.Errorf("%+v", info)
	}
	waited, err := k.Client().Wait(t.Context(), id)
	if err != nil || string(waited[0].Task.Result) != `{"sum":42}` {
		t.Errorf("wait: %+v, %v", waited, err)
	}
}

func TestTheResultOfTheGuide(t *testing.T) {
	k := sdktest.New(t)
	k.Lambda(sum.Name())
	w := sdk.NewWorker(k.Client())
	sum.Handle(w, mailed)
	k.Run(w)
	id, err := sum.Schedule(t.Context(), k.Client(), nil)
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(time.Second)
	if info := k.Task(id); string(info.Result) != `{"message":"sent"}` {
		t.Errorf("%s: %q", info.State, info.Result)
	}
}

// Neither a failure nor a result that cannot be kept leaves one; the latter says why.
func TestResultsThatAreNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(task *sdk.Task[[]int]) error
		says string
	}{
		"failed":    {func(task *sdk.Task[[]int]) error { task.SetResult(1); return errors.New("no") }, "no"},
		"too large": {func(t *sdk.Task[[]int]) error { t.SetResult(make([]byte, task.ResultBytesMax+1)); return nil }, "the result has 32769 bytes: at most 32768 are kept"},
		"no JSON":   {func(task *sdk.Task[[]int]) error { task.SetResult(func() {}); return nil }, "encode the result: json: unsupported type: func()"},
	} {
		t.Run(name, func(t *testing.T) {
			k := summing(t, c.end)
			id, err := sum.Schedule(t.Context(), k.Client(), nil)
			if err != nil {
				t.Fatal(err)
			}
			k.Advance(time.Second)
			info := k.Task(id)
			if info.State != sdk.StateRetriableFailure || len(info.Result) != 0 || !strings.HasPrefix(info.Attempts[0].Error, c.says) {
				t.Errorf("%s, result %q, %+v; want %q", info.State, info.Result, info.Attempts, c.says)
			}
		})
	}
}

// An answer has room for some results; the client asks for the others.
func TestManyResultsAreReadInParts(t *testing.T) {
	const tasks = 100 // of 32 KiB each: more than 2 MiB
	k := summing(t, func(t *sdk.Task[[]int]) error {
		t.SetResult(bytes.Repeat([]byte{byte(total(t))}, task.ResultBytesMax))
		return nil
	})
	var ids []sdk.ID
	for i := range tasks {
		id, err := sum.Schedule(t.Context(), k.Client(), []int{i})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	k.Advance(time.Second)
	for name, read := range map[string]func() ([]sdk.GetResult, error){
		"get":  func() ([]sdk.GetResult, error) { return k.Client().GetMany(t.Context(), ids) },
		"wait": func() ([]sdk.GetResult, error) { return k.Client().Wait(t.Context(), ids...) },
	} {
		all, err := read()
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if got := all[i].Task.Result; len(got) != task.ResultBytesMax || got[0] != byte(i) {
				t.Errorf("%s: result %d has %d bytes", name, i, len(got))
			}
		}
	}
}

// A caller who may not read results is not asked about them for ever.
func TestResultsThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var calls atomic.Int32
	s.get = func(r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
		calls.Add(1)
		response := &kinesinv1.GetResponse{}
		for _, id := range r.Ids {
			task := &kinesinv1.Task{Id: id, State: "success", ResultBytes: 3}
			if id == "none" {
				task.ResultBytes = 0
			}
			response.Results = append(response.Results, &kinesinv1.GetResult{Task: task})
		}
		return response, nil
	}
	all, err := s.client(t).GetMany(t.Context(), []sdk.ID{"a", "none", "b"})
	if err != nil || calls.Load() != 2 || all[0].Task.ResultBytes != 3 || all[0].Task.Result != nil {
		t.Errorf("%+v, %v, %d calls", all, err, calls.Load())
	}
}

func TestResultsAreEncodedBetweenPrograms(t *testing.T) {
	codec := &changing{aesgcm(t, "a")}
	k := summing(t, func(task *sdk.Task[[]int]) error { task.SetResult(total(task)); return nil }, sdktest.PayloadCodec(codec))
	for _, opts := range [][]sdk.Option{nil, {sdk.Key("k")}} {
		codec.PayloadCodec = aesgcm(t, "a")
		id, err := sum.Schedule(t.Context(), k.Client(), []int{40, 2}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Second)
		if info := k.Task(id); string(info.Result) != "42" {
			t.Errorf("result %q", info.Result)
		}
		codec.PayloadCodec = asIs{}
		if info := k.Task(id); len(info.Result) < 30 || info.ResultBytes != int64(len(info.Result)) || bytes.Equal(info.Result, info.Payload) {
			t.Errorf("the server has %q", info.Result)
		}
	}
}

// A result is no payload of its task, nor the other way round.
func TestAResultIsBoundToItsTask(t *testing.T) {
	t.Parallel()
	c := aesgcm(t, "a")
	for _, payload := range []sdk.PayloadContext{someTask, keyedTask} {
		result := payload
		result.Result = true
		for of, as := range map[sdk.PayloadContext]sdk.PayloadContext{payload: result, result: payload} {
			if plain, err := c.Decode(t.Context(), as, encoded(t, c, of)); !isFatal(err) || plain != nil {
				t.Errorf("that of %+v as that of %+v: %q, %v", of, as, plain, err)
			}
			if plain, err := c.Decode(t.Context(), of, encoded(t, c, of)); err != nil || !bytes.Equal(plain, secret) {
				t.Errorf("%+v: %q, %v", of, plain, err)
			}
		}
	}
}

// A task that nobody runs expires, with the SDK's own options.
func TestATaskThatNobodyRunsExpires(t *testing.T) {
	k := sdktest.New(t)
	k.Lambda(sum.Name())
	id, err := sum.Schedule(t.Context(), k.Client(), nil, sdk.In(time.Minute), sdk.StartBefore(k.Now().Add(2*time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(3 * time.Minute)
	if info := k.Task(id); info.State != sdk.StateExpired || !info.State.IsEnd() || info.Ended.Before(info.StartBefore) || len(info.Attempts) != 0 {
		t.Errorf("%+v", info)
	}
}

// All slots are taken, and the task waits in its queue.
func TestATaskThatWaitsForASlotExpires(t *testing.T) {
	k := sdktest.New(t)
	k.Lambda(sum.Name())
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	sum.Handle(w, func(ctx context.Context, _ *sdk.Task[[]int]) error { return k.Sleep(ctx, 10*time.Minute) })
	k.Run(w)
	first, err := sum.Schedule(t.Context(), k.Client(), nil)
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(time.Minute)
	var waiting []sdk.ID
	for _, in := range []time.Duration{0, 30 * time.Second} { // one is stored with a task row, one without
		id, err := sum.Schedule(t.Context(), k.Client(), nil, sdk.In(in), sdk.StartBefore(k.Now().Add(2*time.Minute)))
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, id)
	}
	k.Advance(3 * time.Minute)
	for _, id := range waiting {
		if info := k.Task(id); info.State != sdk.StateExpired || len(info.Attempts) != 0 {
			t.Errorf("%s since %v, %d attempts", info.State, info.Ended, len(info.Attempts))
		}
	}
	k.Advance(10 * time.Minute)
	if info := k.Task(first); info.State != sdk.StateSuccess {
		t.Errorf("the first one: %s", info.State)
	}
}
