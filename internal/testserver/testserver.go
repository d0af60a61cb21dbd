// Package testserver is a server in memory and in virtual time, for tests of programs in other processes. It
// serves the whole API on a port of loopback, and besides it
//
//	GET  /test/now
//	POST /test/advance  {"by":"720h"} or {"to":"2027-01-31T09:00:00Z"}
//
// which answer {"now":…}. An advance goes from one due time to the next, and waits at each until workers have
// ended what is due. Workers are ordinary ones, over a stream or call by call, and run by real time: their
// heartbeats, timeouts and long polls, too. Time stands while an attempt runs.
package testserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/settle"
	"github.com/kinesin-io/kinesin/partition"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// StallDefault is how long, in real time, an advance waits without any event for an attempt to end.
const StallDefault = 10 * time.Second

// Config configures a Server. Log is required.
type Config struct {
	Log   *slog.Logger
	Start time.Time     // of virtual time, in whole seconds; zero: the present
	Stall time.Duration // 0: StallDefault
}

// Server is a server in virtual time.
type Server struct {
	time     *clock.Virtual
	tracker  *settle.Tracker
	workers  *workers
	store    *storemem.Driver
	node     *node.Node
	listener net.Listener
	stall    time.Duration

	advancing chan struct{} // holds a value while time moves
}

// seed makes the jitter of retries the same in every run of a test.
const seed = 1

// New returns a server that listens and does not yet serve.
func New(ctx context.Context, c Config) (*Server, error) {
	if c.Start.IsZero() {
		c.Start = clock.Real().Now().Time()
	}
	s := &Server{
		time:    clock.NewVirtual(task.InstantOf(c.Start.Truncate(time.Second)), seed),
		tracker: settle.New(), store: storemem.New(), stall: cmp.Or(c.Stall, StallDefault), advancing: make(chan struct{}, 1),
	}
	s.workers = follow(s.tracker)
	var err error
	s.node, err = node.New(ctx, node.Config{
		Store:      s.tracker.Store(s.store),
		Queue:      &watchedQueue{queuemem.New(s.time.Process(0), queuemem.Config{DepthMax: math.MaxInt32}), s.workers},
		Membership: partition.Static("test-server"), Clock: s.time.Process(0), Callers: clock.Real(), Log: c.Log,
		QueueDepthMax: math.MaxInt32, Stepped: true, Rests: s.tracker.Signal,
	})
	if err != nil {
		return nil, err
	}
	s.tracker.Server = s.node
	var listen net.ListenConfig
	if s.listener, err = listen.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, s.node.Close())
	}
	return s, nil
}

// URL returns the URL of the server.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /test/now", func(w http.ResponseWriter, _ *http.Request) { s.answerNow(w) })
	mux.HandleFunc("POST /test/advance", s.serveAdvance)
	mux.Handle("/", node.Trusting(s.node.Handler()))
	server := api.NewServer(http.NewCrossOriginProtection().Handler(mux))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer server.Close() // what is left are callers that the node has refused
		return s.node.Run(ctx)
	})
	g.Go(func() error {
		if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	return errors.Join(g.Wait(), s.node.Close())
}

// bodyBytesMax bounds the body of an advance.
const bodyBytesMax = 1 << 10

const wantAdvance = `want {"by":DURATION} or {"to":TIME}, such as {"by":"720h"} or {"to":"2027-01-31T09:00:00Z"}`

func (s *Server) serveAdvance(w http.ResponseWriter, r *http.Request) {
	to, err := s.target(http.MaxBytesReader(w, r.Body, bodyBytesMax))
	if err != nil {
		api.StatusProblem(http.StatusBadRequest, err.Error()).Write(w)
		return
	}
	switch err := s.advance(r.Context(), to); {
	case r.Context().Err() != nil: // nobody reads an answer
	case err != nil:
		api.StatusProblem(http.StatusConflict, err.Error()).Write(w)
	default:
		s.answerNow(w)
	}
}

// target reads where time is to move.
func (s *Server) target(body io.Reader) (task.Instant, error) {
	var request struct{ By, To string }
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&request); err != nil {
		return 0, fmt.Errorf("%w: %s", err, wantAdvance)
	}
	switch {
	case (request.By == "") == (request.To == ""):
		return 0, errors.New(wantAdvance)
	case request.By != "":
		by, err := api.ParseDuration(request.By)
		return s.time.Now().Add(by), err
	}
	to, err := jsonform.ParseInstant(request.To)
	return task.Instant(to), err
}

func (s *Server) answerNow(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, "{\"now\":%q}\n", s.time.Now().Time().Format(time.RFC3339Nano)) // the caller may be gone
}

const (
	// lookEvery is how often an advance looks whether a worker has come back or something has stalled.
	lookEvery = 50 * time.Millisecond
	// sweepRowsMax bounds one deletion.
	sweepRowsMax = 1000
	// describeMax bounds the tasks that an error names.
	describeMax = 10
)

// advance moves time to an instant, from one due time to the next, and returns when all that is due has ended,
// except what no worker takes and what the server holds. Time that is in the past does not move.
func (s *Server) advance(ctx context.Context, to task.Instant) error {
	select {
	case s.advancing <- struct{}{}:
		defer func() { <-s.advancing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	look := clock.Real().NewTimer(lookEvery)
	defer look.Stop()
	last, seen := clock.Real().Now(), uint64(0)
	for {
		state, progress, err := s.step(to)
		if err != nil {
			return err
		}
		switch state {
		case arrived:
			return s.sweep(ctx)
		case moved:
			last = clock.Real().Now()
			continue
		case busy:
		}
		if progress != seen {
			last, seen = clock.Real().Now(), progress
		}
		if quiet := clock.Real().Now().Sub(last); quiet >= s.stall {
			return s.stalled()
		}
		look.Reset(lookEvery)
		select {
		case <-s.tracker.Events:
		case <-look.C():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// state is how an advance stands.
type state int

const (
	busy    state = iota // something that is due has not ended
	moved                // time has moved
	arrived              // all that is due has ended, and time need not move
)

// step moves time to the next due time, to at most, unless something that is due has not ended.
func (s *Server) step(to task.Instant) (st state, progress uint64, err error) {
	s.tracker.Lock()
	defer s.tracker.Unlock()
	now, progress := s.time.Now(), s.tracker.Progress()
	if err := s.workers.spinning(); err != nil {
		return busy, progress, err
	}
	if claimed, processing, _ := s.tracker.Running(); claimed+processing > 0 || s.workers.mayTake() || !s.tracker.Rests(now) {
		return busy, progress, nil
	}
	if now >= to {
		return arrived, progress, nil
	}
	next, found := s.tracker.Next(now)
	if !found || next > to {
		next = to
	}
	s.workers.moved()
	s.time.Jump(next)
	return moved, progress, nil
}

func (s *Server) stalled() error {
	s.tracker.Lock()
	defer s.tracker.Unlock()
	now := s.time.Now()
	return fmt.Errorf("nothing has happened for %v of real time, but this is due at %s and has not ended:\n\t%s\nTime stands while an attempt runs: a handler must not wait for time to pass, and a worker that was killed cannot give its tasks back",
		s.stall, now.Time().Format(time.RFC3339Nano), strings.Join(s.tracker.Overdue(now, describeMax), "\n\t"))
}

// sweep deletes ended tasks whose retention is over. The server does that too, but not at a known time.
func (s *Server) sweep(ctx context.Context) error {
	for {
		n, err := s.store.Sweep(ctx, s.time.Now(), sweepRowsMax)
		if err != nil || n < sweepRowsMax {
			return err
		}
	}
}
