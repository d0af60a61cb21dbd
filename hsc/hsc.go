// Package hsc is the heartbeat and status controller: it serves claims, heartbeats and results to worker
// processes, over a stream or call by call (WorkerService of the wire contract).
//
// It owns the move of a task from enqueued to claimed, processing and the end of its attempt. It receives
// messages from the lambda queues, reserves slots for tasks that need no message, changes task rows through
// task.Task.Apply under compare-and-set, and keeps the leases of workers. Its memory is only a cache: any
// instance can serve any worker, and one that is killed loses nothing.
//
// It never decides when a task is due and starts no attempt early: it tells the worker how long to hold a
// task. It never takes tasks back from a silent worker, unless it sees that the worker's process has ended.
package hsc

import (
	"cmp"
	"context"
	"log/slog"
)

// New returns a service that serves at once. Run does its background work.
func New(c Config) *Service {
	if c.Ahead == 0 {
		c.Ahead = AheadDefault
	}
	c.Silence = max(0, cmp.Or(c.Silence, SilenceDefault))
	if c.Callers == nil {
		c.Callers = c.Clock
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Hooks = c.Hooks.withDefaults()
	s := &Service{Config: c, sessions: map[string]*session{}, work: newWorkList(c.Clock)}
	s.lifetime, s.shutDown = context.WithCancel(context.Background())
	if c.Queue.Durable() {
		s.recentClaims = newRecentClaims()
	}
	return s
}
