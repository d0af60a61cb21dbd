// Package buffertest is the test suite for implementers of package buffer, and a buffer in memory for the tests of its users.
package buffertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// Visibility is the visibility timeout that open must set: long enough for a slow emulator, and short
	// enough to wait for.
	Visibility = time.Second
	waitMax    = 20 * time.Second
)

var suite = map[string]func(*testing.T, *subject){
	"SentIsReceived":          sentIsReceived,
	"ManyAtOnce":              manyAtOnce,
	"DeletedIsGone":           deletedIsGone,
	"UndeletedComesAgain":     undeletedComesAgain,
	"RetryAtOnceAndLater":     retryAtOnceAndLater,
	"Delay":                   delay,
	"TooLarge":                tooLarge,
	"ReceiveEndsWithContext":  receiveEndsWithContext,
	"ReceiveWaits":            receiveWaits,
	"CloseEndsReceive":        closeEndsReceive,
	"NothingToDoIsNoRequests": nothingToDo,
}

// Run runs the suite. open returns an empty buffer with the visibility timeout Visibility and a BodyBytesMax
// of at least 4 KiB; the suite closes it. The suite takes some seconds of real time, in parallel.
func Run(t *testing.T, open func(t *testing.T) buffer.Buffer) {
	t.Helper()
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runOn(t, open, test)
		})
	}
}

// RunIn is Run with each case in a bubble of its own, made by synctest.Test: clock.Real is virtual there. It
// is for a buffer whose service is in memory.
func RunIn(t *testing.T, bubble func(*testing.T, func(*testing.T)), open func(t *testing.T) buffer.Buffer) {
	t.Helper()
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				t.Helper()
				runOn(t, open, test)
			})
		})
	}
}

func runOn(t *testing.T, open func(t *testing.T) buffer.Buffer, test func(*testing.T, *subject)) {
	t.Helper()
	b := open(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	test(t, &subject{b, t})
}

type subject struct {
	buffer.Buffer

	t *testing.T
}

func (s *subject) send(delay time.Duration, bodies ...string) {
	s.t.Helper()
	messages := make([]buffer.Outgoing, len(bodies))
	for i, body := range bodies {
		messages[i] = buffer.Outgoing{Body: body, Delay: delay}
	}
	results := s.Send(s.t.Context(), messages)
	if err := errors.Join(results...); err != nil || len(results) != len(bodies) {
		s.t.Fatalf("%d results of %d: %v", len(results), len(bodies), err)
	}
}

// receive collects n messages.
func (s *subject) receive(n int) (all []buffer.Message) {
	s.t.Helper()
	ctx, cancel := clock.Within(s.t.Context(), clock.Real(), waitMax)
	defer cancel()
	for len(all) < n {
		got, err := s.Receive(ctx, n-len(all))
		if err != nil {
			s.t.Fatalf("%d of %d messages: %v", len(all), n, err)
		}
		if len(got) > min(n-len(all), buffer.BatchMax) {
			s.t.Fatalf("%d messages, asked for %d", len(got), n-len(all))
		}
		all = append(all, got...)
	}
	return all
}

// wantNone checks that no message is received within d.
func (s *subject) wantNone(d time.Duration) {
	s.t.Helper()
	ctx, cancel := clock.Within(s.t.Context(), clock.Real(), d)
	defer cancel()
	if got, err := s.Receive(ctx, 10); len(got) > 0 || err == nil && ctx.Err() != nil {
		s.t.Errorf("received %v, %v", got, err)
	}
}

func bodies(messages []buffer.Message) []string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = m.Body
	}
	slices.Sort(all)
	return all
}

func sentIsReceived(t *testing.T, s *subject) {
	t.Helper()
	body := "QUJD+/09=" + strings.Repeat("x", 3000)
	s.send(0, body)
	got := s.receive(1)
	if got[0].Body != body || got[0].Receives != 1 || got[0].Receipt == "" {
		t.Errorf("%+v", got)
	}
}

func manyAtOnce(t *testing.T, s *subject) {
	t.Helper()
	var want []string
	for n := range 37 {
		want = append(want, strings.Repeat("m", 1+n))
	}
	s.send(0, want...)
	if visible, _, err := s.Depth(t.Context()); err != nil || visible > int64(len(want)) {
		t.Errorf("%d messages visible of %d sent: %v", visible, len(want), err) // a service may tell less
	}
	got := s.receive(len(want))
	if visible, hidden, err := s.Depth(t.Context()); err != nil || visible+hidden > int64(len(want)) {
		t.Errorf("%d messages visible and %d hidden of %d received: %v", visible, hidden, len(want), err)
	}
	if !slices.Equal(bodies(got), want) {
		t.Errorf("%q", bodies(got))
	}
	if err := s.Delete(t.Context(), got); err != nil {
		t.Error(err)
	}
	s.wantNone(Visibility + time.Second)
}

func deletedIsGone(t *testing.T, s *subject) {
	t.Helper()
	s.send(0, "a")
	got := s.receive(1)
	for range 2 { // deleting twice is harmless
		if err := s.Delete(t.Context(), got); err != nil {
			t.Error(err)
		}
	}
	s.wantNone(Visibility + time.Second)
}

func undeletedComesAgain(t *testing.T, s *subject) {
	t.Helper()
	s.send(0, "a")
	first := s.receive(1)
	s.wantNone(Visibility / 4)
	again := s.receive(1)
	if again[0].Body != "a" || again[0].Receives < 2 || // a cancelled poll may have received it
		again[0].Receipt == first[0].Receipt {
		t.Errorf("%+v after %+v", again, first)
	}
}

func retryAtOnceAndLater(t *testing.T, s *subject) {
	t.Helper()
	s.send(0, "a")
	if err := s.Retry(t.Context(), s.receive(1), 0); err != nil {
		t.Fatal(err)
	}
	second := s.receive(1)
	if second[0].Receives < 2 {
		t.Errorf("%+v", second)
	}
	if err := s.Retry(t.Context(), second, 2*Visibility); err != nil {
		t.Fatal(err)
	}
	s.wantNone(Visibility + 500*time.Millisecond) // longer than the visibility timeout
	s.receive(1)
	if err := s.Retry(t.Context(), second, buffer.RetryMax+time.Second); err == nil {
		t.Error("retry beyond the limit")
	}
}

func delay(t *testing.T, s *subject) {
	t.Helper()
	s.send(1200*time.Millisecond, "later") // rounded up to whole seconds
	s.wantNone(900 * time.Millisecond)
	s.receive(1)
	if r := s.Send(t.Context(), []buffer.Outgoing{{Body: "a", Delay: buffer.DelayMax + time.Second}}); r[0] == nil {
		t.Error("delay beyond the limit")
	}
}

func tooLarge(t *testing.T, s *subject) {
	t.Helper()
	most := s.BodyBytesMax()
	r := s.Send(t.Context(), []buffer.Outgoing{{Body: "a"}, {Body: strings.Repeat("x", most+1)}, {Body: strings.Repeat("y", most)}, {Body: "b"}})
	if !errors.Is(r[1], buffer.ErrTooLarge) || errors.Join(r[0], r[2], r[3]) != nil {
		t.Errorf("%v", r)
	}
	if got := bodies(s.receive(3)); got[0] != "a" || got[1] != "b" || len(got[2]) != most {
		t.Errorf("%d bodies", len(got))
	}
}

func receiveEndsWithContext(t *testing.T, s *subject) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Receive(ctx, 1)
		done <- err
	}()
	cancel()
	if err := <-done; err == nil {
		t.Error("no error")
	}
}

func receiveWaits(t *testing.T, s *subject) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.receive(1)
	}()
	s.send(0, "a")
	<-done
}

func closeEndsReceive(t *testing.T, s *subject) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := s.Receive(t.Context(), 1)
		done <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, buffer.ErrClosed) {
		t.Errorf("receive: %v", err)
	}
	if r := s.Send(t.Context(), []buffer.Outgoing{{Body: "a"}}); !errors.Is(r[0], buffer.ErrClosed) {
		t.Errorf("send: %v", r)
	}
}

func nothingToDo(t *testing.T, s *subject) {
	t.Helper()
	if r := s.Send(t.Context(), nil); len(r) != 0 {
		t.Error(r)
	}
	if err := errors.Join(s.Delete(t.Context(), nil), s.Retry(t.Context(), nil, time.Second)); err != nil {
		t.Error(err)
	}
}
