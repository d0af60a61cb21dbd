package controller_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

const (
	opensWithin = 10 * time.Second
	retryMax    = 502 * time.Millisecond // the longest wait between tries
)

// TestAStreamThatIsNotAnsweredIsGivenUp has a result wait while heartbeats hold the lease of its worker.
func TestAStreamThatIsNotAnsweredIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(h *hsc){
		"never answered":       func(h *hsc) { h.mute = true },
		"not even opened":      func(h *hsc) { h.hangs = true },
		"takes nothing either": func(h *hsc) { h.mute, h.deaf = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(r *rig) {
				r.push(claimed(1))
				run := r.started()
				r.hsc.set(func() { begin(r.hsc) })
				r.stream().broken <- errors.New("connection reset")
				r.pass(retryMax)
				r.ends(run, task.OutcomeSuccess)
				silent := r.stream()
				r.pass(opensWithin - retryMax - time.Millisecond)
				if r.streams() != 2 || silent.ctx.Err() != nil {
					t.Fatalf("%d streams, and the second had not been silent for %v", r.streams(), opensWithin)
				}
				r.hsc.set(func() { r.hsc.mute, r.hsc.hangs, r.hsc.deaf = false, false, false })
				r.pass(2 * retryMax)
				if r.streams() != 3 || silent.ctx.Err() == nil {
					t.Fatalf("%d streams, the silent one given up: %v; want a third", r.streams(), silent.ctx.Err() != nil)
				}
				r.wantResults("success")
				if r.hooks.lost.Load() != 0 {
					t.Error("the lease was lost")
				}
			})
		})
	}
}

// TestStreamsThatAreNotAnsweredAreLogged has streams that are not answered, one after the other, and nothing to
// report: the log says each lease that there is no stream.
func TestStreamsThatAreNotAnsweredAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	inBubble(t, func(r *rig) {
		r.hsc.set(func() { r.hsc.mute = true })
		r.stream().broken <- errors.New("connection reset")
		r.pass(time.Minute)
		// 15 s are more than 10 s: 5 or 6 streams of 10 s and their pauses.
		if n := r.streams(); n < 6 || n > 7 {
			t.Errorf("%d streams in a minute, want 6 or 7", n)
		}
		told := strings.Count(log.String(), "work stream broke")
		if told < 3 || told > 5 || !strings.Contains(log.String(), "silent for too long") || !strings.Contains(log.String(), "without_stream=4") {
			t.Errorf("the log says %d times, want once for each lease of 15 s, that there is no stream, why, and since when: %s", told, log.String())
		}
	}, func(c *controller.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
}

// TestResultsThatAreNotAnsweredEndTheStream has a server that says that it is there, and answers for no result.
func TestResultsThatAreNotAnsweredEndTheStream(t *testing.T) {
	t.Parallel()
	const lease = 15 * time.Second
	var log bytes.Buffer
	inBubble(t, func(r *rig) {
		alive := func(d time.Duration) {
			for range d / time.Second {
				r.stream().inbox <- &kinesinv1.WorkResponse{Next: 2_000_000}
				r.pass(time.Second)
			}
		}
		alive(time.Minute) // with nothing to report
		r.push(claimed(1), claimed(2))
		one, two := r.started(), r.started()
		r.ends(one, task.OutcomeSuccess)
		alive(10 * time.Second)
		r.ends(two, task.OutcomeSuccess)
		r.pass(controller.LingerDefault)
		r.wantResults("success", "success")
		// An answer for one of them is as good as one for both, also one that asks for a repetition.
		first := r.stream().results()[0]
		r.stream().inbox <- &kinesinv1.WorkResponse{Acks: []*kinesinv1.ResultAck{{
			Task: first.Task, Attempt: first.Attempt, Problem: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_UNAVAILABLE},
		}}}
		alive(12 * time.Second)
		if r.streams() != 1 {
			t.Fatalf("%d streams: it was answered a moment ago", r.streams())
		}
		if !strings.Contains(log.String(), "taken no result for longer than a lease") || !strings.Contains(log.String(), "results=2") {
			t.Errorf("the log does not say that two results wait: %s", log.String())
		}
		log.Reset()
		alive(3*time.Second + lease/4) // until the heartbeat after a lease
		r.pass(retryMax)
		if r.streams() != 2 {
			t.Fatalf("%d streams, want another one", r.streams())
		}
		r.wantResults("success", "success")
		if text := log.String(); !strings.Contains(text, "no result that was sent") {
			t.Errorf("the log does not say why the stream was given up: %s", text)
		}
		r.acknowledge(nil)
		log.Reset()
		alive(time.Minute)
		if r.streams() != 2 || log.Len() > 0 {
			t.Errorf("%d streams after the results were taken, and the log says %q", r.streams(), log.String())
		}
	}, func(c *controller.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
}

// TestAStreamThatTakesNoMoreIsGivenUp has a server that sends and reads no more: a send of the worker hangs.
func TestAStreamThatTakesNoMoreIsGivenUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.hsc.set(func() { r.hsc.deaf = true })
		r.stream().broken <- errors.New("connection reset")
		r.pass(retryMax)
		r.hsc.set(func() { r.hsc.deaf = false })
		r.ends(run, task.OutcomeSuccess)
		r.pass(15*time.Second + 3750*time.Millisecond + retryMax)
		if r.streams() != 3 {
			t.Fatalf("%d streams, want a third", r.streams())
		}
		r.wantResults("success")
	})
}

func TestAShortLeaseBoundsTheOpeningOfAStream(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.hsc.set(func() { r.hsc.mute, r.hsc.lease = true, 4*time.Second })
		r.hsc.set(func() { r.hsc.beatErr = api.ErrLeaseLost })
		r.pass(3750 * time.Millisecond) // it registers again
		r.hsc.set(func() { r.hsc.beatErr = nil })
		r.pass(time.Second)
		before := r.streams()
		r.pass(4*time.Second + retryMax)
		if r.streams() != before+1 {
			t.Errorf("%d streams in a lease, want another one", r.streams()-before)
		}
	})
}

// TestAServerThatTakesOneResultAfterTheOtherIsSlow has a result wait for longer than a lease while others are taken,
// or refused for good.
func TestAServerThatTakesOneResultAfterTheOtherIsSlow(t *testing.T) {
	t.Parallel()
	for _, problem := range []*kinesinv1.Problem{nil, {Reason: kinesinv1.Reason_REASON_FENCED}} {
		var log bytes.Buffer
		inBubble(t, func(r *rig) {
			for n := range 4 {
				r.push(claimed(n))
				r.ends(r.started(), task.OutcomeSuccess)
			}
			r.pass(controller.LingerDefault)
			for n := range 3 {
				r.pass(12 * time.Second)
				r.stream().inbox <- &kinesinv1.WorkResponse{Acks: []*kinesinv1.ResultAck{{Task: taskID(n), Attempt: 1, Problem: problem}}}
			}
			r.pass(time.Second)
			if r.streams() != 1 || strings.Contains(log.String(), "taken no result") {
				t.Errorf("%d streams, and the log says %q", r.streams(), log.String())
			}
		}, func(c *controller.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	}
}
