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
	"github.com/kinesin-io/kinesin/task"
)

// keepStream keeps a Work stream open until ctx ends or the lease is lost. Handlers go on while there is
// none.
func (s *session) keepStream(ctx context.Context) {
	outage, failures := clock.Mono(s.cfg.Clock), 0
	for ctx.Err() == nil && s.holds() {
		answered, err := s.connect(ctx)
		if ctx.Err() != nil || !s.holds() {
			return
		}
		if errors.Is(err, api.ErrLeaseLost) {
			s.lose(lostByServer)
			return
		}
		if answered {
			outage, failures = clock.Mono(s.cfg.Clock), 0
		}
		failures++
		s.cfg.Hooks.Broken(err)
		if failures%logEveryNth == 1 {
			s.log(slog.LevelWarn, "work stream broke; opening it again", slog.Int("failures", failures), slog.Any("error", err))
		}
		retry := serverRetry
		if clock.Mono(s.cfg.Clock)-outage > outageLong {
			retry = outageRetry
		}
		if retry.Sleep(ctx, s.cfg.Clock, failures) != nil {
			return
		}
	}
}

// connect opens one stream and serves it until it breaks. answered reports whether the server sent anything.
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

// errSilent ends a stream that was silent for longer than its server ever is.
var errSilent = errors.New("the stream was silent for too long")

// read handles messages until the stream breaks, or is silent for twice as long as its server ever is:
// messages that come later were held up on the way, and their tasks may belong to others by then.
func (s *session) read(st Stream, closeStream func()) (answered bool, err error) {
	silence := s.cfg.Clock.NewTimer(time.Hour)
	defer silence.Stop()
	silence.Stop()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-silence.C():
			closeStream()
		case <-over:
		}
	}()
	var silenceMax time.Duration
	for last := clock.Read(s.cfg.Clock); ; {
		response, err := st.Receive()
		now := clock.Read(s.cfg.Clock)
		if silenceMax > 0 && now.Since(last) >= silenceMax {
			return answered, errSilent
		}
		if err != nil {
			return answered, err
		}
		if silenceMax = 2 * task.Micros(response.NextMicros); silenceMax > 0 {
			silence.Reset(silenceMax)
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
	s.attempts[k] = a
	switch {
	case s.draining || a.group == nil:
		s.reject(a)
	case c.HoldMicros > 0:
		s.setAlarm(a, now+task.Micros(c.HoldMicros))
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
