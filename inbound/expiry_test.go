package inbound_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A task has its own StartBefore, or else that of its lambda.
func TestWhenATaskExpires(t *testing.T) {
	run(t, func(f *fixture) {
		own := with(in(time.Minute), func(i *item) { i.StartBefore = int64(start.Add(time.Hour)) })
		for _, within := range []time.Duration{0, 5 * time.Second} {
			if within > 0 {
				update := &kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "mail", StartWithin: within.Microseconds()}}
				if _, err := f.UpdateLambda(f.ctx, masked(update)); err != nil {
					t.Fatal(err)
				}
			}
			var ofLambda task.Instant
			if within > 0 {
				ofLambda = start.Add(time.Minute + within)
			}
			keyed := with(in(time.Minute), func(i *item) { i.Key = within.String() })
			for i, want := range []task.Instant{start.Add(time.Hour), ofLambda, ofLambda} {
				id := f.accept([]*item{own, in(time.Minute), keyed}[i])
				if got := f.get(id).Task; got.GetStartBefore() != int64(want) {
					t.Errorf("start within %v, task %d: start before %v, want %v", within, i, task.Instant(got.GetStartBefore()).Sub(start), want.Sub(start))
				}
			}
		}
	})
}

// A task that replaces another expires as if it were new.
func TestWhenAReplacedTaskExpires(t *testing.T) {
	run(t, func(f *fixture) {
		update := &kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "mail", StartWithin: time.Second.Microseconds()}}
		if _, err := f.UpdateLambda(f.ctx, masked(update)); err != nil {
			t.Fatal(err)
		}
		for _, own := range []task.Instant{0, start.Add(time.Hour)} {
			id := f.accept(with(in(time.Minute), func(i *item) { i.Key = "k" }))
			want := max(own, start.Add(2*time.Minute+time.Second))
			r := f.schedule(with(in(2*time.Minute), func(i *item) { i.Key, i.OnConflict, i.StartBefore = "k", "replace", int64(own) }))[0]
			if got := f.get(id).Task; !r.Replaced || got.GetStartBefore() != int64(want) {
				t.Errorf("start before %v, want %v (%v)", task.Instant(got.GetStartBefore()).Sub(start), want.Sub(start), r)
			}
			f.cancel(id)
		}
	})
}

// A task that starts anew keeps the StartBefore that it was given, while that lies ahead.
func TestWhenARedrivenTaskExpires(t *testing.T) {
	run(t, func(f *fixture) {
		for _, within := range []time.Duration{0, time.Second} {
			if within > 0 {
				update := &kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "mail", StartWithin: within.Microseconds()}}
				if _, err := f.UpdateLambda(f.ctx, masked(update)); err != nil {
					t.Fatal(err)
				}
			}
			redriven := func(own task.Instant, later time.Duration) task.Instant {
				id := f.accept(with(in(time.Minute), func(i *item) { i.StartBefore = int64(own) }))
				f.cancel(id)
				f.time.Advance(later)
				if r := f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}}); r.Problem != nil {
					t.Fatal(r.Problem)
				}
				return task.Instant(f.get(id).Task.GetStartBefore())
			}
			now := f.clock.Now()
			if own := now.Add(3 * time.Hour); redriven(own, 0) != own {
				t.Errorf("start within %v: it lost its own start_before", within)
			}
			var ofLambda task.Instant
			if within > 0 {
				ofLambda = now.Add(within)
			}
			if got := redriven(0, 0); got != ofLambda {
				t.Errorf("start within %v: start before %v of its lambda, want %v", within, got, ofLambda)
			}
			if got := redriven(now.Add(2*time.Minute), 3*time.Minute); got > 0 && got < f.clock.Now() {
				t.Errorf("start within %v: it expires in the past", within)
			}
		}
	})
}

// The wake-up of a task that goes to its queue at once is no later than its expiry.
func TestANearTaskWakesWhenItExpires(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(with(in(time.Second), func(i *item) { i.StartBefore = int64(start.Add(2 * time.Second)) }))
		if row := f.row(id); row.State != task.Enqueued || row.Wake != start.Add(2*time.Second) {
			t.Errorf("%s, wakes after %v", row.State, row.Wake.Sub(start))
		}
	})
}

// The buffer is emptied when it is too late to start a task: the scheduler, which finds its wake-up row, ends
// it.
func TestATaskThatComesOutOfTheBufferTooLateIsStoredForItsEnd(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		ids := b.accepted(with(in(time.Minute), func(i *item) {
			i.StartBefore, i.Tags = int64(start.Add(2*time.Minute)), map[string]string{"tenant": "acme"}
		}))
		b.advance(3 * time.Minute)
		b.drain(time.Second)
		rows := b.waitingRows()
		if len(rows) != 1 || b.messages() != 0 || len(b.aside) != 0 {
			t.Fatalf("%d wake-up rows, %d messages, rejected %v; want one row", len(rows), b.messages(), b.aside)
		}
		if want := []task.Tag{{Name: "tenant", Value: "acme"}}; rows[0].StartBefore != start.Add(2*time.Minute) || len(rows[0].Tags) != 1 || rows[0].Tags[0] != want[0] {
			t.Errorf("out of the buffer came %+v", rows[0])
		}
		ended, _, err := rows[0].Apply(task.Event{Kind: task.Enqueue}, b.clock.Now(), task.Policy{Retention: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		b.apply(store.EndWaiting(ended, &rows[0])...)
		if got := b.get(ids[0]).Task.GetState(); got != task.Expired.String() {
			t.Errorf("state %s", got)
		}
	})
}
