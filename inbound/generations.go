package inbound

import "sync"

// generations counts calls in hand, so that someone can wait for all that began before a moment.
type generations struct {
	mu  *sync.Mutex // guards now and what it points to
	now *generation
}

type generation struct {
	calls int
	over  bool          // no call joins it any more
	done  chan struct{} // closed when it is over and no call is left
}

func newGenerations() generations {
	return generations{mu: &sync.Mutex{}, now: &generation{done: make(chan struct{})}}
}

// begin counts a call; end must be called when it is over.
func (g *generations) begin() (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := g.now
	mine.calls++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		mine.calls--
		mine.settle()
	}
}

// turn returns a channel that is closed when all calls that have begun are over.
func (g *generations) turn() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.now
	g.now = &generation{done: make(chan struct{})}
	old.over = true
	old.settle()
	return old.done
}

func (g *generation) settle() {
	if g.over && g.calls == 0 {
		close(g.done)
	}
}
