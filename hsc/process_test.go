package hsc

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// neighbour is a worker process on the server's machine, as the server sees it.
type neighbour struct {
	ended  atomic.Bool
	closed atomic.Bool
}

func (n *neighbour) HasEnded() bool { return n.ended.Load() && !n.closed.Load() }

func (n *neighbour) Close() error {
	n.closed.Store(true)
	return nil
}

const homely = "127.0.0.1:40000"

// beside returns a worker on the server's machine that has n tasks.
func (f *fixture) beside(n int, change ...func(*task.Task)) (*neighbour, *remote, []*kinesinv1.Claimed) {
	f.Helper()
	p := &neighbour{}
	f.svc.WatchProcess = func(*kinesinv1.Process) Process { return p }
	w := f.dialFrom(homely, f.register(), &kinesinv1.Hello{
		Groups: []*kinesinv1.SlotGroup{slots(uint32(n), "mail")}, Process: &kinesinv1.Process{Pid: 7},
	})
	for range n {
		f.enqueue(f.task("mail", change...))
	}
	synctest.Wait()
	return p, w, w.wantClaimed(n)
}

// A worker process on the server's machine is killed: its tasks go back once its children must be gone, as
// suspects, as when a lease runs out.
func TestWhatADeadProcessRanGoesBackAtOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		p, w, tasks := f.beside(3)
		w.report("success", tasks[0])
		_ = w.close()
		time.Sleep(100 * time.Millisecond) // it is dying
		p.ended.Store(true)
		time.Sleep(orphansDieIn - processLookEvery)
		synctest.Wait()
		f.wantState(id(tasks[1]), task.Claimed)
		time.Sleep(2 * processLookEvery)
		synctest.Wait()
		f.wantState(id(tasks[0]), task.Success)
		for _, c := range tasks[1:] {
			if row := f.wantState(id(c), task.Enqueued); !row.Suspect || row.Lost != 1 || row.Blamed != 0 {
				t.Errorf("%+v", row)
			}
		}
		l, err := f.book.Look(f.ctx, w.id)
		if err != nil || !l.Lost || l.Version == 0 {
			t.Errorf("its lease is %+v, %v", l, err)
		}
		if !p.closed.Load() {
			t.Error("the process is watched on")
		}
		f.work(slots(3, "mail")).wantClaimed(2)
	})
}

// The death of a process is blamed on the task that it ran in quarantine.
func TestADeadProcessBlamesWhatItRanApart(t *testing.T) {
	bubble(t, func(f *fixture) {
		p, w, tasks := f.beside(1, func(t *task.Task) { t.Suspect, t.Lost, t.Blamed = true, 2, 1 })
		_ = w.close()
		p.ended.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if row := f.wantState(id(tasks[0]), task.Dead); row.Lost != 3 {
			t.Errorf("%+v", row)
		}
	})
}

// A live process keeps its tasks, however its stream ended.
func TestAProcessThatLivesKeepsItsTasks(t *testing.T) {
	bubble(t, func(f *fixture) {
		p, w, tasks := f.beside(1)
		_ = w.close()
		time.Sleep(5 * time.Second) // stopped, or on its way to another stream
		f.wantState(id(tasks[0]), task.Claimed)
		again := f.dialFrom(homely, w.id, &kinesinv1.Hello{
			Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}, Held: []*kinesinv1.Held{held(tasks[0])}, Process: &kinesinv1.Process{Pid: 7},
		})
		p.ended.Store(true) // it is not seen before this stream breaks
		time.Sleep(2 * time.Second)
		f.wantState(id(tasks[0]), task.Claimed)
		again.report("success", tasks[0])
		f.wantState(id(tasks[0]), task.Success)
	})
}

// A process whose lease runs out without a stream is judged by the lease, and not watched any longer.
func TestADeathIsNotWaitedForLongerThanTheLease(t *testing.T) {
	bubble(t, func(f *fixture) {
		p, w, tasks := f.beside(1)
		_ = w.close()
		time.Sleep(16 * time.Second)
		if !p.closed.Load() {
			t.Error("the process is watched on")
		}
		f.wantState(id(tasks[0]), task.Claimed)
	})
}

// Only a worker that connects from this machine is watched.
func TestProcessesOfOtherMachinesAreNotWatched(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.svc.WatchProcess = func(*kinesinv1.Process) Process {
			t.Error("a process of another machine is looked for")
			return nil
		}
		for _, peer := range []string{"10.0.0.7:40000", "[2001:db8::1]:40000", "inproc", ""} {
			w := f.dialFrom(peer, f.register(), &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}, Process: &kinesinv1.Process{Pid: 7}})
			_ = w.close()
		}
		seen := 0
		f.svc.WatchProcess = func(*kinesinv1.Process) Process {
			seen++
			return nil
		}
		for _, peer := range []string{homely, "[::1]:40000", "[::ffff:127.0.0.1]:40000"} {
			w := f.dialFrom(peer, f.register(), &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}, Process: &kinesinv1.Process{Pid: 7}})
			_ = w.close()
			w = f.dialFrom(peer, f.register(), &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}})
			_ = w.close()
		}
		if seen != 3 {
			t.Errorf("%d processes of this machine were looked for, want 3: those that say where they run", seen)
		}
	})
}

// A heartbeat that was sent before the death, and arrives while the lease is ended, does not keep the lease
// from ending.
func TestALateHeartbeatOfADeadProcess(t *testing.T) {
	bubble(t, func(f *fixture) {
		p, w, tasks := f.beside(1)
		_ = w.close()
		beat := func() { f.heartbeat(w.id, held(tasks[0])) }
		f.leases.before.Store(&beat)
		p.ended.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if f.leases.before.Load() != nil {
			t.Fatal("nobody ended the lease")
		}
		f.wantState(id(tasks[0]), task.Enqueued)
	})
}

// While the store is away the lease is left to run out.
func TestADeathWhileTheStoreIsAway(t *testing.T) {
	bubble(t, func(f *fixture) {
		p, w, tasks := f.beside(1)
		_ = w.close()
		f.leases.away.Store(true)
		p.ended.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		f.wantState(id(tasks[0]), task.Claimed)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.failed["end the lease of a process that has ended"] != 1 {
			t.Errorf("failures %v", f.failed)
		}
	})
}

// A server that stops does not wait for the death of a process.
func TestAServerThatStopsWatchesNobody(t *testing.T) {
	bubble(t, func(f *fixture) {
		p, w, _ := f.beside(1)
		_ = w.close()
		f.stop()
		if !p.closed.Load() {
			t.Error("the process is watched on")
		}
	})
}
