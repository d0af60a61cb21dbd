package sim

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errDead ends every call of a process that was killed.
var errDead = errors.New("this process was killed")

// process is one life of a server, a worker or a client. Its goroutines cannot be killed, so a kill cuts
// every way in which they could have an effect: the store, the queue, the network and what handlers do. They
// then end by themselves.
type process struct {
	w     *world
	name  string
	pid   int
	clock *processClock

	mu     sync.Mutex    // guards all below
	dead   chan struct{} // closed by kill
	killed bool
	halted chan struct{} // while it is stopped: closed when it goes on
}

func (w *world) process(name string) *process {
	w.mu.Lock()
	w.pids++
	pid, set := w.pids, w.set[name]
	w.mu.Unlock()
	offset, drift := w.plan.clockOf(pid)
	return &process{w: w, name: name, pid: pid, clock: newClock(w.seed, uint64(1000+pid), offset+set, drift), dead: make(chan struct{})}
}

// kill ends the process: nothing that it does has an effect any more.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.killed {
		p.killed = true
		close(p.dead)
		p.wakeLocked()
	}
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// halt stops the process (SIGSTOP) or its whole machine until wake.
func (p *process) halt(vm bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed || p.halted != nil {
		return
	}
	p.halted = make(chan struct{})
	p.clock.freeze(vm)
}

// wake reports whether the process was stopped.
func (p *process) wake() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wakeLocked()
}

func (p *process) wakeLocked() bool {
	if p.halted == nil {
		return false
	}
	close(p.halted)
	p.halted = nil
	p.clock.thaw()
	return true
}

// step is where another goroutine may go on: it takes the given time, longer while the process is stopped,
// and fails once it is dead.
func (p *process) step(ctx context.Context, takes time.Duration) error {
	if takes > 0 {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.dead:
			return errDead
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		p.mu.Lock()
		halted, killed := p.halted, p.killed
		p.mu.Unlock()
		switch {
		case killed:
			return errDead
		case halted == nil:
			return nil
		}
		<-halted
	}
}
