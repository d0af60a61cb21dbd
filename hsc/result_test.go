package hsc

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// one returns a worker and the one task that it has.
func (f *fixture) one() (*remote, *kinesinv1.Claimed) {
	f.Helper()
	f.enqueue(f.task("mail"))
	w := f.work(slots(1, "mail"))
	return w, w.wantClaimed(1)[0]
}

func TestOutcomesLeadWhereTheDiagramSays(t *testing.T) {
	for outcome, want := range map[string]task.State{
		"success": task.Success, "fatal_failure": task.FatalFailure, "retriable_failure": task.RetriableFailure,
		"snoozed": task.Scheduled, "cancelled": task.Cancelled,
	} {
		bubble(t, func(f *fixture) {
			w, c := f.one()
			r := result(c, outcome)
			r.Error, r.Delay = "why", time.Hour.Microseconds()
			at := f.clock.Now()
			w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
			w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
			row := f.wantState(id(c), want)
			if got := row.History[0]; got.Error != "why" || got.Number != 1 || got.Worker != w.id || got.Outcome.String() != outcome {
				t.Errorf("history %+v", got)
			}
			if awake := want == task.RetriableFailure || want == task.Scheduled; (len(f.awake) == 1) != awake {
				t.Errorf("%s: the scheduler heard of %d wake-ups", outcome, len(f.awake))
			}
			if want == task.Scheduled && row.Wake != at.Add(time.Hour) {
				t.Errorf("wakes at %d", row.Wake)
			}
		})
	}
}

func TestAReleasedTaskIsInTheQueueAtOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		w.send(&kinesinv1.WorkRequest{Drain: true})
		w.report("released", c)
		row := f.wantState(id(c), task.Enqueued)
		if row.Failures != 0 {
			t.Errorf("charged: %+v", row)
		}
		f.wantQueued(row, 1, 0)
		if got := f.work(slots(1, "mail")).wantClaimed(1)[0]; got.GetAttempt() != 2 {
			t.Errorf("attempt %d", got.GetAttempt())
		}
	})
}

func TestTheSameReportTwiceIsFineAndAnotherIsFenced(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		w.report("success", c)
		w.report("success", c)
		w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
		w.report("fatal_failure", c)
		w.wantAck(c, kinesinv1.Reason_REASON_FENCED)
		if row := f.wantState(id(c), task.Success); len(row.History) != 1 {
			t.Errorf("history %+v", row.History)
		}
		if len(f.ended) != 1 {
			t.Errorf("told of %v", f.ended)
		}
	})
}

func TestALateReportOfALostAttemptIsFenced(t *testing.T) {
	for _, outcome := range []string{"success", "retriable_failure", "released"} {
		bubble(t, func(f *fixture) {
			w, c := f.one()
			lost := f.change(id(c), task.Event{Kind: task.WorkerLost, Worker: w.id, Attempt: 1})
			w.report(outcome, c)
			w.wantAck(c, kinesinv1.Reason_REASON_FENCED)
			if row := f.row(id(c)); row.Seq != lost.Seq {
				t.Errorf("the row was changed: %+v", row)
			}
		})
	}
}

func TestAnotherWorkersReportIsFenced(t *testing.T) {
	bubble(t, func(f *fixture) {
		_, c := f.one()
		other := f.work(slots(1, "mail"))
		other.report("success", c)
		other.wantAck(c, kinesinv1.Reason_REASON_FENCED)
		f.wantState(id(c), task.Claimed)
	})
}

func TestAReportSurvivesOtherChangesOfTheRow(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		f.change(id(c), task.Event{Kind: task.Cancel})
		w.report("success", c)
		w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
		f.wantState(id(c), task.Success)
	})
}

func TestAReportTheStoreDidNotTakeIsSentAgain(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for _, outcome := range []string{"success", "released", "retriable_failure"} {
			bubble(t, func(f *fixture) {
				w, c := f.one()
				w.send(&kinesinv1.WorkRequest{Drain: true})
				f.store.failApply(1, applied)
				w.report(outcome, c)
				w.wantAck(c, kinesinv1.Reason_REASON_UNAVAILABLE)
				w.report(outcome, c)
				w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
				row := f.row(id(c))
				if len(row.History) != 1 || row.History[0].Outcome.String() != outcome {
					t.Errorf("applied %v, %s: history %+v", applied, outcome, row.History)
				}
				if outcome == "released" {
					f.wantQueued(row, 1, 0)
				}
			})
		}
	}
}

func TestReportsThatMakeNoSenseAreRefusedOneByOne(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{
			{Task: []byte("short"), Attempt: 1, Outcome: "success"},
			result(c, "worker_lost"),
			result(c, ""),
			{Task: make([]byte, 16), Attempt: 1, Outcome: "success"},
		}})
		acks := w.acks()
		want := []kinesinv1.Reason{
			kinesinv1.Reason_REASON_INVALID, kinesinv1.Reason_REASON_INVALID, kinesinv1.Reason_REASON_INVALID, kinesinv1.Reason_REASON_FENCED,
		}
		if len(acks) != len(want) {
			t.Fatalf("acks %v", acks)
		}
		for i, ack := range acks {
			if ack.GetProblem().GetReason() != want[i] {
				t.Errorf("ack %d: %v", i, ack)
			}
		}
		w.report("success", c)
		f.wantState(id(c), task.Success)
	})
}

func TestALongAttemptIsConfirmedAndNeedsNoReadToEnd(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		time.Sleep(200 * time.Millisecond)
		began := int64(f.clock.Now()) - 150_000
		w.send(&kinesinv1.WorkRequest{Started: []*kinesinv1.Started{{Task: c.GetTask(), Attempt: 1, Started: began}}})
		if row := f.wantState(id(c), task.Processing); int64(row.Started) != began {
			t.Errorf("started %d, want %d", row.Started, began)
		}
		reads := f.store.rows
		w.send(&kinesinv1.WorkRequest{Started: []*kinesinv1.Started{{Task: c.GetTask(), Attempt: 1}}}) // again: nothing
		w.report("success", c)
		f.wantState(id(c), task.Success)
		if f.store.rows != reads {
			t.Errorf("%d rows read", f.store.rows-reads)
		}
	})
}

func TestStartAndEndInOneMessage(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		w.send(&kinesinv1.WorkRequest{
			Started: []*kinesinv1.Started{{Task: c.GetTask(), Attempt: 1, Started: 1}}, Results: []*kinesinv1.Result{result(c, "success")},
		})
		w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
		row := f.wantState(id(c), task.Success)
		if row.FirstStarted != row.ClaimedAt { // a start before the claim cannot be
			t.Errorf("started %d, claimed %d", row.FirstStarted, row.ClaimedAt)
		}
	})
}

func TestAMessageTheQueueRefusesIsLeftToTheWakeUp(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		if err := f.queue.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := f.svc.SetResults(f.ctx, &kinesinv1.SetResultsRequest{Worker: w.id, Results: []*kinesinv1.Result{result(c, "released")}})
		if err != nil || r.GetAcks()[0].GetProblem() != nil {
			t.Errorf("%v, %v", r, err)
		}
		if row := f.wantState(id(c), task.Enqueued); row.Wake.IsZero() {
			t.Error("no wake-up")
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.failed["send messages"] != 1 {
			t.Errorf("failed: %v", sortedKeys(f.failed))
		}
	})
}

func TestAResultIsKeptWithItsTask(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		r := result(c, "success")
		r.Result = make([]byte, task.ResultBytesMax)
		w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
		w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
		if row := f.wantState(id(c), task.Success); len(row.Result) != task.ResultBytesMax {
			t.Errorf("a result of %d bytes", len(row.Result))
		}
	})
}

// A worker of the SDK makes it a failure that says so; this is for others.
func TestAResultThatIsTooLargeIsRefused(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		r := result(c, "success")
		r.Result = make([]byte, task.ResultBytesMax+1)
		w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
		w.wantAck(c, kinesinv1.Reason_REASON_INVALID)
		acks := w.acks()
		if text := acks[len(acks)-1].GetProblem().GetText(); !strings.Contains(text, "result of 32769 bytes: at most 32768") {
			t.Errorf("refused with %q", text)
		}
		f.wantState(id(c), task.Claimed)
	})
}

// A result that is refused has its acknowledgement in its place.
func TestAMalformedResultIsAcknowledgedInItsPlace(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		f.enqueueMany("mail", 3)
		got, err := f.claim(worker, 3, 0)
		if err != nil || len(got) != 3 {
			t.Fatal(got, err)
		}
		results := []*kinesinv1.Result{result(got[0], "success"), result(got[1], "success"), {Malformed: "results[2]: no claim"}, result(got[2], "none"), result(got[2], "success")}
		results[1].Malformed = "results[1]: no such delay"
		r, err := f.svc.SetResults(f.ctx, &kinesinv1.SetResultsRequest{Worker: worker, Results: results})
		if err != nil || len(r.GetAcks()) != len(results) {
			t.Fatal(r, err)
		}
		for i, want := range []string{"", "results[1]: no such delay", "results[2]: no claim", `outcome "none"`, ""} {
			ack := r.GetAcks()[i]
			if !strings.HasPrefix(ack.GetProblem().GetText(), want) || (want == "") != (ack.GetProblem() == nil) || !bytes.Equal(ack.GetTask(), results[i].GetTask()) {
				t.Errorf("acknowledgement %d: %v, want %q", i, ack, want)
			}
		}
		f.wantState(id(got[0]), task.Success)
		f.wantState(id(got[1]), task.Claimed)
		f.wantState(id(got[2]), task.Success)
	})
}
