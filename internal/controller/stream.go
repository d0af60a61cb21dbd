package controller

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// stream keeps a Work stream open until ctx ends or the lease is lost. Handlers go on while there is none.
func (s *session) stream(ctx context.Context) {
	outage, failures := clock.Mono(s.cfg.Clock), 0
	for ctx.Err() == nil && s.holds() {
		answered, err := s.connect(ctx)
		if ctx.Err() != nil || !s.holds() {
			return
		}
		if errors.Is(err, api.ErrLeaseLost) {
			s.lose("the server says so")
			return
		}
		if answered {
			outage, failures = clock.Mono(s.cfg.Clock), 0
		}
		failures++
		s.cfg.Hooks.broken(err)
		if failures%logEveryNth == 1 {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "work stream broke, opening it again",
				slog.String("worker", s.worker), slog.Int("failures", failures), slog.Any("error", err))
		}
		longest := retryWaitMax
		if clock.Mono(s.cfg.Clock)-outage > outageLong {
			longest = outageWaitMax
		}
		if clock.Sleep(ctx, s.cfg.Clock, jittered(longest, failures, s.cfg.Clock.Uint64())) != nil {
			return
		}
	}
}

// connect opens one stream and carries it until it breaks. answered says whether the server sent anything.
func (s *session) connect(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := s.cfg.Backend.Work(ctx)
	if err != nil {
		return false, err
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := s.write(ctx, st); err != nil && !errors.Is(err, io.EOF) {
			cancel() // at EOF the reader learns why
		}
	})
	answered, err = s.read(st, cancel)
	cancel()
	_ = st.Close() // it is broken, or will be
	writing.Wait()
	return answered, err
}

// errSilent says that a stream was silent for longer than its server is.
var errSilent = errors.New("the server has not been heard for a while")

// read takes what the server sends until the stream breaks, or is silent for twice as long as its server ever
// is: what comes after that was held up on its way, and its tasks may be others' by then.
func (s *session) read(st Stream, closeIt func()) (answered bool, err error) {
	silence := s.cfg.Clock.NewTimer(time.Hour)
	defer silence.Stop()
	silence.Stop()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-silence.C():
			closeIt()
		case <-over:
		}
	}()
	var most time.Duration
	for last := clock.Read(s.cfg.Clock); ; {
		response, err := st.Receive()
		now := clock.Read(s.cfg.Clock)
		if most > 0 && now.Since(last) >= most {
			return answered, errSilent
		}
		if err != nil {
			return answered, err
		}
		if most = 2 * time.Duration(response.NextMicros) * time.Microsecond; most > 0 {
			silence.Reset(most)
		}
		answered, last = true, now
		if !s.receive(response) {
			return answered, api.ErrLeaseLost
		}
	}
}

// receive handles one message; false when the lease is lost.
func (s *session) receive(r *kinesinv1.WorkResponse) bool {
	now := clock.Read(s.cfg.Clock)
	s.mu.Lock()
	if !s.holdsLocked(now) {
		s.mu.Unlock()
		return false
	}
	for _, ack := range r.Acks {
		s.acked(ack, now.Mono)
	}
	var starts []*attempt
	for _, c := range r.Tasks {
		if a := s.admit(c, now.Mono); a != nil {
			starts = append(starts, a)
		}
	}
	for _, h := range r.Cancels {
		s.cancelLocked(h)
	}
	fenced := len(s.fencedOff) > 0
	s.mu.Unlock()
	for _, a := range starts {
		go s.execute(a)
	}
	if fenced {
		s.callFenced()
	}
	return true
}

// admit takes a claimed task in hand; it returns the attempt if its handler is to be started at once.
func (s *session) admit(c *kinesinv1.Claimed, now time.Duration) *attempt {
	k, ok := keyOf(c.Task, c.Attempt)
	if !ok || s.attempts[k] != nil {
		return nil // malformed, or in hand already
	}
	a := attemptOf(k, c, s.byLambda[c.Lambda])
	s.attempts[k] = a
	switch {
	case s.draining || a.group == nil:
		s.unrunnable(a)
	case c.HoldMicros > 0:
		s.alarmLocked(a, now+time.Duration(c.HoldMicros)*time.Microsecond)
	case s.occupyLocked(a, now):
		return a
	}
	return nil
}

// write says hello and then sends what there is to report, until ctx ends or sending fails.
func (s *session) write(ctx context.Context, st Stream) error {
	hello := &kinesinv1.Hello{Worker: s.worker, Groups: wireGroups(s.cfg.Groups), Held: s.refill(), Process: s.cfg.Process}
	if err := st.Send(&kinesinv1.WorkRequest{Hello: hello}); err != nil {
		return err
	}
	timer := s.cfg.Clock.NewTimer(s.cfg.Linger)
	defer timer.Stop()
	for {
		from := clock.StampOf(timer)
		request, wait := s.take()
		if request != nil {
			if !s.holds() {
				return api.ErrLeaseLost
			}
			if err := st.Send(request); err != nil {
				return err
			}
			continue
		}
		rearm(timer, from, wait)
		select {
		case <-s.outWake:
		case <-timer.C():
		case <-ctx.Done():
			return nil
		}
	}
}
