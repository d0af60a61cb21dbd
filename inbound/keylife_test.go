package inbound_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func keyedIn(d time.Duration, payload, onConflict string) *kinesinv1.ScheduleItem {
	return with(in(d), func(i *item) { i.Key, i.Payload, i.OnConflict = "k", []byte(payload), onConflict })
}

// endAs ends the keyed task with an id in a state.
func (f *fixture) endAs(id string, s task.State) {
	f.t.Helper()
	row := f.row(id)
	row.Seq, row.State, row.Wake, row.Ended, row.ExpireAt = row.Seq+1, s, 0, f.clock.Now(), f.clock.Now().Add(time.Hour)
	row.Attempt = 3
	f.apply(store.Change(row, false, false)...)
}

// A key is free as soon as its task ended without having done its work, and held for a while if it did.
func TestAKeyIsFreeAfterTheseEnds(t *testing.T) {
	for _, s := range task.States() {
		if !s.IsEnd() {
			continue
		}
		run(t, func(f *fixture) {
			old := f.accept(keyedIn(time.Hour, "one", ""))
			f.endAs(old, s)
			r := f.schedule(keyedIn(time.Hour, "two", ""))[0]
			if s == task.Success || s == task.Delivered {
				wantRefusal(t, s.String(), r.Problem, isConflict)
				same := f.schedule(keyedIn(time.Hour, "one", ""))[0]
				if !same.Duplicate || same.State != s.String() || same.Id != old {
					t.Errorf("%s: %v", s, same)
				}
				f.time.Advance(f.lambda.Retention)
				r = f.schedule(keyedIn(time.Hour, "two", ""))[0]
			}
			if r.Problem != nil || r.Duplicate || r.Id == old {
				t.Fatalf("%s: %v", s, r)
			}
			row := f.wantWaits(r.Id, task.Instant(r.Due))
			if now := f.get(r.Id).Task; string(now.Payload) != "two" || len(now.Attempts) != 0 || row.Attempt != 3 {
				t.Errorf("%s: %v, attempt %d", s, now, row.Attempt)
			}
			wantRefusal(t, "the old id", f.get(old).Problem, kinesinv1.Reason_REASON_NOT_FOUND)
			wantRefusal(t, "cancel by the old id", f.cancel(old).Problem, kinesinv1.Reason_REASON_NOT_FOUND)
			wantRefusal(t, "redrive of the old id", f.redrive(&kinesinv1.RedriveRequest{Ids: []string{old}}).Problem, isConflict, r.Id)
			if again := f.schedule(keyedIn(time.Hour, "two", ""))[0]; !again.Duplicate || again.Id != r.Id || again.State != "scheduled" {
				t.Errorf("%s, repeated: %v", s, again)
			}
		})
	}
}

// The row of a large payload goes with the task that had it, and never with the next one.
func TestTheNextTaskHasItsOwnPayload(t *testing.T) {
	large := strings.Repeat("L", payload)
	for _, next := range []string{large, strings.Repeat("M", payload), "small"} {
		run(t, func(f *fixture) {
			old := f.accept(keyedIn(time.Hour, large, ""))
			first := f.row(old)
			f.cancel(old)
			id := f.accept(keyedIn(time.Hour, next, ""))
			if got := string(f.get(id).Task.Payload); got != next {
				t.Errorf("payload of %d bytes", len(got))
			}
			if _, err := f.store.Payload(f.ctx, first.PayloadID()); err == nil {
				t.Error("the payload of the ended task is kept")
			}
		})
	}
}

// Of two calls that find the key free only one uses it.
func TestTwoCallsForAFreeKey(t *testing.T) {
	run(t, func(f *fixture) {
		f.cancel(f.accept(keyedIn(time.Hour, "one", "")))
		var other *kinesinv1.ScheduleResult
		f.rows.beforeApply = func([]store.Op) {
			f.rows.beforeApply = nil
			other = f.schedule(keyedIn(2*time.Hour, "three", ""))[0]
		}
		wantRefusal(t, "the slower one", f.schedule(keyedIn(time.Hour, "two", ""))[0].Problem, isConflict)
		if other.Problem != nil {
			t.Fatal(other.Problem)
		}
		f.wantWaits(other.Id, task.Instant(other.Due))
	})
}

func TestOnConflict(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(keyedIn(time.Hour, "one", ""))
		wantRefusal(t, "keep another payload", f.schedule(keyedIn(time.Hour, "two", "keep"))[0].Problem, isConflict)
		if r := f.schedule(keyedIn(2*time.Hour, "one", "keep"))[0]; !r.Duplicate || r.Replaced || r.State != "scheduled" {
			t.Errorf("keep: %v", r)
		}
		wantRefusal(t, "reject", f.schedule(keyedIn(time.Hour, "one", "reject"))[0].Problem, isConflict, "scheduled")
		r := f.schedule(keyedIn(2*time.Hour, "two", "replace"))[0]
		if !r.Duplicate || !r.Replaced || r.Id != id || r.Due != int64(f.clock.Now().Add(2*time.Hour)) {
			t.Fatalf("replace: %v", r)
		}
		f.wantWaits(id, task.Instant(r.Due))
		if got := string(f.get(id).Task.Payload); got != "two" {
			t.Errorf("payload %q", got)
		}
		other := keyedIn(time.Hour, "three", "replace")
		other.Priority = "high"
		if r := f.schedule(other)[0]; !r.Replaced || r.Id != id {
			t.Errorf("replace with another priority: %v", r)
		}
		f.wantMoved(id, "high")
		if got := f.get(id).Task; got.Priority != "high" || string(got.Payload) != "three" {
			t.Errorf("%v", got)
		}
		if r := f.schedule(keyedIn(2*time.Hour, "two", "replace"))[0]; !r.Replaced || r.Id != id {
			t.Errorf("and back: %v", r)
		}
		f.wantMoved(id, f.lambda.Priorities[f.row(id).Partition.Priority])
		other.Collection = "c"
		wantRefusal(t, "replace with another collection", f.schedule(other)[0].Problem, isConflict, "collection")
		f.reschedule(id, 0, 0)
		f.move(id, task.Event{Kind: task.Enqueue})
		f.claim(id)
		wantRefusal(t, "replace what runs", f.schedule(keyedIn(time.Hour, "four", "replace"))[0].Problem, isConflict, "a worker has")
		f.finish(id, task.OutcomeFatal)
		if r := f.schedule(keyedIn(time.Hour, "five", "reject"))[0]; r.Problem != nil || r.Id == id {
			t.Errorf("reject, after an end that frees the key: %v", r)
		}
		wantRefusal(t, "a word", f.schedule(keyedIn(time.Hour, "x", "merge"))[0].Problem, isInvalid, "keep, replace or reject")
		wantRefusal(t, "no key", f.schedule(with(in(0), func(i *item) { i.OnConflict = "replace" }))[0].Problem, isInvalid, "needs a key")
	})
}

// A key never keeps a replacement from its task once the task that had the key has ended: a debounce goes on
// after its task has run. The key retention is for calls that keep and that reject.
func TestAReplacementOfATaskThatHasEnded(t *testing.T) {
	for _, s := range task.States() {
		if !s.IsEnd() {
			continue
		}
		for _, contents := range []string{"one", "two"} {
			for _, due := range []time.Duration{0, time.Hour} {
				run(t, func(f *fixture) {
					old := f.accept(keyedIn(time.Hour, "one", "replace"))
					f.endAs(old, s)
					if s == task.Success || s == task.Delivered {
						wantRefusal(t, "keep", f.schedule(keyedIn(due, "two", "keep"))[0].Problem, isConflict)
						wantRefusal(t, "reject", f.schedule(keyedIn(due, "one", "reject"))[0].Problem, isConflict, s.String())
					}
					r := f.schedule(keyedIn(due, contents, "replace"))[0]
					if r.Problem != nil || r.Duplicate || r.Replaced || r.Id == old {
						t.Fatalf("%s, %s: %v", s, contents, r)
					}
					if got := string(f.get(r.Id).Task.Payload); got != contents {
						t.Errorf("%s: payload %q", s, got)
					}
					if next := f.schedule(keyedIn(2*time.Hour, "three", "replace"))[0]; due > 0 && (!next.Replaced || next.Id != r.Id) {
						t.Errorf("%s: the next one of the burst: %v", s, next)
					}
				})
			}
		}
	}
}

// Of two replacements that find no task with the key, or one that has ended, the slower one replaces the task
// of the faster one.
func TestTwoReplacementsAtOnce(t *testing.T) {
	for name, before := range map[string]func(f *fixture){
		"of a new key":                  func(*fixture) {},
		"of a key that a cancel freed":  func(f *fixture) { f.cancelled(f.accept(keyedIn(time.Hour, "one", ""))) },
		"of a task that has succeeded":  func(f *fixture) { f.endAs(f.accept(keyedIn(time.Hour, "one", "")), task.Success) },
		"of one with the large payload": func(f *fixture) { f.cancelled(f.accept(keyedIn(time.Hour, strings.Repeat("L", payload), ""))) },
	} {
		run(t, func(f *fixture) {
			before(f)
			var other *kinesinv1.ScheduleResult
			f.rows.beforeApply = func([]store.Op) {
				f.rows.beforeApply = nil
				other = f.schedule(keyedIn(2*time.Hour, "three", "replace"))[0]
			}
			r := f.schedule(keyedIn(time.Hour, "two", "replace"))[0]
			if r.Problem != nil || other.Problem != nil || !r.Replaced || r.Id != other.Id || string(f.get(r.Id).Task.Payload) != "two" {
				t.Errorf("%s: %v after %v", name, r, other)
			}
		})
	}
}

// A call that meets a task of its key which has ended by then, and freed the key, is told to try again: that
// task is not the one that it asked for, even if it was the same.
func TestAKeyThatIsFreedMeanwhile(t *testing.T) {
	for _, onConflict := range []string{"keep", "replace", "reject"} {
		run(t, func(f *fixture) {
			f.rows.beforeApply = func([]store.Op) {
				f.rows.beforeApply = nil
				f.cancelled(f.accept(keyedIn(time.Hour, "one", "")))
			}
			if r := f.schedule(keyedIn(time.Hour, "one", onConflict))[0]; r.Problem.GetReason() != kinesinv1.Reason_REASON_UNAVAILABLE {
				t.Errorf("%s: %v", onConflict, r)
			}
		})
	}
}

// A replacement whose task ends before it is written is told to try again, also if the key was used again or
// the row is gone: an item that brings its own task is never answered that there is none.
func TestAReplacementWhoseTaskGoes(t *testing.T) {
	for name, meanwhile := range map[string]func(f *fixture, id string){
		"ended": func(f *fixture, id string) { f.cancelled(id) },
		"ended, and its key was used again": func(f *fixture, id string) {
			f.cancelled(id)
			f.accept(keyedIn(time.Hour, "other", "reject"))
		},
		"deleted": func(f *fixture, id string) {
			f.cancelled(id)
			f.time.Advance(time.Hour + f.lambda.Retention)
			if n, err := f.store.Sweep(f.ctx, f.clock.Now(), 10); n != 1 || err != nil {
				t.Errorf("swept %d rows: %v", n, err)
			}
		},
	} {
		for when, hook := range map[string]func(f *fixture, then func()){
			"before it is read again": func(f *fixture, then func()) { f.rows.set(nil, nil, then) },
			"before it is written":    func(f *fixture, then func()) { f.rows.set(func([]store.Op) { then() }, nil, nil) },
		} {
			run(t, func(f *fixture) {
				id := f.accept(keyedIn(time.Hour, "one", ""))
				hook(f, func() {
					f.rows.set(nil, nil, nil)
					meanwhile(f, id)
				})
				item := with(keyedIn(2*time.Hour, "two", "replace"), func(i *item) { i.RequestId = uuid7(2) })
				if r := f.schedule(item)[0]; r.Problem.GetReason() != kinesinv1.Reason_REASON_UNAVAILABLE {
					t.Errorf("%s %s: %v", name, when, r)
				}
				r := f.try(item, true)
				if r.Problem != nil || r.Id == id || string(f.get(r.Id).Task.Payload) != "two" {
					t.Errorf("%s %s, tried again: %v", name, when, r)
				}
			})
		}
	}
}

// A replacement expires by its own time, or as its lambda says, and not by that of the task which it
// replaces.
func TestAReplacementHasItsOwnExpiry(t *testing.T) {
	run(t, func(f *fixture) {
		now := f.clock.Now()
		expiring := func(payload string, at time.Duration) *item {
			return with(keyedIn(time.Hour, payload, "replace"), func(i *item) { i.StartBefore = int64(now.Add(at)) })
		}
		id := f.accept(expiring("one", 2*time.Hour))
		for _, c := range []struct {
			item *item
			want task.Instant
		}{
			{expiring("two", 3*time.Hour), now.Add(3 * time.Hour)},
			{keyedIn(time.Hour, "three", "replace"), 0},
			{expiring("four", 4*time.Hour), now.Add(4 * time.Hour)},
		} {
			if r := f.schedule(c.item)[0]; !r.Replaced || f.row(id).StartBefore != c.want {
				t.Errorf("%s: %v, start before %d, want %d", c.item.Payload, r, f.row(id).StartBefore, c.want)
			}
		}
	})
}

// A repeated call, whose first answer was lost, is not refused because of its own task.
func TestARepeatedRejectIsADuplicate(t *testing.T) {
	run(t, func(f *fixture) {
		item := keyedIn(time.Hour, "one", "reject")
		id := f.accept(item)
		if r := f.try(item, true); r.Id != id || !r.Duplicate {
			t.Error(r)
		}
	})
}

// A call that comes again with its request id answers with its task, and changes nothing, whatever became of the
// task since. Without the id it is another call.
func TestACallThatComesAgainIsTheSame(t *testing.T) {
	for _, onConflict := range []string{"keep", "replace", "reject"} {
		for name, since := range map[string]func(f *fixture, id string){
			"scheduled": func(*fixture, string) {},
			"updated":   func(f *fixture, id string) { f.update(&kinesinv1.TaskUpdate{Id: id, Payload: []byte("other")}) },
			"claimed": func(f *fixture, id string) {
				f.move(id, task.Event{Kind: task.Enqueue})
				f.claim(id)
			},
			"ended": func(f *fixture, id string) { f.endAs(id, task.Success) },
		} {
			run(t, func(f *fixture) {
				item := with(keyedIn(time.Hour, "one", onConflict), func(i *item) { i.RequestId = uuid7(1) })
				id := f.accept(item)
				since(f, id)
				before := f.row(id)
				if r := f.schedule(item)[0]; r.Problem != nil || r.Id != id || !r.Duplicate || r.Replaced || f.row(id).Seq != before.Seq {
					t.Errorf("%s, and %s meanwhile: %v, want the task as it is", onConflict, name, r)
				}
			})
		}
	}
}

// Nor is a call whose first write was not answered, whatever became of its task since.
func TestAScheduleWhoseAnswerIsLostIsDone(t *testing.T) {
	for _, onConflict := range []string{"keep", "replace", "reject"} {
		for name, since := range map[string]func(f *fixture, id string){
			"updated":   func(f *fixture, id string) { f.update(&kinesinv1.TaskUpdate{Id: id, Payload: []byte("other")}) },
			"cancelled": func(f *fixture, id string) { f.cancel(id) },
			"claimed": func(f *fixture, id string) {
				f.move(id, task.Event{Kind: task.Enqueue})
				f.claim(id)
			},
		} {
			run(t, func(f *fixture) {
				id := ""
				f.rows.beforeApply = func(ops []store.Op) {
					f.rows.beforeApply = nil
					f.apply(slices.Clone(ops)...)
					id = f.seal.SealTask(&ops[len(ops)-1].Task)
					since(f, id)
				}
				if r := f.schedule(keyedIn(time.Hour, "one", onConflict))[0]; r.Problem != nil || r.Id != id || r.Replaced {
					t.Errorf("%s, and %s meanwhile: %v, want the task of this call", onConflict, name, r)
				}
			})
		}
	}
}

func TestTasksByKey(t *testing.T) {
	run(t, func(f *fixture) {
		id, other := f.accept(keyedIn(time.Hour, "one", "")), f.accept(in(time.Hour))
		key := []*kinesinv1.TaskKey{{Lambda: "mail", Key: "k"}, {Lambda: "mail", Key: "nobody's"}}
		got, err := f.Get(f.ctx, &kinesinv1.GetRequest{Ids: []string{other}, Keys: key})
		if err != nil {
			t.Fatal(err)
		}
		if got.Results[0].Task.GetId() != other || got.Results[1].Task.GetId() != id {
			t.Errorf("%v", got)
		}
		wantRefusal(t, "no such key", got.Results[2].Problem, kinesinv1.Reason_REASON_NOT_FOUND, "no task has the key")
		moved, err := f.Reschedule(f.ctx, &kinesinv1.RescheduleRequest{Keys: key[:1]})
		if err != nil || moved.Results[0].Problem != nil || moved.Results[0].Id != id {
			t.Errorf("%v %v", moved, err)
		}
		if r, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Keys: key[:1]}); err != nil || r.Results[0].Outcome != "cancelled" || r.Results[0].Id != id {
			t.Errorf("%v %v", r, err)
		}
		if r, err := f.Wait(f.ctx, &kinesinv1.WaitRequest{Keys: key[:1]}); err != nil || r.Results[0].Task.GetState() != "cancelled" {
			t.Errorf("%v %v", r, err)
		}
		if _, err := f.Get(f.ctx, &kinesinv1.GetRequest{Keys: []*kinesinv1.TaskKey{{Lambda: "nobody's", Key: "k"}}}); err == nil {
			t.Error("an unknown lambda is accepted")
		}
		if _, err := f.Get(f.ctx, &kinesinv1.GetRequest{Keys: []*kinesinv1.TaskKey{{Lambda: "mail"}}}); err == nil {
			t.Error("an empty key is accepted")
		}
	})
}

// Keys that are free again are used by all tasks of one call.
func TestOneCallUsesSeveralKeysAgain(t *testing.T) {
	for _, due := range []time.Duration{0, time.Hour} {
		run(t, func(f *fixture) {
			var items []*item
			for i := range 7 {
				items = append(items, named("mail", fmt.Sprintf("k%d", i), due))
			}
			seen := map[string]bool{}
			for round := range 3 {
				for i, r := range f.schedule(items...) {
					if r.Problem != nil || r.Duplicate || seen[r.Id] {
						t.Fatalf("due in %v, round %d, task %d: %v", due, round, i, r)
					}
					seen[r.Id] = true
					f.cancelled(r.Id)
				}
			}
		})
	}
}

// A key that is free is not for those who may not schedule in the collection of the ended task: they would
// delete its history.
func TestAKeyOfACollectionOfOthers(t *testing.T) {
	run(t, func(f *fixture) {
		of := func(collection string) *item {
			return with(keyedIn(time.Hour, "x", ""), func(i *item) { i.Collection = collection })
		}
		id := f.accept(of("theirs"))
		f.cancelled(id)
		f.as("schedule:mail:ours")
		wantRefusal(t, "theirs", f.schedule(of("ours"))[0].Problem, isConflict, "may not schedule")
		if row := f.row(id); row.State != task.Cancelled || row.Collection != "theirs" || len(f.waitingRows()) > 0 {
			t.Errorf("the task of others is %s, in collection %s", row.State, row.Collection)
		}
		f.as("schedule:mail")
		if r := f.schedule(of("ours"))[0]; r.Problem != nil || r.Duplicate {
			t.Errorf("by who may schedule in both: %v", r)
		}
	})
}

// A call whose answer was lost is made of several tries. One of them may come when the task of another has
// ended in a way that frees the key: a later one, or the first, which the caller had given up. Another call
// makes another task, also one that had to be repeated before it arrived.
func TestARepeatedCallDoesNotRunItsTaskAgain(t *testing.T) {
	of := func(request byte, onConflict string) *item {
		return with(keyedIn(time.Hour, "one", onConflict), func(i *item) { i.RequestId = uuid7(request) })
	}
	for name, first := range map[string]func(f *fixture) string{
		"made it": func(f *fixture) string { return f.accept(of(2, "")) },
		"replaced it": func(f *fixture) string {
			f.accept(of(1, ""))
			return f.schedule(of(2, "replace"))[0].Id
		},
	} {
		for _, again := range []bool{false, true} {
			for _, later := range []time.Duration{0, store.CallMax} {
				for _, end := range []task.State{task.Cancelled, task.Success} {
					run(t, func(f *fixture) {
						id := first(f)
						f.endAs(id, end)
						f.time.Advance(later)
						if r := f.try(of(2, "replace"), again); r.Id != id || !r.Duplicate || r.Replaced || r.State != end.String() {
							t.Errorf("the call that %s, %v later, again %v: %v", name, later, again, r)
						}
						if r := f.try(of(3, "replace"), again); r.Problem != nil || r.Id == id || r.Duplicate {
							t.Errorf("another call for the same task, %v later, again %v: %v", later, again, r)
						}
					})
				}
			}
		}
	}
}

// try schedules a task as one try of a call does.
func (f *fixture) try(i *item, again bool) *kinesinv1.ScheduleResult {
	f.t.Helper()
	response, err := f.Schedule(f.ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{i}, Again: again})
	if err != nil {
		f.t.Fatal(err)
	}
	return response.Results[0]
}

// A get by key that meets the next task with the key shows one of the two, whichever of its reads that is.
func TestAGetByKeyMeetsTheNextTaskWithTheKey(t *testing.T) {
	for _, afterReads := range []int{1, 2} {
		for _, withPayload := range []bool{false, true} {
			run(t, func(f *fixture) {
				f.cancel(f.accept(with(in(time.Hour), func(i *item) { i.Key, i.Payload = "k", make([]byte, payload) })))
				reads := 0
				f.rows.set(nil, nil, func() {
					if reads++; reads == afterReads {
						f.rows.set(nil, nil, nil)
						f.accept(with(in(2*time.Hour), func(i *item) { i.Key, i.Payload = "k", []byte("next") }))
					}
				})
				response, err := f.Get(f.ctx, &kinesinv1.GetRequest{
					Keys: []*kinesinv1.TaskKey{{Lambda: "mail", Key: "k"}}, WithPayload: withPayload,
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := response.Results[0]; reads < afterReads || got.Problem != nil ||
					got.Task.State == "scheduled" && withPayload && string(got.Task.Payload) != "next" {
					t.Errorf("met after %d of %d reads, with payload %v: %v", afterReads, reads, withPayload, got)
				}
			})
		}
	}
}
