package inbound_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const isNotFound = kinesinv1.Reason_REASON_NOT_FOUND

func TestGetAtEachStage(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(with(in(time.Minute), func(i *item) { i.Collection, i.Payload = "c", []byte("hello") }))
		check := func(state string, also func(*kinesinv1.Task) bool) {
			t.Helper()
			got := f.get(id).Task
			if got == nil || got.State != state || got.Id != id || got.Lambda != "mail" || got.Priority != "normal" || got.Collection != "c" ||
				got.Due != int64(start.Add(time.Minute)) || string(got.Payload) != "hello" || !also(got) {
				t.Errorf("%s: %v", state, got)
			}
		}
		check("scheduled", func(v *kinesinv1.Task) bool {
			return v.Next == v.Due && v.Created == int64(start) && v.MaxAttempts == task.MaxAttemptsDefault
		})
		f.time.Advance(time.Minute)
		if err := f.dispatch(id); err != nil {
			t.Fatal(err)
		}
		check("enqueued", func(v *kinesinv1.Task) bool { return v.Enqueued == int64(f.clock.Now()) && len(v.Attempts) == 0 })
		f.claim(id)
		check("claimed", func(v *kinesinv1.Task) bool {
			return v.Attempt == 1 && v.Worker == "w" && len(v.Attempts) == 1 && v.Attempts[0].Start == 0
		})
		f.move(id, task.Event{Kind: task.Start, Worker: "w", Attempt: 1, Started: f.clock.Now()})
		check("processing", func(v *kinesinv1.Task) bool { return v.Started == int64(f.clock.Now()) && len(v.Attempts) == 1 })
		f.time.Advance(time.Second)
		f.finish(id, task.OutcomeRetriable)
		check("retriable_failure", func(v *kinesinv1.Task) bool {
			return v.Failures == 1 && v.Next > int64(f.clock.Now()) && len(v.Attempts) == 1 && v.Attempts[0].Outcome == "retriable_failure"
		})
		f.move(id, task.Event{Kind: task.Enqueue})
		f.claim(id)
		f.finish(id, task.OutcomeSuccess)
		check("success", func(v *kinesinv1.Task) bool {
			return v.Ended == int64(f.clock.Now()) && v.Next == 0 && len(v.Attempts) == 2 && v.Attempts[1].Outcome == "success"
		})
	})
}

func TestForgedAndMangledIDsAreNotFound(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Minute))
		raw, err := base64.RawURLEncoding.DecodeString(id[2:])
		if err != nil {
			t.Fatal(err)
		}
		bad := []string{"", "k1", "k2" + id[2:], id[:len(id)-1], id + "A", strings.ToUpper(id), " " + id, f.idOf(id).String(), strings.Repeat("x", 10_000)}
		for at := range raw { // every byte of body and seal
			forged := slices.Clone(raw)
			forged[at] ^= 1
			bad = append(bad, "k1"+base64.RawURLEncoding.EncodeToString(forged))
		}
		bad = append(bad, task.NewSealer(make([]byte, task.TokenKeyBytes)).Seal(task.Token{ID: f.idOf(id)}))
		for _, b := range bad {
			wantRefusal(t, "get", f.get(b).Problem, isNotFound, "not issued here")
			r, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: []string{b}})
			if err != nil {
				t.Fatal(err)
			}
			wantRefusal(t, "cancel", r.Results[0].Problem, isNotFound)
		}
		if got := f.get(id).Task.State; got != "scheduled" {
			t.Errorf("the task is %s", got)
		}
	})
}

func TestGetAnswersInOrder(t *testing.T) {
	run(t, func(f *fixture) {
		one, two := f.accept(in(time.Minute)), f.accept(in(0))
		response, err := f.Get(f.ctx, &kinesinv1.GetRequest{Ids: []string{two, "nonsense", one, two}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{two, "", one, two} {
			if got := response.Results[i].Task.GetId(); got != want || response.Results[i].Task.GetPayload() != nil {
				t.Errorf("result %d: %q, want %q", i, got, want)
			}
		}
		for _, n := range []int{0, inbound.IDsMax + 1} {
			_, err := f.Get(f.ctx, &kinesinv1.GetRequest{Ids: make([]string, n)})
			wantError(t, "ids", err, isInvalid, "1 to 1000")
		}
	})
}

// A task that moves between the reads of its task row and of its wake-up row is found, as it was or as it is.
func TestGetFindsATaskThatMovesMeanwhile(t *testing.T) {
	for want, move := range map[string]func(f *fixture, id string){
		"scheduled": func(*fixture, string) {},
		"success":   func(f *fixture, id string) { f.claim(id); f.finish(id, task.OutcomeSuccess) },
		"cancelled": func(f *fixture, id string) { f.move(id, task.Event{Kind: task.Cancel}) },
		"claimed": func(f *fixture, id string) { // and its wake-up row moved
			next := f.claim(id)
			next.Seq, next.Wake = next.Seq+1, next.Due.Add(time.Hour)
			f.apply(store.Change(next, true, false)...)
		},
	} {
		run(t, func(f *fixture) {
			id := f.accept(in(time.Minute))
			f.rows.afterTasks = sync.OnceFunc(func() {
				if err := f.dispatch(id); err != nil {
					t.Error(err)
				}
				move(f, id)
			})
			if got := f.get(id).Task; got.GetState() != want {
				t.Errorf("%s: %v", want, got)
			}
			if now := f.get(id).Task.GetState(); want == "scheduled" && now != "enqueued" {
				t.Errorf("after it was dispatched: %s", now)
			}
		})
	}
}

func TestAnAnswerWithPayloadsIsBounded(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(with(in(time.Minute), func(i *item) { i.Key, i.Payload = "k", make([]byte, payload) }))
		ids := slices.Repeat([]string{id}, inbound.IDsMax)
		if _, err := f.Get(f.ctx, &kinesinv1.GetRequest{Ids: ids, WithPayload: true}); err != nil {
			t.Errorf("4 MB: %v", err)
		}
		big := f.row(id)
		big.Seq++
		big.PayloadSize = inbound.PayloadsBytesMax/2 + 1
		f.apply(store.Op{Kind: store.ReplaceTask, Task: big})
		_, err := f.Get(f.ctx, &kinesinv1.GetRequest{Ids: ids[:2], WithPayload: true})
		wantError(t, "two halves and a bit", err, isInvalid, "fewer ids")
	})
}

func TestAPayloadThatIsGoneMakesTheTaskNotFound(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(with(in(time.Minute), func(i *item) { i.Payload = make([]byte, 100) }))
		f.apply(store.Op{Kind: store.DeletePayload, Task: task.Task{ID: f.idOf(id)}})
		wantRefusal(t, "gone", f.get(id).Problem, isNotFound)
	})
}

// list pages through everything and returns the ids and the number of pages.
func (f *fixture) list(state string, limit int32) (ids []string, pages int) {
	f.t.Helper()
	request := &kinesinv1.ListRequest{Lambda: "mail", State: state, Limit: limit}
	for pages = 1; pages <= 1000; pages++ {
		response, err := f.List(f.ctx, request)
		if err != nil {
			f.t.Fatal(err)
		}
		if most := int(limit); most > 0 && len(response.Tasks) > most {
			f.t.Errorf("%d tasks on a page of %d", len(response.Tasks), limit)
		}
		for _, v := range response.Tasks {
			if state != "" && v.State != state {
				f.t.Errorf("a %s task in the list of %s", v.State, state)
			}
			ids = append(ids, v.Id)
		}
		if request.Cursor = response.Next; len(request.Cursor) == 0 {
			return ids, pages
		}
	}
	f.t.Fatal("the list has no end")
	return nil, 0
}

func TestListPagesOverEverySection(t *testing.T) {
	run(t, func(f *fixture) {
		var waiting, keyed, enqueued, running, failed, done []string
		for n := range 7 {
			priority := f.lambda.Priorities[n%3]
			add := func(to *[]string, i *item) {
				i.Priority = priority
				*to = append(*to, f.accept(i))
			}
			add(&waiting, in(time.Minute))
			add(&keyed, with(in(time.Minute), func(i *item) { i.Key = fmt.Sprint(n) }))
			for _, to := range []*[]string{&enqueued, &running, &failed, &done} {
				add(to, in(time.Minute))
				if err := f.dispatch((*to)[n]); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range []string{running[n], failed[n], done[n]} {
				f.claim(id)
			}
			f.finish(failed[n], task.OutcomeRetriable)
			f.finish(done[n], []task.Outcome{task.OutcomeSuccess, task.OutcomeFatal}[n%2])
		}
		var odd []string
		for n := 1; n < 7; n += 2 {
			odd = append(odd, done[n])
		}
		all := slices.Concat(waiting, keyed, enqueued, running, failed, done)
		for _, limit := range []int32{0, 1, 2, 3, 5, 7, 42, inbound.ListMax} {
			for state, want := range map[string][]string{
				"": all, "scheduled": slices.Concat(waiting, keyed), "enqueued": enqueued, "claimed": running,
				"retriable_failure": failed, "fatal_failure": odd, "dead": nil, "processing": nil,
			} {
				got, _ := f.list(state, limit)
				if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
					t.Errorf("limit %d, state %q: %d tasks, want %d", limit, state, len(got), len(want))
				}
			}
		}
		if _, pages := f.list("claimed", 7); pages > 2 {
			t.Errorf("%d pages for a few tasks among others", pages)
		}
	})
}

func TestListRefusals(t *testing.T) {
	run(t, func(f *fixture) {
		for what, c := range map[string]struct {
			request *kinesinv1.ListRequest
			reason  kinesinv1.Reason
			word    string
		}{
			"unknown lambda":  {&kinesinv1.ListRequest{Lambda: "nobody"}, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, "`kinesin lambda list`"},
			"negative limit":  {&kinesinv1.ListRequest{Lambda: "mail", Limit: -1}, isInvalid, "1 to 1000"},
			"limit too large": {&kinesinv1.ListRequest{Lambda: "mail", Limit: inbound.ListMax + 1}, isInvalid, "1 to 1000"},
			"unknown state":   {&kinesinv1.ListRequest{Lambda: "mail", State: "happy"}, isInvalid, "retriable_failure"},
			"no cursor":       {&kinesinv1.ListRequest{Lambda: "mail", Cursor: []byte("x")}, isInvalid, "next"},
			"section":         {&kinesinv1.ListRequest{Lambda: "mail", Cursor: []byte(`{"s":2}`)}, isInvalid, "next"},
			"partition":       {&kinesinv1.ListRequest{Lambda: "mail", Cursor: []byte(`{"p":-1}`)}, isInvalid, "next"},
			"driver's cursor": {&kinesinv1.ListRequest{Lambda: "mail", Cursor: []byte(`{"s":1,"c":"eHl6"}`)}, isInvalid, "next"},
		} {
			_, err := f.List(f.ctx, c.request)
			wantError(t, what, err, c.reason, c.word)
		}
	})
}

// wait calls Wait beside the moving clock and returns when it answered.
func (f *fixture) wait(d time.Duration, ids ...string) <-chan waited {
	done := make(chan waited, 1)
	go func() {
		response, err := f.Wait(f.ctx, &kinesinv1.WaitRequest{Ids: ids, Wait: d.Microseconds()})
		done <- waited{response, err, f.clock.Now()}
	}()
	return done
}

type waited struct {
	response *kinesinv1.GetResponse
	err      error
	at       task.Instant
}

// wantAnswer moves the clock by d and checks that the answer came by then.
func (f *fixture) wantAnswer(done <-chan waited, d time.Duration, states ...string) task.Instant {
	f.t.Helper()
	f.during(d, func() {})
	select {
	case w := <-done:
		if w.err != nil {
			f.t.Fatal(w.err)
		}
		for i, want := range states {
			if got := w.response.Results[i].Task.GetState(); got != want {
				f.t.Errorf("task %d is %q, want %q", i, got, want)
			}
		}
		return w.at
	default:
		f.t.Fatalf("no answer within %v", d)
	}
	return 0
}

func TestWaitAnswersWhenAllHaveEnded(t *testing.T) {
	run(t, func(f *fixture) {
		one, two := f.accept(in(0)), f.accept(in(0))
		done := f.wait(30*time.Second, one, "nonsense", two)
		f.during(3*time.Second, func() {})
		for _, id := range []string{one, two} {
			f.claim(id)
			f.finish(id, task.OutcomeSuccess)
			f.Waits.Ended([]task.ID{f.idOf(id)})
		}
		f.wantAnswer(done, 20*time.Millisecond, "success", "", "success")
	})
}

func TestWaitFindsAnEndThatNobodyTold(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(0))
		done := f.wait(30*time.Second, id)
		f.during(100*time.Millisecond, func() {})
		f.claim(id)
		f.finish(id, task.OutcomeSuccess)
		f.wantAnswer(done, time.Second, "success")
	})
}

func TestWaitEnds(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		f.wantAnswer(f.wait(0, id), 0, "scheduled")
		if at := f.wantAnswer(f.wait(10*time.Second, id), 10*time.Second, "scheduled"); at != start.Add(10*time.Second) {
			t.Errorf("after %v", at.Sub(start))
		}
		f.wantAnswer(f.wait(inbound.WaitMax, "nonsense"), 0, "")
		done := f.wait(inbound.WaitMax, id)
		f.during(0, f.Drain)
		f.wantAnswer(done, 0, "scheduled")
	})
}

func TestWaitEndsWithItsCaller(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		ctx, cancel := context.WithCancel(f.ctx)
		f.during(0, func() {
			time.AfterFunc(0, cancel)
			_, err := f.Wait(ctx, &kinesinv1.WaitRequest{Ids: []string{id}, Wait: 1_000_000})
			wantError(t, "cancelled", err, kinesinv1.Reason_REASON_UNAVAILABLE)
		})
	})
}

func TestWaitRefusals(t *testing.T) {
	run(t, func(f *fixture) {
		for _, micros := range []int64{-1, inbound.WaitMax.Microseconds() + 1, 1 << 62} {
			_, err := f.Wait(f.ctx, &kinesinv1.WaitRequest{Ids: []string{"x"}, Wait: micros})
			wantError(t, "wait", err, isInvalid, "0s to 1m0s")
		}
		_, err := f.Wait(f.ctx, &kinesinv1.WaitRequest{})
		wantError(t, "ids", err, isInvalid, "1 to 1000")
	})
}

func TestWaitReadsNoMoreThanItMust(t *testing.T) {
	run(t, func(f *fixture) {
		slow := f.accept(in(time.Hour))
		ids := []string{slow}
		for range 8 {
			id := f.accept(in(0))
			f.claim(id)
			f.finish(id, task.OutcomeSuccess)
			ids = append(ids, id)
		}
		done := f.wait(10*time.Second, ids...)
		f.during(time.Second, func() {})
		f.rows.mu.Lock()
		f.rows.reads = 0
		f.rows.mu.Unlock()
		for i := range 500 { // others end all the time, and those that had ended are told again
			f.Waits.Ended([]task.ID{task.NewID(start, 1, uint64(i)), f.idOf(ids[1+i%8])})
			f.during(2*time.Millisecond, func() {})
		}
		if f.rows.reads > 100*2 {
			t.Errorf("read %d rows in a second for one task that lives", f.rows.reads)
		}
		f.wantAnswer(done, 10*time.Second, "scheduled", "success")
	})
}

// Each end wakes the calls that wait for it, and these read that task alone.
func TestWaitsForManyTasksReadWhatEnds(t *testing.T) {
	run(t, func(f *fixture) {
		var ids []string
		for range 200 {
			ids = append(ids, f.accept(in(time.Hour)))
		}
		soon := f.accept(in(0))
		f.claim(soon)
		var calls []<-chan waited
		for range 10 {
			calls = append(calls, f.wait(inbound.WaitMax, append(slices.Clone(ids), soon)...))
		}
		alone := f.wait(inbound.WaitMax, soon)
		f.during(0, func() {})
		f.rows.mu.Lock()
		f.rows.reads = 0
		f.rows.mu.Unlock()
		f.finish(soon, task.OutcomeSuccess)
		f.Waits.Ended([]task.ID{f.idOf(soon)})
		f.wantAnswer(alone, 20*time.Millisecond, "success")
		f.rows.mu.Lock()
		if f.rows.reads > 2*(10+1) {
			t.Errorf("read %d rows for one end that 11 calls wait for", f.rows.reads)
		}
		f.rows.mu.Unlock()
		f.during(0, f.Drain)
		for _, done := range calls {
			w := <-done
			if w.err != nil || w.response.Results[0].Task.GetState() != "scheduled" || w.response.Results[200].Task.GetState() != "success" {
				t.Fatalf("%v, %v", w.response.Results[200], w.err)
			}
		}
	})
}

func BenchmarkEndedWhenNobodyWaits(b *testing.B) {
	waits := inbound.NewWaits()
	for b.Loop() {
		waits.Ended(nil)
	}
}
