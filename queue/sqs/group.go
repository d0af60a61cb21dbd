package sqs

import "sync"

// group counts goroutines. Unlike a sync.WaitGroup it may be waited for while some are still added, and takes
// none after that.
type group struct {
	mu      sync.Mutex
	running int
	ended   bool
	idle    chan struct{} // closed when the last one is over; nil while nobody waits
}

// start runs f, unless the group was waited for already.
func (g *group) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return false
	}
	g.running++
	go func() {
		defer g.done()
		f()
	}()
	return true
}

func (g *group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
		g.ended = true
	}
}

// wait returns when nothing runs any more; from then on nothing is started.
func (g *group) wait() {
	g.mu.Lock()
	if g.running == 0 {
		g.ended = true
		g.mu.Unlock()
		return
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	<-idle
}
