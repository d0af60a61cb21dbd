package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// openWithinMax bounds the time from the call of a stream to its first message; so does a lease. Heartbeats go
// on meanwhile, and hold the tasks of a worker that reports nothing.
const openWithinMax = 10 * time.Second

// Errors with which a worker gives a stream up. The time of the call is over, which says that its server, or
// something on the way there, hangs.
var (
	errSilent  = fmt.Errorf("the stream was silent for too long: the server hangs, or something on the way holds its messages back: %w", context.DeadlineExceeded)
	errUntaken = fmt.Errorf("no result that was sent on the stream was answered for longer than a lease: %w", context.DeadlineExceeded)
)

// keepStream keeps a Work stream open until ctx ends or the lease is lost. Handlers go on while there is
// none.
func (s *session) keepStream(ctx context.Context) {
	outage, failures, logged := clock.Mono(s.cfg.Clock), 0, time.Duration(0)
	for ctx.Err() == nil && s.holds() {
		answered, err := s.connect(ctx)
		if ctx.Err() != nil || !s.holds() {
			return
		}
		if errors.Is(err, api.ErrLeaseLost) {
			s.lose(lostByServer)
			return
		}
		now := clock.Mono(s.cfg.Clock)
		if answered {
			outage, failures = now, 0
		}
		failures++
		s.cfg.Hooks.Broken(err)
		if failures == 1 || now-logged >= s.length {
			logged = now
			s.log(slog.LevelWarn, "work stream broke; opening it again", slog.Int("failures", failures),
				slog.Duration("without_stream", now-outage), slog.Any("error", err))
		}
		retry := serverRetry
		if now-outage > outageLong {
			retry = outageRetry
		}
		if retry.Sleep(ctx, s.cfg.Clock, failures) != nil {
			return
		}
	}
}

// connect opens one stream and serves it until it breaks. answered reports whether the server sent anything.
func (s *session) connect(ctx context.Context) (answered bool, err error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	silence := s.cfg.Clock.NewTimer(min(s.length, openWithinMax))
	defer silence.Stop()
	s.beginStream(giveUp)
	var others sync.WaitGroup
	others.Go(func() {
		select {
		case <-silence.C():
			giveUp(errSilent)
		case <-ctx.Done():
		}
	})
	st, err := s.cfg.Backend.Work(ctx)
	if err == nil {
		others.Go(func() {
			if err := s.write(ctx, st); err != nil && !errors.Is(err, io.EOF) {
				giveUp(err) // at EOF the reader learns why
			}
		})
		answered, err = s.read(st, silence)
	}
	if why := context.Cause(ctx); why != nil {
		err = why
	}
	giveUp(nil)
	if st != nil {
		_ = st.Close() // it is broken, or will be
	}
	others.Wait()
	return answered, err
}

// beginStream notes how the stream that is opened now is given up.
func (s *session) beginStream(giveUp context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp, s.answeredAt = giveUp, clock.Mono(s.cfg.Clock)
}

// read handles messages until the stream breaks, or a message comes after the time at which the timer of
// silence gives the stream up: messages that come so late were held up on the way, and their tasks may belong
// to others by then. It sets the timer to twice as long as the server is ever silent.
func (s *session) read(st Stream, silence clock.Timer) (answered bool, err error) {
	silenceMax := min(s.length, openWithinMax)
	for last := clock.Read(s.cfg.Clock); ; {
		response, err := st.Receive()
		now := clock.Read(s.cfg.Clock)
		if silenceMax > 0 && now.Since(last) >= silenceMax {
			return answered, errSilent
		}
		if err != nil {
			return answered, err
		}
		if silenceMax = 2 * task.Micros(response.Next); silenceMax > 0 {
			silence.Reset(silenceMax)
		} else {
			silence.Stop()
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

// admit takes a claimed task. It returns the attempt if its handler is to be started at once, else nil. Call
// with mu held.
func (s *session) admit(c *kinesinv1.Claimed, now time.Duration) *attempt {
	k, ok := keyOf(c.Task, c.Attempt)
	if !ok || s.attempts[k] != nil {
		return nil // malformed, or here already
	}
	a := attemptOf(k, c, s.byLambda[c.Lambda])
	if s.cfg.OwnTimeouts {
		a.timeout = 0
	}
	s.admitted++
	a.number = s.admitted
	s.attempts[k] = a
	switch {
	case s.draining || a.group == nil:
		s.reject(a)
	case c.Hold > 0:
		s.holdUntil(a, now+task.Micros(c.Hold))
	case s.takeSlot(a, now):
		return a
	}
	return nil
}

// write sends hello and then reports, until ctx ends or sending fails.
func (s *session) write(ctx context.Context, st Stream) error {
	hello := &kinesinv1.Hello{Worker: s.worker, Groups: wireGroups(s.cfg.Groups), Held: s.refillOutbox(), Process: s.cfg.Process}
	if err := st.Send(&kinesinv1.WorkRequest{Hello: hello}); err != nil {
		return err
	}
	timer := s.cfg.Clock.NewTimer(s.cfg.Linger)
	defer timer.Stop()
	for {
		from := clock.StampOf(timer)
		request, wait := s.nextRequest()
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
		case <-s.outboxReady:
		case <-timer.C():
		case <-ctx.Done():
			return nil
		}
	}
}
