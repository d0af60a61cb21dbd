package inbound

import (
	"sync"
	"sync/atomic"
)

// ends lets calls wait for the end of any task. Telling is free while nobody waits.
type ends struct {
	asked atomic.Bool // whether next is to be closed

	mu   sync.Mutex // guards next and orders changes of asked
	next chan struct{}
}

// wait returns a channel that is closed when tell is called after this. Who asks first and reads the store
// then misses no end, because an end is stored before it is told.
func (e *ends) wait() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.asked.Load() {
		e.next = make(chan struct{})
		e.asked.Store(true)
	}
	return e.next
}

func (e *ends) tell() {
	if !e.asked.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked.Load() {
		e.asked.Store(false)
		close(e.next)
	}
}
