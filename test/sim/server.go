package sim

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/inproc"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/test/checker"
)

// server is one life of a server process.
type server struct {
	*process

	node      *node.Node
	rows      store.Driver // as the node has it
	transport *inproc.Transport
	stop      context.CancelFunc
	over      chan struct{} // closed when all of it has ended
}

// restartDelayMax bounds the backoff of a supervisor, as a kubelet bounds it. A store may be away for hours,
// and each start takes memory that a seed never gives back, as it runs without collections.
const restartDelayMax = 30 * time.Second

// serve starts the server of a slot, as a supervisor does: again and again, with backoff, until it comes up.
func (w *world) serve(slot int) {
	for delay := time.Second; w.ctx.Err() == nil; delay = min(2*delay, restartDelayMax) {
		s, err := w.boot(slot)
		if err == nil {
			w.put(slot, s)
			return
		}
		w.trace.note(fmt.Sprintf("server-%d", slot), "does not start: %v", err)
		time.Sleep(delay)
	}
}

func (w *world) boot(slot int) (*server, error) {
	p := w.process(fmt.Sprintf("server-%d", slot))
	w.trace.note(p.name, "starts as process %d", p.pid)
	c := node.Config{Clock: p.clock, Log: newLog(p), Name: p.name, NoMatch: w.plan.NoMatch}
	var now atomic.Pointer[node.Node]
	var err error
	if c.Store, c.Queue, err = w.drivers(p, now.Load); err != nil {
		p.kill()
		return nil, err
	}
	if !w.plan.Form.shared() {
		c.Membership = partition.Static(p.name, p.name)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	n, err := node.New(ctx, c)
	if err != nil {
		cancel()
		p.kill()
		_, _ = c.Queue.Close(), c.Store.Close()
		return nil, err
	}
	now.Store(n)
	s := &server{process: p, node: n, rows: c.Store, transport: inproc.New(node.Trusting(n.Handler())), stop: cancel, over: make(chan struct{})}
	go func() {
		defer close(s.over)
		err := n.Run(ctx)
		if err != nil && !p.isDead() {
			w.trace.note(p.name, "ends: %v", err)
		}
		p.kill()
		_ = n.Close()
		s.transport.Close()
	}()
	return s, nil
}

// drivers are what a server process stands on.
func (w *world) drivers(p *process, now func() *node.Node) (store.Driver, queue.Driver, error) {
	switch w.plan.Form {
	case cloud:
		rows, queues := w.amazon.drivers(p, now)
		return rows, queues, nil
	case embedded:
		w.forgetSlots()
		w.forgetKeys()
		rows, err := w.disk.open(p)
		return rows, w.queues.of(p), err
	case fleet, alone:
	}
	return &rows{p: p, base: w.rows}, w.queues.of(p), nil
}

// crash kills the server of a slot (kill -9) and starts it again later.
func (w *world) crash(slot int, after time.Duration) {
	s := w.take(slot)
	if s == nil {
		return
	}
	w.saw(string(CrashServer))
	w.trace.note(s.name, "is killed")
	w.event(checker.Event{Kind: checker.ServerDown})
	if w.disk != nil {
		w.disk.cut(s.process)
	}
	s.kill()
	s.stop()
	<-s.over
	time.Sleep(after)
	w.serve(slot)
	w.event(checker.Event{Kind: checker.ServerUp})
}

// replace stops the server of a slot in order and starts another.
func (w *world) replace(slot int) {
	s := w.take(slot)
	if s == nil {
		return
	}
	w.saw(string(Restart))
	w.trace.note(s.name, "is told to stop")
	s.stop()
	<-s.over
	w.serve(slot)
}

func (w *world) put(slot int, s *server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.servers) <= slot {
		w.servers = append(w.servers, nil)
	}
	w.servers[slot] = s
}

// take takes the server out of its slot, so that nobody else stops it; nil when there is none.
func (w *world) take(slot int) *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slot >= len(w.servers) {
		return nil
	}
	s := w.servers[slot]
	w.servers[slot] = nil
	return s
}

// any is a server that is there, another one with each call.
func (w *world) any() *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	var there []*server
	for _, s := range w.servers {
		if s != nil {
			there = append(there, s)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return there[w.random.IntN(len(there))]
}

func newLog(p *process) *slog.Logger { return slog.New(&logs{p}) }

// logs puts what a process logs into the trace.
type logs struct{ p *process }

// Enabled implements slog.Handler, as do the other methods.
func (l *logs) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle notes the record.
func (l *logs) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l.p.w.trace.note(l.p.name, "log: %s", text)
	return nil
}

// WithAttrs leaves the attributes out.
func (l *logs) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup leaves the group out.
func (l *logs) WithGroup(string) slog.Handler { return l }
