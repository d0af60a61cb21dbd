package hsc

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// An accepted heartbeat promises that what it named is known to run. So it fails when rows cannot be read.
func TestAHeartbeatFailsWhileRowsCannotBeRead(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		before, err := f.book.Look(f.ctx, w.id)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		f.store.reads = 1
		_, err = f.svc.Heartbeat(f.ctx, &kinesinv1.HeartbeatRequest{Worker: w.id, Running: []*kinesinv1.Held{held(c)}})
		wantReason(t, err, kinesinv1.Reason_REASON_UNAVAILABLE)
		if l, err := f.book.Look(f.ctx, w.id); err != nil || l.Receipt != before.Receipt {
			t.Errorf("the lease was renewed: %+v, %v", l, err)
		}
		f.heartbeat(w.id, held(c))
		f.wantState(id(c), task.Processing)
	})
}

func TestAHeartbeatFailsWhileStartsCannotBeWritten(t *testing.T) {
	for _, applied := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			w, c := f.one()
			time.Sleep(confirmAfter)
			f.store.failApply(1, applied)
			_, err := f.svc.Heartbeat(f.ctx, &kinesinv1.HeartbeatRequest{Worker: w.id, Running: []*kinesinv1.Held{held(c)}})
			wantReason(t, err, kinesinv1.Reason_REASON_UNAVAILABLE)
			f.heartbeat(w.id, held(c))
			f.wantState(id(c), task.Processing)
		})
	}
}

// A heartbeat is one write, whatever number of tasks runs for whatever time, and their rows are read only
// once in a while.
func TestHeartbeatsCostPerWorkerAndNotPerTask(t *testing.T) {
	bubble(t, func(f *fixture) {
		const n = 200
		f.enqueueMany("mail", n)
		w := f.work(slots(n, "mail"))
		var running []*kinesinv1.Held
		for _, c := range w.wantClaimed(n) {
			running = append(running, held(c))
		}
		f.heartbeat(w.id, running...)
		if f.store.rows > 2*n {
			t.Errorf("%d rows read of tasks that have just been claimed", f.store.rows)
		}
		time.Sleep(confirmAfter)
		f.heartbeat(w.id, running...) // confirms them
		reads, writes := f.store.rows, f.store.writes
		const minutes = 10
		for range minutes * 16 {
			time.Sleep(time.Minute / 16)
			f.heartbeat(w.id, running...)
		}
		if got := f.store.rows - reads; got > (minutes*int(time.Minute/time.Second)/int(reviewEvery/time.Second)+1)*n {
			t.Errorf("%d rows read in %d minutes for %d tasks", got, minutes, n)
		}
		if f.store.writes != writes {
			t.Errorf("%d writes of tasks", f.store.writes-writes)
		}
	})
}

// other is another process over the same store: it has no stream of the worker.
func (f *fixture) other() *Service {
	c := f.svc.Config
	c.Hooks = Hooks{}
	return New(c)
}

func TestACancelReachesAWorkerOfAnotherProcessWithItsNextHeartbeat(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 3)
		w := f.work(slots(3, "mail"))
		got := w.wantClaimed(3)
		var running []*kinesinv1.Held
		for _, c := range got {
			running = append(running, held(c))
		}
		time.Sleep(confirmAfter)
		f.heartbeat(w.id, running...)
		time.Sleep(time.Second)
		f.heartbeat(w.id, running...)

		other := f.other()
		other.CancelRequested(f.change(id(got[1]), task.Event{Kind: task.Cancel}))
		other.doWork(f.ctx)
		for range 3 { // and again, as long as it runs: an answer may be lost
			time.Sleep(time.Second)
			r := f.heartbeat(w.id, running...)
			if len(r.GetCancels()) != 1 || string(r.GetCancels()[0].GetTask()) != string(got[1].GetTask()) {
				t.Errorf("cancels %v", r.GetCancels())
			}
		}
		if cancels := w.cancels(); len(cancels) != 0 {
			t.Errorf("the stream said %v", cancels)
		}
	})
}

// Any process may take a heartbeat, and each knows only what it saw.
func TestACancelReachesAWorkerWhoseHeartbeatsGoElsewhere(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		other := f.other()
		beat := func(s *Service) *kinesinv1.HeartbeatResponse {
			t.Helper()
			r, err := s.Heartbeat(f.ctx, &kinesinv1.HeartbeatRequest{Worker: w.id, Running: []*kinesinv1.Held{held(c)}})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		beat(f.svc)
		beat(other)
		third := f.other()
		third.CancelRequested(f.change(id(c), task.Event{Kind: task.Cancel}))
		third.doWork(f.ctx)
		if r := beat(other); len(r.GetCancels()) != 1 {
			t.Errorf("cancels %v", r.GetCancels())
		}
		if r := beat(f.svc); len(r.GetCancels()) != 1 {
			t.Errorf("cancels %v", r.GetCancels())
		}
	})
}

// If the cancelling process tells nobody, the rows still do.
func TestACancelNobodyTellsOfReachesItsWorkerInTheEnd(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		f.heartbeat(w.id, held(c))
		f.change(id(c), task.Event{Kind: task.Cancel})
		cancelled := 0
		for range reviewEvery/(10*time.Second) + 1 {
			time.Sleep(10 * time.Second)
			cancelled += len(f.heartbeat(w.id, held(c)).GetCancels())
		}
		if cancelled == 0 {
			t.Error("never told")
		}
	})
}

func TestNoticesAreWrittenByTheRunningService(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register() // and no stream
		f.enqueueMany("mail", 1)
		got, err := f.claim(worker, 1, 0)
		if len(got) != 1 || err != nil {
			t.Fatal(got, err)
		}
		f.heartbeat(worker, held(got[0]))
		f.svc.CancelRequested(f.change(id(got[0]), task.Event{Kind: task.Cancel}))
		synctest.Wait()
		if l, err := f.book.Look(f.ctx, worker); err != nil || l.Attend != 1 {
			t.Errorf("%+v, %v", l, err)
		}
		if r := f.heartbeat(worker, held(got[0])); len(r.GetCancels()) != 1 {
			t.Errorf("cancels %v", r.GetCancels())
		}
	})
}

// leaseRows fails the writes of some leases.
type leaseRows struct {
	lease.Rows

	refuse func(worker string) bool
	tries  atomic.Int64
}

func (r *leaseRows) PutControl(ctx context.Context, c store.Control) error {
	r.tries.Add(1)
	if r.refuse(c.Name) {
		return store.ErrUnknown
	}
	return r.Rows.PutControl(ctx, c)
}

// attended returns a service over lease rows, without workers. It runs until end is called.
func (f *fixture) attended(rows lease.Rows) (s *Service, end func()) {
	c := f.svc.Config
	c.Hooks, c.Leases = Hooks{}, lease.NewBook(rows, f.clock)
	s = New(c)
	return s, runtest.Start(f, s.Run)
}

// A notice that cannot be written on a lease is repeated soon, and does not wait for the next full review.
func TestANoticeThatFailedIsRepeated(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 3)
		const away = 20 * time.Second
		workers := make([]string, 3)
		cancels := make([]task.Task, len(workers))
		for i := range workers {
			workers[i] = f.register()
			got, err := f.claim(workers[i], 1, 0)
			if len(got) != 1 || err != nil {
				t.Fatal(got, err)
			}
			cancels[i] = f.change(id(got[0]), task.Event{Kind: task.Cancel})
		}
		var down atomic.Bool
		down.Store(true)
		rows := &leaseRows{Rows: f.store.Store, refuse: func(string) bool { return down.Load() }}
		s, end := f.attended(rows)
		defer end()
		for _, c := range cancels {
			s.CancelRequested(c)
		}
		time.Sleep(away)
		synctest.Wait()
		if tries := rows.tries.Load(); tries > 120 {
			t.Errorf("%d tries in %v", tries, away)
		}
		down.Store(false)
		time.Sleep(workRetry.Max)
		synctest.Wait()
		for _, worker := range workers {
			if l, err := f.book.Look(f.ctx, worker); err != nil || l.Attend != 1 {
				t.Errorf("%+v, %v", l, err)
			}
		}
		tries := rows.tries.Load()
		time.Sleep(time.Minute)
		if rows.tries.Load() != tries {
			t.Errorf("%d tries more when all was told", rows.tries.Load()-tries)
		}
	})
}

// Leases that can never be written hold up no other. Their notices end when a full review has told the
// workers.
func TestNoticesAreBounded(t *testing.T) {
	bubble(t, func(f *fixture) {
		bad := map[string]bool{}
		for range 3 * noticeFailuresMax {
			bad[f.register()] = true
		}
		good := f.register()
		rows := &leaseRows{Rows: f.store.Store, refuse: func(worker string) bool { return bad[worker] }}
		s, end := f.attended(rows)
		defer end()
		for worker := range bad {
			s.CancelRequested(task.Task{Worker: worker})
		}
		s.CancelRequested(task.Task{Worker: good})
		time.Sleep(workRetry.Max)
		synctest.Wait()
		if l, err := f.book.Look(f.ctx, good); err != nil || l.Attend != 1 {
			t.Errorf("%+v, %v", l, err)
		}
		time.Sleep(reviewEvery + 4*workRetry.Max)
		synctest.Wait()
		tries := rows.tries.Load()
		if most := int64(noticeFailuresMax * 2 * (reviewEvery/workRetry.Max + 20)); tries > most {
			t.Errorf("%d tries, want at most %d", tries, most)
		}
		time.Sleep(time.Minute)
		if rows.tries.Load() != tries {
			t.Errorf("%d tries more in a minute", rows.tries.Load()-tries)
		}
		for n := range 2 * noticesMax {
			s.work.addNotice(strconv.Itoa(n), notice{until: 1})
		}
		if n := len(s.work.notices); n != noticesMax {
			t.Errorf("%d workers, want %d", n, noticesMax)
		}
	})
}

// One process is about to claim a suspect for a worker and has written its id on the lease, by which the loss
// of the worker would be blamed on it. A heartbeat at another process meets the id before the claim.
func TestAHeartbeatElsewhereLeavesASuspectThatIsAboutToBeClaimed(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		about := f.task("mail", suspect(1))
		f.enqueue(about)
		if err := f.book.SetSuspect(f.ctx, worker, about.ID); err != nil {
			t.Fatal(err)
		}
		other := f.other()
		beat := func(want bool) {
			t.Helper()
			for range 2 { // what one heartbeat clears is written with the next
				if _, err := other.Heartbeat(f.ctx, &kinesinv1.HeartbeatRequest{Worker: worker}); err != nil {
					t.Fatal(err)
				}
			}
			if l, err := f.book.Look(f.ctx, worker); err != nil || !l.Suspect.IsZero() != want {
				t.Errorf("the lease names %v, %v", l.Suspect, err)
			}
		}
		beat(true)
		time.Sleep(task.ClaimTimeout / 2)
		beat(true)
		time.Sleep(task.ClaimTimeout) // it was never claimed
		beat(false)
	})
}
