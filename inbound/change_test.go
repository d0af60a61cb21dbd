package inbound_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

const isStale = kinesinv1.Reason_REASON_STALE_SEQ

func (f *fixture) reschedule(id string, delay time.Duration, ifSeq uint64) *kinesinv1.ChangeResult {
	f.t.Helper()
	response, err := f.Reschedule(f.ctx, &kinesinv1.RescheduleRequest{Ids: append([]string{id}, f.beside...), Delay: delay.Microseconds(), IfSeq: ifSeq})
	if err != nil {
		f.t.Fatal(err)
	}
	return response.Results[0]
}

func (f *fixture) update(u *kinesinv1.TaskUpdate) *kinesinv1.ChangeResult {
	f.t.Helper()
	response, err := f.Update(f.ctx, &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{masked(u, u.Fields...)}})
	if err != nil {
		f.t.Fatal(err)
	}
	return response.Results[0]
}

func (f *fixture) redrive(r *kinesinv1.RedriveRequest) *kinesinv1.ChangeResult {
	f.t.Helper()
	r.Ids = append(r.Ids, f.beside...)
	response, err := f.Redrive(f.ctx, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return response.Results[0]
}

// wantWaits checks that a task waits for an instant: its task row names a wake-up row, and no other is left.
func (f *fixture) wantWaits(id string, at task.Instant) task.Task {
	f.t.Helper()
	row := f.row(id)
	rows, err := f.store.Wakeups(f.ctx, []store.WakeKey{store.KeyOf(&row)})
	if err != nil {
		f.t.Fatal(err)
	}
	if row.State != task.Scheduled || row.Due != at || row.Wake != at || row.WakeRow.At != at || rows[0].ID != row.ID {
		f.t.Errorf("the task is %s, due %d, wakes %d, at %+v: want %d; wake-up row %+v", row.State, row.Due, row.Wake, row.WakeRow, at, rows[0])
	}
	if left := f.waitingRows(); len(left) != 0 {
		f.t.Errorf("leftover wake-up rows: %+v", left)
	}
	return row
}

// inStates makes a task in each state, named as that.
var inStates = map[string]func(f *fixture) string{
	"waiting":     func(f *fixture) string { return f.accept(in(time.Minute)) },
	"keyed":       func(f *fixture) string { return f.accept(with(in(time.Minute), func(i *item) { i.Key = "k" })) },
	"enqueued":    func(f *fixture) string { return f.accept(in(0)) },
	"claimed":     func(f *fixture) string { id := f.accept(in(0)); f.claim(id); return id },
	"backing off": func(f *fixture) string { return f.ended(task.OutcomeRetriable) },
	"snoozed":     func(f *fixture) string { return f.ended(task.OutcomeSnoozed) },
	"success":     func(f *fixture) string { return f.ended(task.OutcomeSuccess) },
	"fatal":       func(f *fixture) string { return f.ended(task.OutcomeFatal) },
	"cancelled":   func(f *fixture) string { id := f.accept(in(time.Minute)); f.cancel(id); return id },
}

// ended runs a task once.
func (f *fixture) ended(o task.Outcome) string {
	f.t.Helper()
	id := f.accept(in(0))
	f.claim(id)
	f.finish(id, o)
	return id
}

func TestRescheduleInEveryState(t *testing.T) {
	for name, accept := range inStates {
		run(t, func(f *fixture) {
			id := accept(f)
			before := f.get(id).Task
			r := f.reschedule(id, time.Hour, 0)
			switch name {
			case "claimed":
				wantRefusal(t, name, r.Problem, isTooLate, "a worker has the task")
			case "success", "fatal", "cancelled":
				wantRefusal(t, name, r.Problem, isTooLate, "has ended", "redrive")
			default:
				due := f.clock.Now().Add(time.Hour).CeilMillis()
				row := f.wantWaits(id, due)
				if r.Problem != nil || r.State != "scheduled" || r.Due != int64(due) || r.Seq != row.Seq || row.Seq <= before.Seq {
					t.Errorf("%s: %v", name, r)
				}
				if now := f.get(id).Task; now.Id != id || now.Failures != before.Failures || string(now.Payload) != string(before.Payload) {
					t.Errorf("%s: was %v, is %v", name, before, now)
				}
			}
		})
	}
}

// A task that was moved to now is found where it waits now, and nowhere else.
func TestRunNowAndBack(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		now := task.FromMillis(f.clock.Now().Millis())
		if r := f.reschedule(id, 0, 0); r.Problem != nil || r.Due != int64(now) {
			t.Fatalf("%v", r)
		}
		f.wantWaits(id, now)
		f.reschedule(id, 2*time.Hour, 0)
		f.wantWaits(id, f.clock.Now().Add(2*time.Hour).CeilMillis())
		if f.cancel(id).Problem != nil || len(f.waitingRows()) != 0 {
			t.Errorf("cancel: %d wake-up rows", len(f.waitingRows()))
		}
	})
}

// The answer to a change is lost, and the task goes on before its row is read back. The change is not made
// again.
func TestAChangeWhoseAnswerIsLost(t *testing.T) {
	redrive := func(f *fixture, id string) *kinesinv1.ChangeResult {
		return f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}, Force: true})
	}
	for name, change := range map[string]func(f *fixture, id string) *kinesinv1.ChangeResult{
		"waiting": func(f *fixture, id string) *kinesinv1.ChangeResult { return f.reschedule(id, 0, f.get(id).Task.Seq) },
		"success": redrive, "fatal": redrive,
	} {
		run(t, func(f *fixture) {
			id := inStates[name](f)
			f.driver.Fail(store.ReplaceTask, 1, 1, storetest.AppliedButErrored)
			f.steps.afterwards(func() {
				row := f.row(id)
				row, _, _ = row.Apply(task.Event{Kind: task.Match, Worker: "w", Lease: time.Minute}, f.clock.Now(), task.Policy{})
				row, _, err := row.Apply(task.Event{Kind: task.Finish, Worker: "w", Attempt: row.Attempt, Outcome: task.OutcomeSuccess}, f.clock.Now(), task.Policy{})
				if _, err := f.memory.Apply(f.ctx, []store.Op{{Kind: store.ReplaceTask, Task: row, From: row.Seq - 2}}); err != nil {
					t.Error(err)
				}
				if err != nil {
					t.Error(err)
				}
			})
			if r := change(f, id); r.Problem != nil || r.State != "success" {
				t.Errorf("%s: %v", name, r)
			}
			if row := f.row(id); row.State != task.Success || f.driver.Pending() > 0 {
				t.Errorf("%s: the task is %s", name, row.State)
			}
		})
	}
}

func TestChangesConditionalOnSeq(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		seq := f.get(id).Task.Seq
		if r := f.reschedule(id, time.Minute, seq); r.Problem != nil {
			t.Fatalf("%v", r)
		}
		wantRefusal(t, "reschedule", f.reschedule(id, time.Minute, seq).Problem, isStale, "read it again")
		wantRefusal(t, "update", f.update(&kinesinv1.TaskUpdate{Id: id, IfSeq: seq, MaxAttempts: 3}).Problem, isStale)
		response, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: []string{id}, IfSeq: seq})
		if err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, "cancel", response.Results[0].Problem, isStale)
		f.cancel(id)
		wantRefusal(t, "redrive", f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}, IfSeq: seq}).Problem, isStale)
		if _, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: []string{id, id}, IfSeq: seq}); err == nil {
			t.Error("one seq for two tasks is accepted")
		}
	})
}

// A dispatch or a claim at the same time wins or loses as a whole.
// runBeside runs a test twice: with calls for one task, and with calls that name others too, so that all are
// changed in one write.
func runBeside(t *testing.T, test func(f *fixture)) {
	t.Helper()
	run(t, test)
	run(t, func(f *fixture) {
		f.beside = []string{f.accept(with(in(time.Hour), func(i *item) { i.Key = "beside" })), "nonsense", inStates["cancelled"](f)}
		test(f)
	})
}

func TestAChangeThatLosesIsDecidedAnew(t *testing.T) {
	runBeside(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		f.rows.beforeApply = func([]store.Op) {
			f.rows.beforeApply = nil
			if err := f.dispatch(id); err != nil {
				t.Error(err)
			}
			f.claim(id)
		}
		wantRefusal(t, "a claim came first", f.reschedule(id, time.Minute, 0).Problem, isTooLate, "a worker has the task")
	})
	runBeside(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		f.rows.beforeApply = func([]store.Op) {
			f.rows.beforeApply = nil
			if err := f.dispatch(id); err != nil {
				t.Error(err)
			}
		}
		if r := f.reschedule(id, time.Minute, 0); r.Problem != nil {
			t.Errorf("a dispatch came first: %v", r)
		}
		f.wantWaits(id, f.clock.Now().Add(time.Minute).CeilMillis())
	})
}

// A write whose answer is lost conflicts with its own effect once the task has moved on: the change was done.
func TestAChangeWhoseAnswerIsLostIsDone(t *testing.T) {
	payload := []byte("new")
	for name, c := range map[string]struct {
		start  string
		change func(f *fixture, id string, seq uint64) *kinesinv1.ChangeResult
	}{
		"reschedule of a wake-up row": {"waiting", func(f *fixture, id string, _ uint64) *kinesinv1.ChangeResult { return f.reschedule(id, 0, 0) }},
		"reschedule":                  {"keyed", func(f *fixture, id string, _ uint64) *kinesinv1.ChangeResult { return f.reschedule(id, 0, 0) }},
		"reschedule with a seq":       {"keyed", func(f *fixture, id string, seq uint64) *kinesinv1.ChangeResult { return f.reschedule(id, 0, seq) }},
		"update": {"enqueued", func(f *fixture, id string, _ uint64) *kinesinv1.ChangeResult {
			return f.update(&kinesinv1.TaskUpdate{Id: id, Payload: payload})
		}},
		"update of what backs off": {"backing off", func(f *fixture, id string, _ uint64) *kinesinv1.ChangeResult {
			return f.update(&kinesinv1.TaskUpdate{Id: id, Payload: payload})
		}},
		"redrive": {"fatal", func(f *fixture, id string, _ uint64) *kinesinv1.ChangeResult {
			return f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			runBeside(t, func(f *fixture) {
				id := inStates[c.start](f)
				seq := f.row(id).Seq
				if strings.HasSuffix(name, "with a seq") {
					f.beside = nil
				}
				f.rows.beforeApply = func(ops []store.Op) { // the first try, of which nobody is told
					f.rows.beforeApply = nil
					f.apply(slices.Clone(ops)...)
					f.move(id, task.Event{Kind: task.Enqueue})
					f.claim(id)
				}
				if r := c.change(f, id, seq); r.Problem != nil {
					t.Errorf("%v, want a change that was done", r)
				}
				if got := f.row(id); got.State != task.Claimed {
					t.Errorf("the task is %s, want it to run as it was changed", got.State)
				}
			})
		})
	}
}

func TestUpdate(t *testing.T) {
	large := strings.Repeat("L", payload)
	for _, name := range []string{"waiting", "keyed", "enqueued", "backing off"} {
		for _, text := range []string{"other", "", large} {
			run(t, func(f *fixture) {
				id := inStates[name](f)
				before := f.row(id)
				r := f.update(&kinesinv1.TaskUpdate{Id: id, Payload: []byte(text), MaxAttempts: 7, Timeout: 5e6})
				row, now := f.row(id), f.get(id).Task
				if r.Problem != nil || string(now.Payload) != text || row.Overrides.MaxAttempts != 7 || row.Overrides.Timeout != 5*time.Second {
					t.Errorf("%s: %v, payload of %d bytes, %+v", name, r, len(now.Payload), row.Overrides)
				}
				if !before.ID.IsZero() && row.Due != before.Due || row.WakeRow.At != row.Wake {
					t.Errorf("%s: due %d and wakes %d at %d; was %d", name, row.Due, row.Wake, row.WakeRow.At, before.Due)
				}
				if text != large {
					return
				}
				f.update(&kinesinv1.TaskUpdate{Id: id, Payload: []byte("small")})
				if _, err := f.store.Payload(f.ctx, row.PayloadID()); err == nil {
					t.Errorf("%s: the payload that was replaced is kept", name)
				}
			})
		}
	}
}

// Settings of a task become those of its lambda again.
func TestUpdateResets(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		if r := f.update(&kinesinv1.TaskUpdate{
			Id: id, MaxAttempts: 5, Timeout: 5e6, BackoffMin: 1e6, BackoffMax: 2e6, Priority: "high", StartBefore: int64(start.Add(100 * time.Hour)),
		}); r.Problem != nil {
			t.Fatal(r.Problem)
		}
		before := f.get(id).Task
		for _, name := range []string{"max_attempts", "timeout", "start_before", "priority"} {
			if r := f.update(&kinesinv1.TaskUpdate{Id: id, Fields: []string{name}}); r.Problem != nil {
				t.Errorf("reset %s: %v", name, r.Problem)
			}
		}
		f.update(&kinesinv1.TaskUpdate{Id: id, Fields: []string{"backoff_min", "backoff_max"}})
		if after := f.get(id).Task; after.MaxAttempts != task.MaxAttemptsDefault || after.Timeout != 0 || after.BackoffMin != 0 || after.BackoffMax != 0 ||
			after.StartBefore != 0 || after.Priority != "normal" || before.Priority != "high" || before.MaxAttempts != 5 || before.StartBefore == 0 {
			t.Errorf("from %v to %v", before, after)
		}
		if r := f.update(&kinesinv1.TaskUpdate{Id: id, Fields: []string{"payload"}}); r.Problem != nil || f.get(id).Task.PayloadBytes != 0 {
			t.Error("no payload:", r, f.get(id))
		}
		for _, u := range []*kinesinv1.TaskUpdate{{Id: id, MaxAttempts: 5}, {Id: id, Fields: []string{"if_seq"}}} {
			if _, err := f.Update(f.ctx, &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{u}}); err == nil {
				t.Errorf("%v is no mistake", u)
			}
		}
	})
}

func TestUpdateRefuses(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		wantRefusal(t, "too large", f.update(&kinesinv1.TaskUpdate{Id: id, Payload: make([]byte, payload+1)}).Problem, kinesinv1.Reason_REASON_TOO_LARGE)
		wantRefusal(t, "attempts", f.update(&kinesinv1.TaskUpdate{Id: id, MaxAttempts: 5000}).Problem, isInvalid, "max attempts")
		wantRefusal(t, "expiry", f.update(&kinesinv1.TaskUpdate{Id: id, StartBefore: int64(f.clock.Now())}).Problem, isInvalid, "start_before")
		wantRefusal(t, "nobody's", f.update(&kinesinv1.TaskUpdate{Id: "k1abc"}).Problem, kinesinv1.Reason_REASON_NOT_FOUND)
		if _, err := f.Update(f.ctx, &kinesinv1.UpdateRequest{}); err == nil {
			t.Error("no updates are accepted")
		}
		both := &kinesinv1.TaskUpdate{Id: id, Key: &kinesinv1.TaskKey{Lambda: "mail", Key: "k"}}
		if _, err := f.Update(f.ctx, &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{both}}); err == nil {
			t.Error("an id and a key are accepted")
		}
	})
}

func TestRedriveInEveryState(t *testing.T) {
	for name, accept := range inStates {
		run(t, func(f *fixture) {
			id := accept(f)
			before := f.get(id).Task
			r := f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}})
			switch name {
			case "fatal", "cancelled":
				now := task.FromMillis(f.clock.Now().Millis())
				row := f.wantWaits(id, now)
				if r.Problem != nil || row.Failures != 0 || row.CancelRequested || !row.FirstStarted.IsZero() || !row.Ended.IsZero() {
					t.Errorf("%s: %v %+v", name, r, row)
				}
				after := f.get(id).Task
				if len(after.Attempts) != len(before.Attempts) || string(after.Payload) != string(before.Payload) || after.Id != id {
					t.Errorf("%s: was %v, is %v", name, before, after)
				}
				wantRefusal(t, name+" again", f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}}).Problem, isTooLate, "has not ended")
			case "success":
				wantRefusal(t, name, r.Problem, isTooLate, "by force")
				if r := f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}, Force: true, Payload: []byte("anew")}); r.Problem != nil {
					t.Errorf("by force: %v", r.Problem)
				}
				if got := string(f.get(id).Task.Payload); got != "anew" {
					t.Errorf("payload %q", got)
				}
			default:
				wantRefusal(t, name, r.Problem, isTooLate)
			}
		})
	}
}

// A call whose answer was lost is repeated, and the try that its caller gave up may come last: when the task
// has ended again, or meanwhile.
func TestARepeatedRedriveIsDoneOnce(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.ended(task.OutcomeFatal)
		try := func(request byte, seq uint64) *kinesinv1.ChangeResult {
			return f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}, IfSeq: seq, RequestId: uuid7(request)})
		}
		seq := f.get(id).Task.Seq
		for range 2 {
			if r := try(1, seq); r.Problem != nil || r.State != "scheduled" {
				t.Errorf("%v", r)
			}
		}
		f.cancelled(id)
		if r := try(1, seq); r.Problem != nil || r.State != "cancelled" {
			t.Errorf("a late try: %v, want what became of the task", r)
		}
		if r := try(2, 0); r.Problem != nil || r.State != "scheduled" {
			t.Errorf("another call: %v", r)
		}
		for _, name := range []string{"ada", "bob"} { // an id counts for its caller alone
			f.cancelled(id)
			ctx := access.With(f.ctx, access.Caller{Identity: access.Identity{Name: name, Grants: access.All()}})
			r, err := f.Redrive(ctx, &kinesinv1.RedriveRequest{Ids: []string{id}, RequestId: uuid7(3)})
			if err != nil || r.Results[0].Problem != nil || r.Results[0].State != "scheduled" {
				t.Errorf("%s: %v, %v", name, r, err)
			}
		}
		_, err := f.Redrive(f.ctx, &kinesinv1.RedriveRequest{Ids: []string{id}, RequestId: []byte("one")})
		if err == nil || !strings.Contains(err.Error(), "want the 16 bytes of a UUID version 7") {
			t.Errorf("a bad request id: %v", err)
		}
	})
}

// An attempt of the first life is fenced in the second one.
func TestRedriveFencesEarlierAttempts(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.ended(task.OutcomeFatal)
		f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}})
		f.move(id, task.Event{Kind: task.Enqueue})
		row := f.claim(id)
		if row.Attempt != 2 {
			t.Errorf("attempt %d", row.Attempt)
		}
		if _, _, err := row.Apply(task.Event{Kind: task.Finish, Worker: "w", Attempt: 1, Outcome: task.OutcomeSuccess}, f.clock.Now(), task.Policy{}); err == nil {
			t.Error("a report of the first life ends the second one")
		}
	})
}

// The payload and the settings of a task that was cancelled in the buffer are nowhere.
func TestATombstoneIsNotRedriven(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		id := b.accepted(in(time.Hour))[0]
		if r := b.cancel(id); r.Problem != nil {
			t.Fatal(r.Problem)
		}
		wantRefusal(t, "without", b.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}}).Problem, isTooLate, "payload")
		with := &kinesinv1.RedriveRequest{Ids: []string{id}, Payload: []byte("p")}
		wantRefusal(t, "with a payload", b.redrive(with).Problem, isTooLate, "settings")
	})
}

func TestARescheduledTaskKeepsItsExpiry(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		until := f.clock.Now().Add(2 * time.Hour)
		if r := f.update(&kinesinv1.TaskUpdate{Id: id, StartBefore: int64(until)}); r.Problem != nil {
			t.Fatal(r.Problem)
		}
		wantRefusal(t, "beyond its expiry", f.reschedule(id, 3*time.Hour, 0).Problem, isInvalid, "expires at", "start_before")
		if r := f.reschedule(id, 90*time.Minute, 0); r.Problem != nil || f.row(id).StartBefore != until {
			t.Errorf("%v, expires %d", r.Problem, f.row(id).StartBefore)
		}
	})
}

// A payload may be replaced, and deleted, after the row that names it was read.
func TestAGetMeetsAnUpdate(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(with(in(time.Hour), func(i *item) { i.Key, i.Payload = "k", make([]byte, payload) }))
		f.rows.set(nil, nil, func() {
			f.rows.set(nil, nil, nil)
			f.update(&kinesinv1.TaskUpdate{Id: id, Payload: []byte("other")})
		})
		if got := f.get(id); got.Problem != nil || string(got.Task.Payload) != "other" || got.Task.PayloadBytes != 5 {
			t.Errorf("%v", got)
		}
	})
}
