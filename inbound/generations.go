package inbound

import "sync"

// generations counts calls in hand, so that someone can wait for all that began before a moment.
type generations struct {
	mu     sync.Mutex // guards what stands here, and that nothing is added to what somebody waits for
	now    *sync.WaitGroup
	before <-chan struct{} // closed when all calls before those of now are over; nil when there were none
}

func newGenerations() *generations { return &generations{now: &sync.WaitGroup{}} }

// begin counts a call; end must be called when it is over.
func (g *generations) begin() (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now.Add(1)
	return g.now.Done
}

// turn returns a channel that is closed when all calls that have begun are over.
func (g *generations) turn() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	old, before, over := g.now, g.before, make(chan struct{})
	g.now, g.before = &sync.WaitGroup{}, over
	go func() {
		defer close(over)
		old.Wait()
		if before != nil {
			<-before
		}
	}()
	return over
}
