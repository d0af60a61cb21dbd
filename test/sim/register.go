package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/checker"
)

// opKind is what was done to a task's register.
type opKind string

const (
	opSchedule opKind = "schedule"
	opGet      opKind = "get"
	opCancel   opKind = "cancel"
	opStart    opKind = "start"
	opResult   opKind = "result"
	opFence    opKind = "fence" // a heartbeat is told that the attempt does not own its task
)

const tooLate = "too late"

// operation is one operation on a register, with its answer.
type operation struct {
	kind      opKind
	unknown   bool   // schedule, cancel: nobody was told whether it was done
	duplicate bool   // schedule
	outcome   string // cancel, result
	attempt   uint32 // start, result, fence
	absent    bool   // get: there is no such task
	seen      snapshot
}

// snapshot is what a get shows.
type snapshot struct {
	state      task.State
	attempt    uint32
	failures   uint32
	lost       uint32
	winner     uint32
	cancelling bool
}

func (o operation) String() string {
	switch {
	case o.unknown:
		return fmt.Sprintf("%s, not answered", o.kind)
	case o.absent:
		return "get: not found"
	}
	switch o.kind {
	case opSchedule:
		return fmt.Sprintf("schedule: duplicate %v", o.duplicate)
	case opGet:
		return fmt.Sprintf("get: %s, attempt %d, failures %d, lost %d, won by %d, cancelling %v", o.seen.state, o.seen.attempt, o.seen.failures, o.seen.lost,
			o.seen.winner, o.seen.cancelling)
	case opCancel:
		return "cancel: " + o.outcome
	case opStart, opResult, opFence:
	}
	return fmt.Sprintf("%s of attempt %d %s", o.kind, o.attempt, o.outcome)
}

// register is what is known of one task. Claims that nobody saw are not part of it, so the attempt is the
// least that it can be.
type register struct {
	there    bool
	end      task.State // Unknown while it lives
	attempt  uint32
	started  uint32 // the newest attempt that a worker began
	over     uint32 // no attempt up to this one owns the task any more
	failures uint32
	marked   bool   // a cancel was noted while it ran
	winner   uint32 // whose result ended it; 0: nobody's
	fixed    bool   // attempt is what was seen in the end
}

func (r register) lives() bool { return r.there && r.end == task.Unknown }

func (r register) ended(s task.State, winner uint32) register {
	r.end, r.winner = s, winner
	return r
}

// next are the registers that the operation may leave; none: it cannot have been answered so.
func (r register) next(o *operation) []register {
	switch o.kind {
	case opSchedule:
		return r.schedule(o)
	case opStart:
		if !r.lives() || o.attempt <= r.started || o.attempt <= r.over || o.attempt < r.attempt {
			return nil
		}
		r.attempt, r.started = o.attempt, o.attempt
		return []register{r}
	case opResult:
		return r.result(o)
	case opFence:
		r.over = max(r.over, o.attempt)
		return []register{r}
	case opCancel:
		return r.cancel(o)
	case opGet:
		return r.get(o)
	}
	return nil
}

// schedule of what is there already is a duplicate. One call is tried several times, so a duplicate may be of
// itself.
func (r register) schedule(o *operation) []register {
	if r.there {
		if o.duplicate || o.unknown {
			return []register{r}
		}
		return nil
	}
	r.there = true
	return []register{r}
}

// result counts if its attempt owns the task, and if it arrived, which nobody is told.
func (r register) result(o *operation) []register {
	if !r.lives() || r.attempt != o.attempt || o.attempt <= r.over {
		return []register{r}
	}
	return append(r.arrived(o), r)
}

func (r register) arrived(o *operation) []register {
	cancelled := r.ended(task.Cancelled, 0)
	switch o.outcome {
	case checker.OK:
		return []register{r.ended(task.Success, o.attempt)}
	case checker.Fatal:
		return []register{r.ended(task.FatalFailure, o.attempt)}
	case checker.Fail:
		r.failures++
		cancelled.failures++
		if r.marked {
			return []register{cancelled}
		}
		if r.failures >= attemptsMax {
			return []register{r.ended(task.Dead, 0)}
		}
	default:
		if r.marked {
			return []register{cancelled}
		}
	}
	return []register{r}
}

func (r register) cancel(o *operation) []register {
	marked := r
	marked.marked = true
	switch {
	case o.unknown && r.lives():
		return []register{r, marked, r.ended(task.Cancelled, 0)}
	case o.unknown:
		return []register{r}
	case o.outcome == "cancelled" && r.lives():
		return []register{r.ended(task.Cancelled, 0)}
	case o.outcome == "cancelled" && r.end == task.Cancelled:
		return []register{r}
	case o.outcome == "cancelling" && r.lives():
		return []register{marked}
	case o.outcome == tooLate && r.lives(): // its workers were lost too often, which nobody else saw
		return []register{r.ended(task.Dead, 0)}
	case o.outcome == tooLate && r.there:
		return []register{r}
	}
	return nil
}

// get shows the register as it is. Changes of a task without a client's or a handler's doing show here first:
// claims, lost workers, and what these lead to.
func (r register) get(o *operation) []register {
	s := &o.seen
	if o.absent || !r.there {
		if o.absent && !r.there {
			return []register{r}
		}
		return nil
	}
	if s.attempt < r.attempt || s.failures != r.failures || r.fixed && s.attempt != r.attempt {
		return nil
	}
	if s.state.IsEnd() && r.lives() {
		switch {
		case s.state == task.Cancelled && r.marked, s.state == task.Dead && s.lost >= lostMax:
			r = r.ended(s.state, 0)
		default:
			return nil
		}
	}
	if !s.state.IsEnd() && (!r.lives() || s.cancelling != r.marked || s.state.IsRunning() && s.attempt == 0) {
		return nil
	}
	if s.state.IsEnd() && (s.state != r.end || s.winner != r.winner || r.winner != 0 && s.attempt != r.winner) {
		return nil
	}
	if s.state == task.Dead && s.failures < attemptsMax && s.lost < lostMax {
		return nil
	}
	r.attempt, r.fixed = s.attempt, s.state.IsEnd()
	return []register{r}
}

// registerModel is the register for porcupine; steps counts down.
func registerModel(steps *int) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, _ any) []any {
			o, _ := input.(operation)
			r, _ := state.(register)
			var all []any
			if *steps--; *steps < 0 {
				return nil
			}
			for _, next := range r.next(&o) {
				all = append(all, next)
			}
			return all
		},
	}
	return model.ToModel()
}

// registerStepsMax bounds the search for an order of one task's operations. Hundreds are usual. It is not a
// time, since nothing stops a goroutine that computes while the runtime takes its chances from a seed, and so
// that a seed is always judged alike.
const registerStepsMax = 300_000

// checkRegisters says of which tasks no order of the operations explains all answers (linearizability:
// Herlihy and Wing, 1990).
func checkRegisters(byTask map[string][]porcupine.Operation) []string {
	var breaches []string
	for _, nonce := range slices.Sorted(maps.Keys(byTask)) {
		operations := byTask[nonce]
		steps := registerStepsMax
		switch {
		case porcupine.CheckOperations(registerModel(&steps), operations):
		case steps < 0:
			breaches = append(breaches, fmt.Sprintf("register: no order of what was done to %s was found in %d steps:%s", nonce, registerStepsMax, described(operations)))
		default:
			breaches = append(breaches, fmt.Sprintf("register: no order of what was done to %s explains all answers:%s", nonce, described(operations)))
		}
	}
	return breaches
}

func described(operations []porcupine.Operation) string {
	operations = slices.Clone(operations)
	slices.SortStableFunc(operations, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var text strings.Builder
	for _, o := range operations {
		until := "…"
		if o.Return != unanswered {
			until = time.Unix(0, o.Return).UTC().Format("04:05.000000")
		}
		fmt.Fprintf(&text, "\n    %s to %s %v", time.Unix(0, o.Call).UTC().Format("04:05.000000"), until, o.Input)
	}
	return text.String()
}
