package intake

import "sync"

// calls counts the calls under way, so that a caller can wait for all that began before a moment.
type calls struct {
	mu      sync.Mutex // guards the rest; nothing is added to a group that a caller waits for
	current *sync.WaitGroup
	earlier <-chan struct{} // closed when all calls before those of current are over; nil when there were none
}

func newCalls() *calls { return &calls{current: &sync.WaitGroup{}} }

// begin counts a call; end must be called when it is over.
func (c *calls) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.Add(1)
	return c.current.Done
}

// over returns a channel that is closed when all calls that have begun are over.
func (c *calls) over() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	current, earlier, over := c.current, c.earlier, make(chan struct{})
	c.current, c.earlier = &sync.WaitGroup{}, over
	go func() {
		defer close(over)
		current.Wait()
		if earlier != nil {
			<-earlier
		}
	}()
	return over
}
