package inbound_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// deleteSome makes one call of a deletion of lambda mail that takes several.
func (f *fixture) deleteSome(drop bool) (*kinesinv1.DeleteLambdaResponse, error) {
	f.t.Helper()
	return f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail", DropTasks: drop, GoesOn: true})
}

// TestManyTasksAreDroppedInSeveralCalls has a store that takes a second for every write.
func TestManyTasksAreDroppedInSeveralCalls(t *testing.T) {
	run(t, func(f *fixture) {
		const tasks = 4000
		for range tasks {
			f.accept(in(time.Hour))
		}
		f.rows.set(func([]store.Op) { f.time.Advance(time.Second) }, nil, nil)
		dropped, calls := int64(0), 0
		for more := true; more; calls++ {
			began := f.clock.Now()
			r, err := f.deleteSome(true)
			if err != nil {
				t.Fatal(err)
			}
			if took := f.clock.Now().Sub(began); took > 8*time.Second {
				t.Errorf("a call took %v", took)
			}
			dropped += r.Dropped
			if more = r.More; more {
				wantRefusal(t, "schedule between two calls", f.schedule(in(0))[0].Problem, isUnknownLambda, "being deleted")
			}
		}
		if dropped != tasks || calls < 3 {
			t.Errorf("%d dropped in %d calls", dropped, calls)
		}
		_, err := f.Catalog.Lambda("mail")
		if !errors.Is(err, catalog.ErrUnknown) || len(f.waitingRows()) != 0 {
			t.Errorf("%d rows are left, %v", len(f.waitingRows()), err)
		}
	})
}

func TestADeletionThatNobodyGoesOnWithIsTakenBack(t *testing.T) {
	run(t, func(f *fixture) {
		for range 4000 {
			f.accept(in(time.Hour))
		}
		cancel := runtest.Start(f.t, f.Catalog.Run)
		synctest.Wait()
		f.rows.set(func([]store.Op) { f.time.Advance(3 * time.Second) }, nil, nil)
		if r, err := f.deleteSome(true); err != nil || !r.More || r.Dropped == 0 {
			t.Errorf("%v, %v", r, err)
		}
		f.rows.set(nil, nil, nil)
		f.time.Advance(catalog.DeletingFor - 10*time.Second)
		wantRefusal(t, "schedule", f.schedule(in(0))[0].Problem, isUnknownLambda, "being deleted")
		f.time.Advance(20 * time.Second)
		f.accept(in(0))
		cancel()
	})
}

// TestADeletionIsSettledOnce has a store that several processes share: each call of one deletion waits for
// what is left of the time in which others may not have heard of it.
func TestADeletionIsSettledOnce(t *testing.T) {
	runWith(t, func(_ *fixture, c *settings) { c.Shared = true }, func(f *fixture) {
		f.accept(in(time.Hour))
		call := func(d time.Duration) (r *kinesinv1.DeleteLambdaResponse, err error) {
			f.during(d, func() { r, err = f.deleteSome(true) })
			return r, err
		}
		if r, err := call(5 * time.Second); err != nil || !r.More || r.Dropped != 0 {
			t.Errorf("before it is settled: %v, %v", r, err)
		}
		if r, err := call(catalog.SettledAfter - 5*time.Second); err != nil || r.More || r.Dropped != 1 {
			t.Errorf("then: %v, %v", r, err)
		}
	})
}

func TestADeletionThatGoesOnGivesUpOnATaskThatDoesNotStop(t *testing.T) {
	run(t, func(f *fixture) {
		f.claim(f.accept(in(0)))
		call := func() (r *kinesinv1.DeleteLambdaResponse, err error) {
			f.during(5*time.Second, func() { r, err = f.deleteSome(true) })
			return r, err
		}
		if r, err := call(); err != nil || !r.More || len(f.stopped) != 1 {
			t.Errorf("first %v, %v; %d were told to stop", r, err, len(f.stopped))
		}
		_, err := call()
		wantError(t, "then", err, isInUse, "told to stop", "try again")
		f.accept(in(0)) // the lambda takes tasks again
	})
}

func TestALambdaWithTasksInTheBufferIsNotDeleted(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		id := b.accepted(in(time.Hour))[0]
		held, err := b.memory.Receive(b.ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		b.consume()
		done := make(chan error, 1)
		go func() {
			_, err := b.deleteSome(false)
			done <- err
		}()
		synctest.Wait()
		b.putBody(held[0].Body)
		b.advance(2 * time.Second)
		wantError(t, "delete", <-done, isInUse, "inbound buffer", "dropped")
		b.advance(5 * time.Second)
		if got := b.state(id); got != "scheduled" || len(b.aside) != 0 {
			t.Errorf("the task is %s, set aside %v", got, b.aside)
		}
		_, err = b.deleteSome(false)
		wantError(t, "again", err, isInUse, "live tasks")
	})
}

func TestALambdaIsNotDeletedWhileTheBufferIsLate(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		id := b.accepted(in(time.Hour))[0]
		b.advance(time.Minute)
		b.consume()
		b.advance(time.Second)
		if r := b.cancelOne(id); r.Problem != nil {
			t.Fatal(r)
		}
		_, err := b.deleteSome(false)
		wantError(t, "delete", err, isInUse, "inbound buffer", "30s", "dropped")
		b.advance(4 * time.Minute)
		b.wantDeleted(false, 0)
	})
}

func TestALambdaIsNotDeletedWhenTheBufferIsNotKnown(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.set(func() { b.refuse = errors.New("no route") })
		b.consume()
		b.advance(2 * time.Minute)
		_, err := b.deleteSome(false)
		wantError(t, "delete", err, kinesinv1.Reason_REASON_UNAVAILABLE, "nothing could be received", "dropped")
		b.accept(in(0))
	})
}

func TestALambdaWithoutTasksIsDeletedWhenTheBufferIsEmpty(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.consume()
		b.wantDeleted(false, 0)
	})
}

// wantDeleted deletes lambda mail in as many calls as it takes, within a minute.
func (b *buffered) wantDeleted(drop bool, dropped int64) {
	b.t.Helper()
	var n int64
	b.during(time.Minute, func() {
		for {
			r, err := b.deleteSome(drop)
			if err != nil {
				b.t.Error(err)
			}
			if n += r.GetDropped(); !r.GetMore() {
				return
			}
		}
	})
	if n != dropped {
		b.t.Errorf("%d dropped, want %d", n, dropped)
	}
}

func (b *buffered) cancelOne(id string) *kinesinv1.CancelResult {
	b.t.Helper()
	r, err := b.Cancel(b.ctx, &kinesinv1.CancelRequest{Ids: []string{id}})
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Results[0]
}

func TestWhatIsInTheBufferOfALambdaThatWasDroppedIsDropped(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		id := b.accepted(in(time.Hour))[0]
		b.wantDeleted(true, 0)
		b.drain(time.Minute)
		if row := b.row(id); row.State != task.Dropped || len(b.aside) != 0 || b.memory.Len() != 0 {
			t.Errorf("the task is %s, set aside %v, %d messages", row.State, b.aside, b.memory.Len())
		}
		if got := b.state(id); got != "dropped" {
			t.Errorf("the task is said to be %s", got)
		}
	})
}

func TestWhatComesFromTheBufferWhileItsLambdaIsDroppedIsDropped(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		running := b.accept(in(0))
		b.claim(running)
		id := b.accepted(in(time.Hour))[0]
		done := make(chan error, 1)
		go func() {
			_, err := b.deleteSome(true)
			done <- err
		}()
		synctest.Wait()
		b.consume()
		b.advance(time.Second)
		if row := b.row(id); row.State != task.Dropped {
			t.Errorf("the task is %s", row.State)
		}
		b.finish(running, task.OutcomeCancelled)
		b.advance(time.Second)
		if err := <-done; err != nil || len(b.aside) != 0 {
			t.Errorf("set aside %v, %v", b.aside, err)
		}
	})
}

// TestADeletionThatWasTakenBackDropsNothingMore has a consumer that knows of the deletion, and does not know
// yet that it was taken back.
func TestADeletionThatWasTakenBackDropsNothingMore(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		id := b.accepted(in(time.Hour))[0]
		marked, err := b.Catalog.Mark(b.ctx, b.lambda, true)
		if err != nil {
			t.Fatal(err)
		}
		elsewhere := b.elsewhere()
		if err := elsewhere.Unmark(b.ctx, marked); err != nil {
			t.Fatal(err)
		}
		b.drain(10 * time.Second)
		if got := b.state(id); got != "scheduled" {
			t.Errorf("the task is %s", got)
		}
	})
}

func TestARetryGoesToTheLambdaThatWasMadeAnew(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		id := b.accepted(with(in(time.Hour), func(i *item) { i.Priority = "low" }))[0]
		if err := b.Catalog.Remove(b.ctx, b.lambda); err != nil { // by an older program
			t.Fatal(err)
		}
		b.drain(5 * time.Minute)
		all := b.rejected()
		if len(all) != 1 || all[0].Reason != ingest.ReasonUnknownLambda || !strings.Contains(all[0].Text, "create one of its name") {
			t.Fatal(all)
		}
		r := b.retry(all[0].Name)[0]
		wantRefusal(t, "retry", r.Problem, isInvalid, `"mail"`, "`kinesin lambda list`")
		if _, err := b.CreateLambda(b.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &lambda{Name: "mail", Priorities: []string{"low"}}}); err != nil {
			t.Fatal(err)
		}
		r = b.retry(all[0].Name)[0]
		if r.Problem != nil || r.Id == id || b.state(r.Id) != "scheduled" || b.get(r.Id).Task.Priority != "low" {
			t.Errorf("retried: %v", r)
		}
		if got := b.state(id); got != kinesinv1.Reason_REASON_NOT_FOUND.String() && got != "accepted" {
			t.Errorf("under its old id it is %s", got)
		}
	})
}
