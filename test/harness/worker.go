package harness

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/checker"
)

// LeaseMin is the shortest lease a worker may have, for tests that wait for one to run out.
const LeaseMin = 3 * time.Second

// WorkerOptions say how to run a worker process.
type WorkerOptions struct {
	Server *Server       // the first if nil
	Others []*Server     // to which it goes when that one fails
	Slots  int           // 20 if zero
	Lease  time.Duration // LeaseMin if zero
	Grace  time.Duration // 1 s if zero
	Clock  *Clock        // its wall clock; nil: the machine's
	// Receive are flags of a receiver. It has none of the other options.
	Receive []string
}

func (o WorkerOptions) withDefaults(s *Site) WorkerOptions {
	o.Server = cmp.Or(o.Server, s.Servers[0])
	o.Slots = cmp.Or(o.Slots, 20)
	o.Lease = cmp.Or(o.Lease, LeaseMin)
	o.Grace = cmp.Or(o.Grace, time.Second)
	return o
}

// Worker is a process of the fault worker, a worker or a receiver, whose every harm is written down.
type Worker struct {
	*Process

	history *History
	reaped  sync.WaitGroup
	killed  atomic.Int64 // when, in Unix microseconds; 0: it was not
}

// Worker starts a fault worker of the site's lambda; a receiver, if servers call its target.
func (s *Site) Worker(o WorkerOptions) *Worker {
	s.T.Helper()
	if s.options.Runner.IsTarget() {
		return s.receiver(o.Receive)
	}
	o = o.withDefaults(s)
	urls := []string{o.Server.URL}
	for _, other := range o.Others {
		urls = append(urls, other.URL)
	}
	return watched(s.T, s.History, Command{Path: FaultWorker(s.T), Args: []string{
		"-server", strings.Join(urls, ","), "-lambda", s.lambda, "-slots", strconv.Itoa(o.Slots),
		"-lease", o.Lease.String(), "-grace", o.Grace.String(), "-log", s.History.Path(),
	}, Clock: o.Clock})
}

// watched starts a worker program and writes its death down.
func watched(tb testing.TB, h *History, c Command) *Worker {
	tb.Helper()
	w := &Worker{Process: Start(tb, c), history: h}
	w.reaped.Go(func() {
		<-w.Exited()
		at := cmp.Or(w.killed.Load(), w.Gone().UnixMicro()) // a busy machine may notice long after who called it
		h.Add(checker.Event{Kind: checker.Died, At: at, PID: w.PID()})
	})
	tb.Cleanup(func() {
		w.cleanup()
		w.reaped.Wait()
	})
	return w
}

func (w *Worker) hit(kind checker.Kind, s syscall.Signal) time.Time {
	w.tb.Helper()
	now := time.Now()
	w.history.Add(checker.Event{Kind: kind, At: now.UnixMicro(), PID: w.PID()})
	w.Signal(s)
	return now
}

// Stop stops the process with SIGSTOP and returns when that was.
func (w *Worker) Stop() time.Time { w.tb.Helper(); return w.hit(checker.Stopped, syscall.SIGSTOP) }

// Continue lets a stopped process go on.
func (w *Worker) Continue() time.Time {
	w.tb.Helper()
	return w.hit(checker.Continued, syscall.SIGCONT)
}

// Terminate asks the process to end.
func (w *Worker) Terminate() time.Time {
	w.tb.Helper()
	return w.hit(checker.Terminated, syscall.SIGTERM)
}

// Crash kills the process with SIGKILL and returns when it was gone.
func (w *Worker) Crash() time.Time {
	w.tb.Helper()
	w.killed.Store(time.Now().UnixMicro())
	gone := w.Kill()
	w.reaped.Wait()
	return gone
}

// Supervised keeps a worker running: whenever it dies it is started again, until the test is over.
type Supervised struct {
	mu      sync.Mutex
	workers []*Worker
	stopped bool
	done    sync.WaitGroup
}

// Supervise starts a fault worker and starts it again whenever it dies.
func (s *Site) Supervise(o WorkerOptions) *Supervised {
	s.T.Helper()
	w := &Supervised{}
	w.start(s, o)
	s.T.Cleanup(w.stop)
	return w
}

func (s *Supervised) start(site *Site, o WorkerOptions) {
	site.T.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	w := site.Worker(o)
	s.workers = append(s.workers, w)
	s.done.Go(func() {
		<-w.Exited()
		s.start(site, o)
	})
}

// Deaths is how many processes have died.
func (s *Supervised) Deaths() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.workers) - 1
}

// Kill kills the process that runs.
func (s *Supervised) Kill() {
	s.mu.Lock()
	w := s.workers[len(s.workers)-1]
	s.mu.Unlock()
	w.Crash()
}

func (s *Supervised) stop() {
	s.mu.Lock()
	s.stopped = true
	for _, w := range s.workers {
		_ = syscall.Kill(w.PID(), syscall.SIGKILL)
	}
	s.mu.Unlock()
	s.done.Wait()
}
