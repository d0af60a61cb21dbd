package checker

import (
	"fmt"
	"time"
)

func (r *record) breach(rule Rule, format string, args ...any) []Violation {
	return []Violation{{rule, r.id, fmt.Sprintf(format, args...)}}
}

// wanted is the state in which the task has to end.
func (r *record) wanted() string {
	switch {
	case r.cancelled != nil:
		return "cancelled"
	case r.acked.Want != "":
		return r.acked.Want
	}
	return "success"
}

func checkLost(h *history, r *record) []Violation {
	if r.acked == nil {
		return nil
	}
	want := r.wanted()
	switch {
	case r.report == nil:
		return r.breach(Lost, "acknowledged, and the server knows nothing of it")
	case r.mayCancel && r.report.State == "cancelled":
		return nil
	case r.report.State != want:
		return r.breach(Lost, "is %s in the end, want %s", r.report.State, want)
	case len(r.runs) == 0 && r.cancelled == nil && (!h.Called || want != "dead"):
		return r.breach(Lost, "reported %s, and never started", r.report.State)
	case want == "success" && !r.ran(OK):
		return r.breach(Lost, "reported success, and no execution succeeded")
	}
	return nil
}

// ran reports whether an execution returned the outcome.
func (r *record) ran(outcome string) bool {
	for _, run := range r.runs {
		if run.returned && run.outcome == outcome {
			return true
		}
	}
	return false
}

func checkInvented(_ *history, r *record) []Violation {
	if r.requested && (r.acked == nil || len(r.nonces) == 0 || r.nonces[0] == r.acked.Nonce) {
		return nil
	}
	return r.breach(Invented, "ran as %q, which nobody asked for under this id", r.nonces)
}

func checkEarly(_ *history, r *record) []Violation {
	if r.acked == nil {
		return nil
	}
	for _, run := range r.runs {
		if run.At < r.acked.Due {
			return r.breach(Early, "attempt %d started %v before it was due", run.Attempt, micros(r.acked.Due-run.At))
		}
	}
	return nil
}

func checkOverlap(h *history, r *record) []Violation {
	for i, a := range r.runs {
		for _, b := range r.runs[i+1:] {
			if h.aliveAt(a, b.At) {
				return r.breach(Overlap, "attempt %d started in process %d while attempt %d ran in process %d", b.Attempt, b.PID, a.Attempt, a.PID)
			}
		}
	}
	return nil
}

// aliveAt reports whether the execution could act at a moment after its start: it had not ended,
// and its process was not stopped, or on the way to end it after that.
func (h *history) aliveAt(x *execution, at int64) bool {
	if at >= x.end {
		return false
	}
	for _, s := range h.process(x.PID).stopped {
		if s.from <= at && (s.to == never || at <= s.to+h.Wake.Microseconds()) {
			return false
		}
	}
	return true
}

func checkLate(h *history, r *record) []Violation {
	for i, run := range r.runs {
		if i+1 == len(r.runs) {
			break
		}
		for _, at := range run.effects {
			if at > r.runs[i+1].At && !h.waking(run.PID, at) {
				return r.breach(Late, "attempt %d had an effect %v after attempt %d began", run.Attempt, micros(at-r.runs[i+1].At), r.runs[i+1].Attempt)
			}
		}
	}
	return nil
}

// waking reports whether the process was stopped until less than Wake before the moment.
func (h *history) waking(pid int, at int64) bool {
	for _, s := range h.process(pid).stopped {
		if s.to != never && s.to <= at && at <= s.to+h.Wake.Microseconds() {
			return true
		}
	}
	return false
}

func checkDuplicate(h *history, r *record) []Violation {
	for i, run := range r.runs {
		if i+1 == len(r.runs) || run.returned && (run.outcome == Fail || run.outcome == Snooze) {
			continue
		}
		if !h.hit(run) {
			return r.breach(Duplicate, "attempt %d ended %q and no fault hit it, yet attempt %d started", run.Attempt, run.outcome, r.runs[i+1].Attempt)
		}
	}
	return nil
}

// hit reports whether a fault fell on the execution, or on the time in which its claim or its
// result was on the way.
func (h *history) hit(run *execution) bool {
	return h.workerHit(run) || h.serverHit(run)
}

func (h *history) around(run *execution) span {
	s := span{run.At - h.Ahead.Microseconds(), run.end}
	if s.to != never {
		s.to += h.Settle.Microseconds()
	}
	return s
}

func (h *history) serverHit(run *execution) bool {
	for _, outage := range h.outages {
		if outage.meets(h.around(run)) {
			return true
		}
	}
	return false
}

// leaseHit reports whether an outage fell on the execution that may have cost its worker the lease.
func (h *history) leaseHit(run *execution) bool {
	for _, outage := range h.outages {
		if h.Lease > 0 && outage.to-outage.from >= h.Lease.Microseconds() && outage.meets(h.around(run)) {
			return true
		}
	}
	return false
}

func (h *history) workerHit(run *execution) bool {
	around := h.around(run)
	for _, at := range h.process(run.PID).faults {
		if around.meets(span{at, at}) {
			return true
		}
	}
	return run.outcome == Poisoned
}

func checkFencing(_ *history, r *record) []Violation {
	for i, run := range r.runs {
		if i > 0 && run.Attempt <= r.runs[i-1].Attempt {
			return r.breach(Fencing, "attempt %d started after attempt %d", run.Attempt, r.runs[i-1].Attempt)
		}
	}
	if n := len(r.runs); n > 0 && r.report != nil && r.report.Attempt < r.runs[n-1].Attempt {
		return r.breach(Fencing, "attempt %d ran, and the server counts only %d", r.runs[n-1].Attempt, r.report.Attempt)
	}
	return nil
}

// outcomeOf is what the execution of a task in a state must have returned.
var outcomeOf = map[string]string{"success": OK, "fatal_failure": Fatal}

func checkResult(_ *history, r *record) []Violation {
	if r.report == nil || outcomeOf[r.report.State] == "" {
		return nil
	}
	if r.report.Winner == 0 {
		return r.breach(Result, "%s, and no attempt is recorded for it", r.report.State)
	}
	for _, run := range r.runs {
		if run.Attempt == r.report.Winner && run.returned && run.outcome == outcomeOf[r.report.State] {
			return r.superseded(run)
		}
	}
	return r.breach(Result, "%s by attempt %d, which did not return that", r.report.State, r.report.Winner)
}

// superseded refuses a result that was accepted although a later attempt had begun.
func (r *record) superseded(winner *execution) []Violation {
	if last := r.runs[len(r.runs)-1]; last != winner {
		return r.breach(Result, "%s by attempt %d, and attempt %d had begun", r.report.State, winner.Attempt, last.Attempt)
	}
	return nil
}

func checkCharged(h *history, r *record) []Violation {
	if r.report == nil {
		return nil
	}
	var failed, sure, lost uint32
	for _, run := range r.runs {
		if run.returned && run.outcome == Fail {
			failed++
			if obeys := r.mayCancel && r.report.State == "cancelled" && run.Attempt == r.report.Attempt; !h.hit(run) && !obeys {
				sure++ // what a handler returns that was told to stop may count as its stop
			}
		}
		if h.workerHit(run) || h.leaseHit(run) || h.Called && h.serverHit(run) {
			lost++
		}
	}
	failed += h.unanswered(r)
	switch {
	case r.report.Failures > failed || r.report.Failures < sure:
		return r.breach(Charged, "charged with %d failures, %d were returned, %d of them for sure acknowledged", r.report.Failures, failed, sure)
	case r.report.Lost > lost+h.claimsLost(r):
		return r.breach(Charged, "charged with %d lost workers, a fault hit %d", r.report.Lost, lost)
	}
	return nil
}

// unanswered is how many attempts of a task that servers call may have had no answer: those that a fault hit or their
// timeout ended, and those that never started.
func (h *history) unanswered(r *record) uint32 {
	if !h.Called {
		return 0
	}
	n := max(0, int64(r.report.Attempt)-int64(len(r.runs)))
	for _, run := range r.runs {
		if run.outcome != Fail && (run.outcome == Obeyed || h.hit(run)) {
			n++
		}
	}
	return uint32(n)
}

// claimsLost is how many attempts never started, though something may have cost them their worker on their
// way to it: a fault of a worker process, or an outage, which costs a lease for each time as long as one.
func (h *history) claimsLost(r *record) uint32 {
	var hit int64
	for _, p := range h.processes {
		hit += int64(len(p.faults))
	}
	for _, outage := range h.outages {
		if h.Called {
			hit++
		}
		if h.Lease > 0 {
			hit += (outage.to - outage.from) / h.Lease.Microseconds()
		}
	}
	neverStarted := max(0, int64(r.report.Attempt)-int64(len(r.runs)))
	return uint32(min(hit, neverStarted))
}

func checkCancel(_ *history, r *record) []Violation {
	if r.cancelled == nil {
		return nil
	}
	for _, run := range r.runs {
		if run.At > r.cancelled.At {
			return r.breach(AfterCancel, "attempt %d started %v after the cancel was acknowledged", run.Attempt, micros(run.At-r.cancelled.At))
		}
	}
	return nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
