package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/checker"
)

func during(from, to time.Duration, o operation) porcupine.Operation {
	return porcupine.Operation{Input: o, Call: int64(from), Return: int64(to)}
}

func since(from time.Duration, o operation) porcupine.Operation {
	return porcupine.Operation{Input: o, Call: int64(from), Return: unanswered}
}

func starts(at time.Duration, attempt uint32) porcupine.Operation {
	return during(at, at, operation{kind: opStart, attempt: attempt})
}

func results(at time.Duration, attempt uint32, outcome string) porcupine.Operation {
	return since(at, operation{kind: opResult, attempt: attempt, outcome: outcome})
}

func shows(at time.Duration, s snapshot) porcupine.Operation {
	return during(at, at+1, operation{kind: opGet, seen: s})
}

var stored = during(0, 10, operation{kind: opSchedule})

func TestRegisterAccepts(t *testing.T) {
	for name, history := range map[string][]porcupine.Operation{
		"one run": {
			stored, starts(20, 1), shows(25, snapshot{state: task.Processing, attempt: 1}), results(30, 1, checker.OK),
			shows(40, snapshot{state: task.Success, attempt: 1, winner: 1}),
		},
		"started before its client was answered": {during(0, 50, operation{kind: opSchedule}), starts(20, 1)},
		"stored, and nobody was answered":        {since(0, operation{kind: opSchedule, unknown: true}), starts(20, 1)},
		"a result that did not arrive": {
			stored, starts(20, 1), results(30, 1, checker.Fail), starts(60, 2), results(70, 2, checker.OK),
			shows(80, snapshot{state: task.Success, attempt: 2, winner: 2}),
		},
		"an end that a get may miss": {
			stored, starts(20, 1), results(30, 1, checker.OK), shows(31, snapshot{state: task.Processing, attempt: 1}),
		},
		"a cancel that nobody was told of": {
			stored, since(20, operation{kind: opCancel, unknown: true}), shows(40, snapshot{state: task.Cancelled}),
		},
		"a cancel of what lost its workers": {
			stored, during(20, 30, operation{kind: opCancel, outcome: tooLate}), shows(40, snapshot{state: task.Dead, attempt: 3, lost: lostMax}),
		},
		"a cancel that the handler obeyed": {
			stored, starts(20, 1), during(22, 24, operation{kind: opCancel, outcome: "cancelling"}), results(30, 1, checker.Obeyed),
			shows(40, snapshot{state: task.Cancelled, attempt: 1}),
		},
		"given up": {stored, starts(20, 1), shows(40, snapshot{state: task.Dead, attempt: 4, lost: lostMax})},
	} {
		if found := checkRegisters(map[string][]porcupine.Operation{"n": history}); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestRegisterSearchIsBounded(t *testing.T) {
	history := []porcupine.Operation{stored, starts(20, 2)}
	for i := range time.Duration(40) {
		history = append(history, since(i, operation{kind: opCancel, unknown: true}), since(i, operation{kind: opResult, attempt: 2, outcome: checker.Fail}))
	}
	history = append(history, starts(100, 1))
	found := checkRegisters(map[string][]porcupine.Operation{"n": history})
	if len(found) != 1 || !strings.Contains(found[0], "was found in 300000 steps") {
		t.Errorf("%.200q, want that it was too much", found)
	}
}

func TestRegisterRefuses(t *testing.T) {
	cancelled := during(15, 18, operation{kind: opCancel, outcome: "cancelled"})
	won := []porcupine.Operation{stored, starts(20, 1), results(30, 1, checker.OK), shows(40, snapshot{state: task.Success, attempt: 1, winner: 1})}
	for name, history := range map[string][]porcupine.Operation{
		"a get that shows the past":          append(won[:4:4], shows(50, snapshot{state: task.Processing, attempt: 1})),
		"a cancel, and a later start":        {stored, cancelled, starts(20, 1)},
		"two results":                        append(won[:4:4], starts(45, 2), results(46, 2, checker.OK), shows(50, snapshot{state: task.Success, attempt: 2, winner: 2})),
		"another winner":                     append(won[:4:4], shows(50, snapshot{state: task.Success, attempt: 2, winner: 2})),
		"a success that nobody had":          {stored, starts(20, 1), shows(40, snapshot{state: task.Success, attempt: 1, winner: 1})},
		"a start of nothing":                 {starts(20, 1)},
		"an older attempt starts later":      {stored, starts(20, 2), starts(30, 1)},
		"a start after a newer was seen":     {stored, shows(20, snapshot{state: task.Enqueued, attempt: 2}), starts(30, 1)},
		"not found":                          {stored, during(20, 21, operation{kind: opGet, absent: true})},
		"a key that was free twice":          {stored, during(20, 30, operation{kind: opSchedule})},
		"a cancel of what had ended":         append(won[:4:4], during(50, 60, operation{kind: opCancel, outcome: "cancelled"})),
		"a cancel that found its own work":   {stored, during(20, 30, operation{kind: opCancel, outcome: tooLate}), shows(40, snapshot{state: task.Cancelled})},
		"too late for what lives":            {stored, during(20, 30, operation{kind: opCancel, outcome: tooLate}), starts(40, 1)},
		"a failure that is not counted":      {stored, starts(20, 1), results(25, 1, checker.Fail), starts(30, 2), shows(40, snapshot{state: task.Processing, attempt: 2, failures: 2})},
		"a fenced attempt that wins":         {stored, starts(20, 1), during(22, 24, operation{kind: opFence, attempt: 1}), results(30, 1, checker.OK), shows(40, snapshot{state: task.Success, attempt: 1, winner: 1})},
		"a fenced attempt that starts":       {stored, during(12, 14, operation{kind: opFence, attempt: 1}), starts(20, 1)},
		"dead without a reason":              {stored, starts(20, 1), shows(40, snapshot{state: task.Dead, attempt: 1, lost: lostMax - 1})},
		"a cancel that is forgotten":         {stored, starts(20, 1), during(22, 24, operation{kind: opCancel, outcome: "cancelling"}), shows(30, snapshot{state: task.Processing, attempt: 1})},
		"cancelled, and nobody asked for it": {stored, shows(30, snapshot{state: task.Cancelled})},
	} {
		found := checkRegisters(map[string][]porcupine.Operation{"n": history})
		if len(found) != 1 || !strings.Contains(found[0], "no order of what was done to n") {
			t.Errorf("%s: %q, want a breach", name, found)
		}
	}
}
