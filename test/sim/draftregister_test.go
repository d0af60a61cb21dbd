package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/checker"
)

// did is a call that was answered within a moment.
func did(at time.Duration, o draftOp) porcupine.Operation {
	o.from, o.until = int64(at), int64(at)+1
	return porcupine.Operation{Input: o, Call: o.from, Return: o.until}
}

// lasting is a call that took a while.
func lasting(from, until time.Duration, o draftOp) porcupine.Operation {
	o.from, o.until = int64(from), int64(until)
	return porcupine.Operation{Input: o, Call: o.from, Return: o.until}
}

// undecided is a call that was not answered, or a result, of which nobody is told whether it arrived.
func undecided(at time.Duration, o draftOp) porcupine.Operation {
	o.from, o.until = int64(at), unanswered
	return porcupine.Operation{Input: o, Call: o.from, Return: unanswered}
}

const (
	firstLife  = 100
	secondLife = 200
)

func drafted(at time.Duration, payload string, life uint64) porcupine.Operation {
	return did(at, draftOp{kind: kindDraft, keyed: life != 0, payload: payload, life: life, due: int64(at)})
}

func draftStarts(at time.Duration, attempt uint32, payload string, life uint64) porcupine.Operation {
	return did(at, draftOp{kind: kindStart, attempt: attempt, payload: payload, life: life})
}

func draftResult(outcome string) porcupine.Operation {
	return undecided(3*second, draftOp{kind: kindResult, attempt: 1, outcome: outcome})
}

func draftShows(at time.Duration, life uint64, s snapshot) porcupine.Operation {
	return did(at, draftOp{kind: kindGet, life: life, payload: "old", due: int64(at), seen: s})
}

const second = time.Second

var (
	rescheduled = did(2*second, draftOp{kind: kindReschedule, due: int64(60 * second)})
	updated     = did(2*second, draftOp{kind: kindUpdate, payload: "new"})
	cancelled   = did(2*second, draftOp{kind: kindCancel, life: firstLife, outcome: "cancelled"})
	redriven    = did(10*second, draftOp{kind: kindRedrive, life: firstLife})
	replacing   = did(8*second, draftOp{kind: kindDraft, keyed: true, onConflict: sdk.ConflictReplace, payload: "new", life: secondLife, due: int64(9 * second)})
	fatal       = snapshot{state: task.FatalFailure, attempt: 1, winner: 1}
)

func TestDraftRegisterAccepts(t *testing.T) {
	var many []porcupine.Operation
	for i := range 4 {
		at := time.Duration(10+10*i) * second
		many = append(many,
			undecided(at, draftOp{kind: kindReschedule, byKey: true, due: int64(60 * second), unknown: true}),
			undecided(at, draftOp{kind: kindDraft, keyed: true, payload: "new", onConflict: sdk.ConflictReplace, due: int64(at), unknown: true}),
			undecided(at, draftOp{kind: kindCancel, life: firstLife, unknown: true}),
		)
	}
	for name, history := range map[string][]porcupine.Operation{
		"starts at its new time":           {drafted(second, "old", 0), rescheduled, draftStarts(60*second, 1, "old", 0)},
		"runs with what an update gave it": {drafted(second, "old", 0), updated, draftStarts(3*second, 1, "new", 0)},
		"an update that was not answered, and not done": {
			drafted(second, "old", 0), undecided(2*second, draftOp{kind: kindUpdate, payload: "new", unknown: true}), draftStarts(3*second, 1, "old", 0),
		},
		"an update that was not answered, and done": {
			drafted(second, "old", 0), undecided(2*second, draftOp{kind: kindUpdate, payload: "new", unknown: true}), draftStarts(3*second, 1, "new", 0),
		},
		"a result that is not seen at once, and many operations that were not answered, and not done": append(many,
			drafted(second, "old", firstLife), draftStarts(2*second, 1, "old", firstLife), draftResult(checker.OK),
			draftShows(4*second, firstLife, snapshot{state: task.Processing, attempt: 1}),
			draftShows(90*second, firstLife, snapshot{state: task.Success, attempt: 1, winner: 1}),
		),
		"a redriven task": {
			drafted(second, "old", firstLife), draftStarts(2*second, 1, "old", firstLife), draftResult(checker.Fatal),
			draftShows(4*second, firstLife, fatal), redriven, draftStarts(11*second, 2, "old", firstLife),
		},
		"a key that is used again": {
			drafted(second, "old", firstLife), cancelled, drafted(3*second, "new", secondLife), draftStarts(4*second, 1, "new", secondLife),
			did(5*second, draftOp{kind: kindCancel, life: firstLife, refused: notFound}),
		},
		"a cancel that meets the next task with the key when it reads back what it wrote": {
			drafted(second, "old", firstLife), lasting(2*second, 4*second, draftOp{kind: kindCancel, life: firstLife, refused: notFound}),
			drafted(3*second, "new", secondLife), draftStarts(5*second, 1, "new", secondLife),
		},
		"a key that is used again, by whom nobody knows": {
			drafted(second, "old", firstLife), cancelled,
			undecided(3*second, draftOp{kind: kindDraft, keyed: true, payload: "new", unknown: true}), draftStarts(4*second, 1, "new", secondLife),
		},
		"a replacement": {
			drafted(second, "old", firstLife),
			did(2*second, draftOp{kind: kindDraft, keyed: true, onConflict: sdk.ConflictReplace, duplicate: true, replaced: true, payload: "new", life: firstLife, due: int64(9 * second)}),
			draftStarts(9*second, 1, "new", firstLife),
		},
		"a replacement of a task that has succeeded": {
			drafted(second, "old", firstLife), draftStarts(2*second, 1, "old", firstLife), draftResult(checker.OK), replacing,
			draftStarts(9*second, 2, "new", secondLife),
		},
		"an expiry": {
			did(second, draftOp{kind: kindDraft, payload: "old", due: int64(second), expires: int64(3 * second)}), draftShows(4*second, 0, snapshot{state: task.Expired}),
		},
	} {
		if explained, steps := (draftJudge{}).explains(history); !explained {
			t.Errorf("%s: refused, %d steps left:%s", name, steps, described(history))
		}
	}
}

func TestDraftRegisterRefuses(t *testing.T) {
	for name, history := range map[string][]porcupine.Operation{
		"a start before its new time":        {drafted(second, "old", 0), rescheduled, draftStarts(59*second, 1, "old", 0)},
		"a start with the payload of before": {drafted(second, "old", 0), updated, draftStarts(3*second, 1, "old", 0)},
		"too late for what is not due": {
			did(second, draftOp{kind: kindDraft, payload: "old", due: int64(9 * second)}), did(2*second, draftOp{kind: kindUpdate, payload: "new", refused: tooLate}),
		},
		"a start of what has ended":       {drafted(second, "old", firstLife), cancelled, draftStarts(3*second, 1, "old", firstLife)},
		"a redrive of what has not ended": {drafted(second, "old", firstLife), redriven, draftStarts(11*second, 1, "old", firstLife)},
		"a redriven task whose failure of before counts": {
			drafted(second, "old", firstLife), draftStarts(2*second, 1, "old", firstLife), draftResult(checker.Fatal), redriven,
			draftShows(12*second, firstLife, snapshot{state: task.RetriableFailure, attempt: 1, failures: 1}),
		},
		"a redriven task that is never there again": {
			drafted(second, "old", firstLife), draftStarts(2*second, 1, "old", firstLife), draftResult(checker.Fatal),
			redriven, draftShows(12*second, firstLife, fatal),
		},
		"two tasks with one key": {drafted(second, "old", firstLife), drafted(2*second, "new", secondLife)},
		"an id of an earlier life that is shown": {
			drafted(second, "old", firstLife), cancelled, drafted(3*second, "new", secondLife), draftShows(4*second, firstLife, snapshot{state: task.Cancelled}),
		},
		"an id of an earlier life that changes a later one": {
			drafted(second, "old", firstLife), cancelled, drafted(3*second, "new", secondLife), did(4*second, draftOp{kind: kindCancel, life: firstLife, outcome: "cancelled"}),
		},
		"a cancel that did not find what was there": {
			drafted(second, "old", firstLife), did(2*second, draftOp{kind: kindCancel, life: firstLife, refused: notFound}), draftShows(4*second, firstLife, snapshot{state: task.Cancelled}),
		},
		"a cancel that did not find what was there, though it freed the key": {
			drafted(second, "old", firstLife), did(2*second, draftOp{kind: kindCancel, life: firstLife, refused: notFound}), drafted(3*second, "new", secondLife),
		},
		"a free key that is refused": {
			drafted(second, "old", firstLife), cancelled, did(3*second, draftOp{kind: kindDraft, keyed: true, onConflict: sdk.ConflictReject, payload: "new", refused: conflict}),
		},
		"another task with the key of one that has succeeded": {
			drafted(second, "old", firstLife), draftStarts(2*second, 1, "old", firstLife), draftResult(checker.OK), drafted(4*second, "new", secondLife),
		},
		"a replacement that a task which has succeeded refuses": {
			drafted(second, "old", firstLife), draftStarts(2*second, 1, "old", firstLife), draftResult(checker.OK),
			draftShows(4*second, firstLife, snapshot{state: task.Success, attempt: 1, winner: 1}),
			did(8*second, draftOp{kind: kindDraft, keyed: true, onConflict: sdk.ConflictReplace, payload: "new", refused: conflict}),
		},
		"a replacement of a task that lives as a task of its own": {drafted(second, "old", firstLife), replacing},
		"an expiry before its time": {
			did(second, draftOp{kind: kindDraft, payload: "old", due: int64(second), expires: int64(9 * second)}), draftShows(4*second, 0, snapshot{state: task.Expired}),
		},
	} {
		if explained, _ := (draftJudge{}).explains(history); explained {
			t.Errorf("%s: accepted:%s", name, described(history))
		}
	}
}

func TestARowOfAnEarlierLifeIsReplacedOnlyOnceItsKeyIsFree(t *testing.T) {
	for from, want := range map[task.State]int{task.Cancelled: 0, task.Expired: 0, task.Success: 1, task.Enqueued: 1} {
		var l ledger
		first, next := row(2, from), row(9, task.Enqueued)
		first.Task.Life, next.Task.Life, next.From = firstLife, secondLife, 2
		l.wrote(first, nil)
		l.wrote(next, nil)
		if _, found := l.edges(); len(found) != want || want > 0 && !strings.HasPrefix(found[0], "I16") {
			t.Errorf("after %s: %q, want %d breaches", from, found, want)
		}
	}
	var l ledger // of a task that calls may replace
	first, next := row(2, task.Success), row(9, task.Enqueued)
	first.Task.Collection, next.Task.Collection = draftCollection, draftCollection
	first.Task.Life, next.Task.Life, next.From = firstLife, secondLife, 2
	l.wrote(first, nil)
	l.wrote(next, nil)
	if _, found := l.edges(); len(found) > 0 {
		t.Errorf("a replacement: %q", found)
	}
}

func TestTwoChangesAtOneSeqAreNoticed(t *testing.T) {
	first, refused := draftOp{kind: kindUpdate, ifSeq: 5}, draftOp{kind: kindCancel, ifSeq: 5, refused: staleSeq}
	if found := sameSeq([]porcupine.Operation{did(second, first), did(2*second, refused)}); len(found) > 0 {
		t.Errorf("one was refused: %q", found)
	}
	if found := sameSeq([]porcupine.Operation{did(second, first), did(2*second, first)}); len(found) != 1 {
		t.Errorf("%q, want one breach", found)
	}
}
