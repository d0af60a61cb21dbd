package controller_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

var errNoRoute = errors.New("no route to host")

// away has the server answer nothing for as long as a lease, so that the lease is lost.
func (r *rig) away() {
	r.hsc.set(func() { r.hsc.down, r.hsc.beatErr = true, errNoRoute })
	r.stream().broken <- errNoRoute
	r.pass(15 * time.Second)
	r.hsc.set(func() { r.hsc.down, r.hsc.beatErr = false, nil })
	r.pass(3 * time.Second)
}

// outcomes returns the results of the previous lease that the newest registration sends.
func (r *rig) outcomes() map[string]string {
	r.hsc.mu.Lock()
	defer r.hsc.mu.Unlock()
	all := map[string]string{}
	for _, result := range r.hsc.previous.GetResults() {
		all[string(result.Task)] = result.Outcome
	}
	return all
}

// A lease is lost while no handler runs: the next registration sends the results, and gives back tasks that
// have not started.
func TestResultsOutliveTheirLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		late := claimed(3)
		late.Hold = time.Hour.Microseconds()
		r.push(claimed(1))
		one := r.started()
		r.push(claimed(2), late)
		two := r.started()
		r.ends(one, task.OutcomeSuccess) // on the stream, and never acknowledged
		r.hsc.set(func() { r.hsc.down = true })
		r.stream().broken <- errNoRoute
		r.ends(two, task.OutcomeRetriable) // on no stream
		r.away()
		r.wantRunning()
		if r.hsc.registers != 2 || r.hsc.previous.GetWorker() != "w1" || string(r.hsc.previous.GetProof()) != "proof of w1" {
			t.Fatalf("%d registrations, the last one gives up %v", r.hsc.registers, r.hsc.previous)
		}
		want := map[string]string{string(taskID(1)): "success", string(taskID(2)): "retriable_failure", string(taskID(3)): "released"}
		for id, outcome := range r.outcomes() {
			if want[id] != outcome {
				t.Errorf("task %x: %s, want %s", id, outcome, want[id])
			}
			delete(want, id)
		}
		if len(want) > 0 {
			t.Errorf("nothing is said of %x", want)
		}
		r.pass(2 * time.Hour)
		r.wantNoStart() // what was held is not this lease's
		if len(r.stream().results()) > 0 {
			t.Error("the results were sent again")
		}
	})
}

// A result that the server refuses is reported, and each lease is given up once.
func TestARefusedResultOfAPreviousLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		r.ends(r.started(), task.OutcomeSuccess)
		r.hsc.set(func() {
			r.hsc.acks = []*kinesinv1.ResultAck{{Task: taskID(1), Attempt: 1, Problem: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_FENCED}}}
		})
		r.away()
		if r.hooks.fenced.Load() != 1 {
			t.Errorf("%d results fenced, want 1", r.hooks.fenced.Load())
		}
		r.away()
		if r.hsc.registers != 3 || r.hsc.previous.GetWorker() != "w2" || len(r.hsc.previous.GetResults()) != 0 {
			t.Errorf("%d registrations, the last one gives up %v", r.hsc.registers, r.hsc.previous)
		}
	})
}

// An older server cannot take a lease back.
func TestNoProofNoPreviousLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.hsc.set(func() { r.hsc.unproven = true })
		r.away() // the lease of the first registration, which had a proof
		r.away()
		if r.hsc.registers != 3 || r.hsc.previous != nil {
			t.Errorf("%d registrations, the last one gives up %v", r.hsc.registers, r.hsc.previous)
		}
	})
}

// A process whose handlers had to be stopped ends, and gives nothing up.
func TestABusyLossGivesNothingUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1), claimed(2))
		one, two := r.started(), r.started()
		r.ends(one, task.OutcomeSuccess)
		r.hsc.set(func() { r.hsc.down, r.hsc.beatErr = true, errNoRoute })
		r.pass(13 * time.Second)
		r.ends(two, task.OutcomeSuccess)
		if r.hsc.registers != 1 {
			t.Errorf("%d registrations", r.hsc.registers)
		}
	})
}
