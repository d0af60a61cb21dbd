// Package inbound serves the TaskService of the wire contract: it schedules tasks, answers what became of
// them, lists and cancels them. It calls the store, the intake, the inbound buffer and the scheduler's hints;
// it never talks to workers.
package inbound

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/room"
)

// Inbound serves users. It is safe for concurrent use.
type Inbound struct {
	Config

	sender      *bufferSender // nil without a buffer
	newestLists newestLists
	wholeSets   *room.Room // calls under way that read a whole set
	draining    chan struct{}
	drainOnce   sync.Once
}

// New returns an Inbound.
func New(c Config) *Inbound {
	c.Callers = cmp.Or(c.Callers, c.Clock)
	c.WaitLookEvery = cmp.Or(c.WaitLookEvery, WaitLookEveryDefault)
	c.Buffering = c.Buffering.withDefaults()
	if c.Waits == nil {
		c.Waits = NewWaits()
	}
	in := &Inbound{Config: c, draining: make(chan struct{}), wholeSets: room.New("whole_sets", wholeSetsMax, 1)}
	if c.Buffering.Buffer != nil {
		in.sender = newBufferSender(&in.Config)
	}
	return in
}

// Rooms returns what the calls share.
func (in *Inbound) Rooms() []*room.Room {
	return []*room.Room{in.wholeSets, in.Waits.room, in.Waits.idsRoom}
}

// Drain refuses new tasks from now on and ends all waits, so that a process can stop soon.
func (in *Inbound) Drain() { in.drainOnce.Do(func() { close(in.draining) }) }

// Close sends what still waits for the buffer, until ctx ends.
func (in *Inbound) Close(ctx context.Context) error {
	if in.sender == nil {
		return nil
	}
	return in.sender.Close(ctx)
}

func (in *Inbound) isDraining() bool {
	select {
	case <-in.draining:
		return true
	default:
		return false
	}
}

// internalOnce returns a function that calls the hook with the first internal error of a call.
func (in *Inbound) internalOnce(ctx context.Context, procedure string) func(p *kinesinv1.Problem, err error) {
	told := in.Hooks.Internal == nil
	return func(p *kinesinv1.Problem, err error) {
		if !told && p != nil && p.Reason == kinesinv1.Reason_REASON_INTERNAL {
			told = true
			in.Hooks.Internal(ctx, procedure, err)
		}
	}
}

const (
	// wholeSetsMax bounds the calls under way that read a whole set, which may be millions of rows: so many
	// callers who may only read cannot take the store from everybody else.
	wholeSetsMax = 8
	// wholeSetAgainAfter is when a caller that found so many may try again.
	wholeSetAgainAfter = time.Second
)

// enterWholeSet refuses a call that reads a whole set while its caller has as many as it may have.
func (in *Inbound) enterWholeSet(ctx context.Context) (leave func(), err error) {
	c := access.From(ctx)
	leave, ok := in.wholeSets.Take(c.Name, 1, c.Grants.AllowAll(access.Admin))
	if !ok {
		return nil, api.Errorf(kinesinv1.Reason_REASON_FULL,
			"%d calls on this server may count tasks, show statistics or look for the newest tasks at a time, of one caller as many as are left for others, and no more may now; try again later", wholeSetsMax).After(wholeSetAgainAfter)
	}
	return leave, nil
}
