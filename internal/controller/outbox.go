package controller

import (
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// How results are sent.
const (
	flushMax         = 32 // so many reports are sent without a linger
	promptLinger     = time.Millisecond
	flushSlotsShare  = 4 // or, if that is less, one report for so many slots
	reportsPerSend   = 1024
	resultBytesMax   = 4 << 20         // of the values in one message, beside one that has more
	unknownDelay     = 5 * time.Second // until a task of an unknown lambda is tried elsewhere
	unknownLambda    = "this worker has no handler for the lambda"
	releasedDraining = "the worker is stopping"
	releasedBusy     = "no slot came free in time"
)

func (o *outbox) size() int { return len(o.results) + len(o.started) }

// report puts the result of an attempt in the outbox, and wakes the writer when it has to set its timer or
// has enough to send. Call with mu held.
func (s *session) report(a *attempt) {
	o := &s.outbox
	first := o.size() == 0 || a.work.Prompt && !o.prompt
	a.endedAt = clock.Mono(s.cfg.Clock)
	o.results = append(o.results, a)
	o.prompt = o.prompt || a.work.Prompt
	if first || s.flushes() {
		wake(s.outboxReady)
	}
}

// flushes reports whether the outbox is sent at once. A small one is sent no sooner than the linger after the last message:
// so the first result goes at once, and those of a busy time go together. The linger is short if somebody waits for a result.
func (s *session) flushes() bool { return s.outbox.size() >= s.flushAt || s.draining }

func (s *session) linger() time.Duration {
	if s.outbox.prompt {
		return min(s.cfg.Linger, promptLinger)
	}
	return s.cfg.Linger
}

// nextRequest takes the next message from the outbox. If it is too early for one, nextRequest returns how long to wait; forever
// if nothing is there to be sent.
func (s *session) nextRequest() (*kinesinv1.WorkRequest, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.outbox
	if s.lost || o.size() == 0 && !o.drain {
		return nil, forever
	}
	now := clock.Mono(s.cfg.Clock)
	if since, linger := now-o.last, s.linger(); !s.flushes() && !o.drain && since < linger {
		return nil, linger - since
	}
	o.last = now
	request := &kinesinv1.WorkRequest{Drain: o.drain}
	o.drain, o.prompt = false, false
	results := o.results[:o.fitting()]
	for _, a := range results {
		a.sent = true
		request.Results = append(request.Results, a.result)
		if !a.startedAt.IsZero() {
			request.Longest = max(request.Longest, (a.endedAt - a.start).Microseconds(), 1)
		}
	}
	started := o.started[:min(len(o.started), reportsPerSend)]
	for _, a := range started {
		if a.state == running { // else the result says it
			request.Started = append(request.Started, &kinesinv1.Started{
				Task: a.key.task[:], Attempt: a.key.attempt, Started: int64(a.startedAt),
			})
		}
	}
	o.results = rest(o.results, len(results))
	o.started = rest(o.started, len(started))
	return request, 0
}

// fitting returns how many results go into the next message.
func (o *outbox) fitting() int {
	size, most := 0, min(len(o.results), reportsPerSend)
	for n, a := range o.results[:most] {
		if size += len(a.result.Result); size > resultBytesMax {
			return max(n, 1)
		}
	}
	return most
}

// rest returns all but the first n attempts. If none is left, the memory of all is used again.
func rest(all []*attempt, n int) []*attempt {
	if n < len(all) {
		return all[n:]
	}
	clear(all)
	return all[:0]
}

// refillOutbox puts everything that a new stream has to send in the outbox again. It returns all attempts
// that the process has.
func (s *session) refillOutbox() []*kinesinv1.Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outbox = outbox{drain: s.draining}
	var all []*kinesinv1.Held
	for _, a := range s.inOrder() {
		if a.dropped {
			continue
		}
		all = append(all, a.key.held())
		switch {
		case a.state == ended && !a.InHeap(): // else its alarm sends it
			a.sent = false
			s.outbox.results = append(s.outbox.results, a)
		case a.state == running && a.reported:
			s.outbox.started = append(s.outbox.started, a)
		}
	}
	return all
}

// acked handles the answer to a result.
func (s *session) acked(ack *kinesinv1.ResultAck, now time.Duration) {
	k, _ := keyOf(ack.Task, ack.Attempt)
	a := s.attempts[k]
	if a == nil || a.state != ended {
		return
	}
	s.answeredAt = now
	switch reason := ack.GetProblem().GetReason(); {
	case ack.Problem == nil:
		s.takenAt = now
		s.forget(a)
	case reason == kinesinv1.Reason_REASON_UNAVAILABLE || reason == kinesinv1.Reason_REASON_THROTTLED || reason == kinesinv1.Reason_REASON_FULL:
		a.sends++
		a.sent = false
		s.setAlarm(a, now+outageRetry.Pause(s.cfg.Clock, a.sends))
	default:
		s.takenAt = now
		s.refused(a, ack.Problem)
	}
	s.noteProgress()
}

// watchResults logs when results wait and the server has taken none for longer than a lease, and gives up a stream on which
// the server has answered none for as long: heartbeats take another way, so the worker would otherwise keep its tasks, and
// its slots at the server, for ever.
func (s *session) watchResults() {
	now := clock.Mono(s.cfg.Clock)
	s.mu.Lock()
	defer s.mu.Unlock()
	since, results := now, 0
	for _, a := range s.attempts {
		if a.state == ended && !a.dropped {
			since, results = min(since, a.endedAt), results+1
		}
	}
	untaken := now - max(since, s.takenAt)
	if untaken < s.length {
		return
	}
	if now-s.toldAt >= s.length {
		s.toldAt = now
		s.log(slog.LevelWarn, "the server has taken no result for longer than a lease", slog.Int("results", results), slog.Duration("for", untaken))
	}
	if now-max(since, s.answeredAt) >= s.length {
		s.giveUp(errUntaken)
	}
}

// refused drops a result that the server does not take.
func (s *session) refused(a *attempt, p *kinesinv1.Problem) {
	attrs := []slog.Attr{
		slog.String("task_id", a.work.Id), slog.Int("attempt", int(a.work.Attempt)),
		slog.String("outcome", a.result.Outcome), slog.Any("error", api.ErrorOf(p)),
	}
	if p.Reason == kinesinv1.Reason_REASON_FENCED {
		s.log(slog.LevelWarn, "result refused: another attempt owns the task", attrs...)
		s.fencedOff = append(s.fencedOff, a)
	} else {
		s.log(slog.LevelError, "result refused", attrs...)
	}
	s.forget(a)
}

// reject gives back a task that is not to be started here.
func (s *session) reject(a *attempt) {
	if a.group == nil {
		a.end(Outcome{Kind: task.OutcomeSnoozed, Error: unknownLambda, Delay: unknownDelay})
	} else {
		a.end(Outcome{Kind: task.OutcomeReleased, Error: releasedDraining})
	}
	s.report(a)
}
