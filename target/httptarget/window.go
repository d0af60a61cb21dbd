package httptarget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// hostsMax is how many hosts have a window; a call to another one does not wait for one.
	hostsMax = 10_000
	// A host gets windowFirst calls at a time at first, and windowMax at most.
	windowFirst = 10.0
	windowMax   = task.TargetSlotsMax
	// notNextMax is how long a call waits for a host that has as many calls before it as it takes at a time.
	notNextMax = time.Second
)

// windows holds the window of each host that is called, or was not long ago.
type windows struct {
	mu sync.Mutex // guards the rest, and all windows
	of map[string]*window
}

// window bounds the calls that a host gets at a time. It doubles with each round of good answers, grows by one
// after the first failure, and is halved by a round with a failure.
type window struct {
	mu      *sync.Mutex
	size    float64
	steady  bool // it has failed before
	open    int
	halved  task.Instant    // calls that began before are of a round that has failed already
	waiting []chan struct{} // calls that wait, oldest first; at most one for each slot
}

func newWindows() *windows { return &windows{of: map[string]*window{}} }

// get returns the window of a host; nil if too many hosts are called.
func (ws *windows) get(host string) *window {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.of[host]; w != nil {
		return w
	}
	if len(ws.of) >= hostsMax {
		for name, w := range ws.of {
			if w.open == 0 && len(w.waiting) == 0 {
				delete(ws.of, name)
			}
		}
	}
	if len(ws.of) >= hostsMax {
		return nil
	}
	w := &window{mu: &ws.mu, size: windowFirst}
	ws.of[host] = w
	return w
}

// errBusy is returned to a call that waits too long.
var errBusy = errors.New("the host has as many calls as it takes")

// enter waits until the host may get another call, and counts the call; the caller leaves. The next calls, as many as the
// host takes at a time, wait until longest is over; other calls wait for notNextMax, so that calls of other hosts get their
// slots. The error is errBusy, or the cause of the context's end.
func (w *window) enter(ctx context.Context, c clock.Clock, longest time.Duration) (err error) {
	w.mu.Lock()
	if w.open < int(w.size) && len(w.waiting) == 0 {
		w.open++
		w.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	w.waiting = append(w.waiting, turn)
	w.mu.Unlock()
	timer := c.NewTimer(notNextMax)
	defer timer.Stop()
	for err == nil {
		select {
		case <-turn:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-timer.C():
			if longest -= notNextMax; longest <= 0 || !w.isNext(turn) {
				err = errBusy
				break
			}
			timer.Reset(longest)
			longest = 0
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.waiting, turn); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	} else { // its turn came meanwhile
		w.open--
		w.admit()
	}
	return err
}

// isNext reports whether a call is among the next that the host gets, or has its turn already.
func (w *window) isNext(turn chan struct{}) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Index(w.waiting, turn) < int(w.size)
}

// verdict says what a call tells of its host.
type verdict int

const (
	unknown verdict = iota // it was given up for another reason
	good
	overloaded
)

// leave counts a call that began then as ended.
func (w *window) leave(v verdict, began, now task.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	switch {
	case v == good && w.steady:
		w.size = min(w.size+1/w.size, windowMax)
	case v == good:
		w.size = min(w.size+1, windowMax)
	case v == overloaded && began > w.halved:
		w.size, w.steady, w.halved = max(w.size/2, 1), true, now
	}
	w.admit()
}

// admit lets waiting calls go on. Call with mu held.
func (w *window) admit() {
	for len(w.waiting) > 0 && w.open < int(w.size) {
		close(w.waiting[0])
		w.waiting = slices.Delete(w.waiting, 0, 1)
		w.open++
	}
}
