package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// draftKind is what was done to a task that clients change.
type draftKind string

const (
	kindDraft      draftKind = "draft" // it was scheduled
	kindReschedule draftKind = "reschedule"
	kindUpdate     draftKind = "update"
	kindRedrive    draftKind = "redrive"
	kindCancel     draftKind = "cancel"
	kindGet        draftKind = "get"
	kindStart      draftKind = "start"
	kindResult     draftKind = "result"
)

// draftOp is one operation on a task that clients change, or on a key, with its answer.
type draftOp struct {
	kind    draftKind
	from    int64 // nanoseconds of true time
	until   int64 // unanswered: it may take effect at any time
	unknown bool  // nobody was told whether it was done
	refused string
	byKey   bool
	ifSeq   uint64 // its condition; 0: none
	keyed   bool   // schedule: it has a key
	life    uint64 // of the task that it names, or that its answer names; 0: without a key

	payload    string // its nonce; empty: unchanged, or not seen
	due        int64  // earliest start, nanoseconds of true time
	expires    int64  // likewise; 0: never
	onConflict sdk.Conflict
	duplicate  bool
	replaced   bool
	force      bool
	outcome    string // cancel, result
	attempt    uint32 // start, result
	seen       snapshot
}

// answer says in words what an operation was told.
func (o draftOp) answer() string {
	what := string(o.kind)
	if o.kind == kindRedrive && o.payload != "" {
		what += " with a payload"
	}
	switch {
	case o.unknown:
		return what + ", not answered"
	case o.refused != "":
		return what + ": " + o.refused
	case o.replaced:
		return what + ": replaced"
	case o.duplicate:
		return what + ": duplicate"
	case o.kind == kindCancel:
		return what + ": " + o.outcome
	}
	return what + ": done"
}

func (o draftOp) String() string {
	at := func(ns int64) string { return time.Unix(0, ns).UTC().Format("04:05.000000") }
	switch o.kind {
	case kindStart, kindResult:
		return fmt.Sprintf("%s of attempt %d with %s, life %d %s", o.kind, o.attempt, o.payload, o.life, o.outcome)
	case kindGet:
		if o.refused == "" {
			return fmt.Sprintf("get: %+v with %s, due %s, life %d", o.seen, o.payload, at(o.due), o.life)
		}
	default:
	}
	return fmt.Sprintf("%s %s (life %d, by key %v, %q, due %s, expires %s, force %v)", o.answer(), o.payload, o.life, o.byKey, o.onConflict, at(o.due), at(o.expires), o.force)
}

// draft is what is known of a task that clients change, or of the newest one with a key. Claims and lost
// workers that nobody saw are not part of it.
type draft struct {
	there    bool
	life     uint64 // 0: it has no key, or nobody was told yet
	earlier  uint64 // the newest life before it that is known
	keyed    bool
	end      task.State // Unknown while it lives
	payload  string
	due      int64
	expires  int64
	began    bool   // an attempt of it started, since it was stored or redriven
	attempt  uint32 // the least that the newest one can be
	started  uint32 // the newest attempt that a worker began
	over     uint32 // no attempt up to this one owns the task any more
	failures uint32
	marked   bool   // a cancel was noted while it ran
	winner   uint32 // whose result ended it; 0: nobody's
	reuseBy  int64  // before then the key was used again, as a change was told that it met; 0: unknown
}

// draftJudge says what each operation may do.
type draftJudge struct {
	apart   int64 // by how much clocks may differ
	givesUp bool  // the task may have been given up at some time, because its workers were lost
}

// claimedAhead is how long before its start an attempt may have been claimed.
const claimedAhead = int64(30 * time.Second)

func (d draft) lives() bool { return d.there && d.end == task.Unknown }

func (d draft) ended(s task.State) draft {
	d.end = s
	return d
}

// holdsKey reports whether the task that a call schedules may not have the key. One that replaces may have it
// once this one has ended.
func (d draft) holdsKey(o *draftOp) bool {
	return d.lives() || d.there && d.end == task.Success && o.onConflict != sdk.ConflictReplace
}

// taken is the task when no attempt has it any more that had it before.
func (d draft) taken() draft {
	d.over = max(d.over, d.attempt)
	return d
}

// next are the registers that the operation may leave; none: it cannot have been answered so. Before it may
// have happened what nobody sees: lost workers end a task, and its time runs out.
func (j draftJudge) next(d draft, o *draftOp) (all []draft) {
	if d.reuseBy != 0 && o.from > d.reuseBy && o.kind != kindResult && o.refused == "" && !o.unknown {
		return nil // the next task with the key came later than it was met
	}
	for _, now := range j.unseen(d, o) {
		all = append(all, j.apply(now, o)...)
	}
	return all
}

func (j draftJudge) unseen(d draft, o *draftOp) []draft {
	all := []draft{d}
	if !d.lives() || o.kind == kindStart || o.kind == kindResult {
		return all
	}
	if j.givesUp && (o.kind != kindGet || o.seen.lost >= lostMax) {
		all = append(all, d.ended(task.Dead))
	}
	if d.expires != 0 && !d.began && (o.until == unanswered || o.until >= d.expires-j.apart) {
		all = append(all, d.ended(task.Expired))
	}
	if d.marked {
		all = append(all, d.ended(task.Cancelled))
	}
	return all
}

func (j draftJudge) apply(d draft, o *draftOp) []draft {
	switch o.kind {
	case kindDraft:
		return j.schedule(d, o)
	case kindStart:
		return j.start(d, o)
	case kindResult:
		return d.result(o)
	default:
	}
	var all []draft
	is, isNot := j.named(d, o)
	if isNot && (o.unknown || o.refused == notFound || o.refused == conflict && o.kind == kindRedrive) {
		all = append(all, d)
	}
	if !is {
		return all
	}
	if o.life != 0 {
		d.life = o.life
	}
	if o.refused == staleSeq && o.ifSeq != 0 {
		return append(all, d)
	}
	if o.refused == notFound && d.keyed && o.kind != kindGet {
		return append(all, j.doneUnseen(d, o)...)
	}
	if o.kind == kindGet {
		return append(all, j.get(d, o)...)
	}
	return append(all, j.change(d, o)...)
}

// change is what a client does to the task that it names.
func (j draftJudge) change(d draft, o *draftOp) []draft {
	switch o.kind {
	case kindReschedule, kindUpdate:
		return j.edit(d, o)
	case kindRedrive:
		return j.redrive(d, o)
	case kindCancel:
		return d.cancel(o)
	default:
		return nil
	}
}

// doneUnseen is a change whose write was not answered, and which met the key's next task when it was read
// back or tried again. This task begins before the call ends.
func (j draftJudge) doneUnseen(d draft, o *draftOp) (all []draft) {
	asked := *o
	asked.refused, asked.unknown = "", true
	for _, next := range j.change(d, &asked) {
		next.reuseBy = o.until
		all = append(all, next)
	}
	return all
}

// named reports whether an operation may name the task that is there, and whether it may name none or an
// earlier one. A key names the task that has it as the call begins, and is found no more if another one gets
// it meanwhile. A life is the microsecond at which it began.
func (j draftJudge) named(d draft, o *draftOp) (is, isNot bool) {
	switch {
	case !d.there:
		return false, true
	case o.byKey:
		return true, d.earlier != 0 && (d.life == 0 || time.Duration(d.life)*time.Microsecond >= time.Duration(o.from-j.apart))
	case !d.keyed:
		return true, false
	case d.life != 0:
		return o.life == d.life, o.life != d.life
	}
	return o.life > d.earlier, true // nobody was told the life of this one
}

// schedule makes a task of a key that is free, or meets the one that holds it. Of itself, too, if its first
// write was not answered.
func (j draftJudge) schedule(d draft, o *draftOp) (all []draft) {
	if free := !d.holdsKey(o); free && o.refused == "" && (o.life == 0 || o.life > max(d.life, d.earlier)) {
		fresh := draft{
			there: true, life: o.life, earlier: max(d.earlier, d.life), keyed: o.keyed,
			payload: o.payload, due: o.due, expires: o.expires, attempt: d.attempt, started: d.started, over: max(d.over, d.attempt),
		}
		all = append(all, fresh)
	}
	if o.refused == invalid { // by a clock that was set back
		return []draft{d}
	}
	if o.unknown {
		all = append(all, d)
		if o.onConflict == sdk.ConflictReplace && d.lives() {
			all = append(all, d.replaced(o))
		}
		return all
	}
	if !d.holdsKey(o) || o.life != 0 && d.life != 0 && o.life != d.life {
		return all
	}
	if o.life != 0 {
		d.life = o.life
	}
	switch {
	case o.replaced && d.lives():
		all = append(all, d.replaced(o))
	case o.duplicate && !o.replaced && d.payload == o.payload:
		all = append(all, d)
	case o.refused == conflict && (o.onConflict != sdk.ConflictReplace || j.mayRun(d, o)):
		all = append(all, d)
	}
	return all
}

func (d draft) replaced(o *draftOp) draft {
	d.payload, d.due, d.expires = o.payload, o.due, o.expires
	return d.taken()
}

// mayRun reports whether a worker may have the task, as far as is known.
func (j draftJudge) mayRun(d draft, o *draftOp) bool {
	return d.lives() && (o.until == unanswered || o.until >= d.due-j.apart)
}

func (j draftJudge) start(d draft, o *draftOp) []draft {
	switch {
	case !d.lives(), o.attempt <= d.started, o.attempt <= d.over, o.attempt < d.attempt, o.payload != d.payload, o.from < d.due-j.apart:
		return nil
	case d.life != 0 && o.life != d.life, d.keyed && o.life <= d.earlier:
		return nil
	case d.expires != 0 && !d.began && o.attempt == d.over+1 && o.from > d.expires+j.apart+claimedAhead:
		// A later attempt may follow one whose worker was lost, which may have started.
		return nil
	}
	d.life, d.attempt, d.started, d.began = o.life, o.attempt, o.attempt, true
	return []draft{d}
}

// result counts as in a register that nobody changes.
func (d draft) result(o *draftOp) (all []draft) {
	r := register{
		there: d.there, end: d.end, attempt: d.attempt, started: d.started, over: d.over, failures: d.failures, marked: d.marked, winner: d.winner,
	}
	for _, next := range r.result(&operation{kind: opResult, attempt: o.attempt, outcome: o.outcome}) {
		d.end, d.failures, d.winner = next.end, next.failures, next.winner
		all = append(all, d)
	}
	return all
}

// edit reschedules or updates a task that no worker has.
func (j draftJudge) edit(d draft, o *draftOp) []draft {
	next := d.taken()
	if o.kind == kindReschedule {
		next.due = o.due
	} else {
		next.payload = o.payload
	}
	switch {
	case o.unknown && d.lives():
		return []draft{d, next}
	case o.unknown,
		o.refused == tooLate && (!d.lives() || j.mayRun(d, o)),
		o.refused == invalid && d.expires != 0:
		return []draft{d}
	case o.refused == "" && d.lives():
		return []draft{next}
	}
	return nil
}

// redrive runs a task again that has ended. It keeps a start_before while that lies ahead by the clock of the
// server, and has none afterwards.
func (j draftJudge) redrive(d draft, o *draftOp) (all []draft) {
	possible := d.there && !d.lives() && (o.force || d.end != task.Success)
	next := d.taken()
	next.end, next.winner, next.failures, next.marked, next.began = task.Unknown, 0, 0, false, false
	next.due = o.from
	if o.payload != "" {
		next.payload = o.payload
	}
	if (o.unknown || o.refused == "") && possible {
		if d.expires > o.from-j.apart {
			all = append(all, next)
		}
		if d.expires == 0 || o.until == unanswered || d.expires <= o.until+j.apart {
			next.expires = 0
			all = append(all, next)
		}
	}
	if o.unknown || o.refused == tooLate && !possible {
		all = append(all, d)
	}
	return all
}

func (d draft) cancel(o *draftOp) []draft {
	marked := d
	marked.marked = true
	switch {
	case o.unknown && d.lives():
		return []draft{d, marked, d.ended(task.Cancelled)}
	case o.unknown, o.refused == tooLate && !d.lives():
		return []draft{d}
	case o.outcome == "cancelled" && d.lives():
		return []draft{d.ended(task.Cancelled)}
	case o.outcome == "cancelled" && d.end == task.Cancelled:
		return []draft{d}
	case o.outcome == "cancelling" && d.lives():
		return []draft{marked}
	}
	return nil
}

// get shows the register as it is. The due time is exact, except for what a server rounds, and for a snooze.
func (j draftJudge) get(d draft, o *draftOp) []draft {
	s := &o.seen
	switch {
	case o.refused != "":
		return nil
	case s.attempt < d.attempt, s.failures != d.failures, o.payload != "" && o.payload != d.payload, o.due < d.due-j.apart:
		return nil
	case s.state.IsEnd() != !d.lives(), s.state.IsEnd() && s.state != d.end:
		return nil
	case !s.state.IsEnd() && (s.cancelling != d.marked || s.state.IsRunning() && s.attempt == 0):
		return nil
	case s.state == task.Dead && s.failures < attemptsMax && s.lost < lostMax:
		return nil
	case d.winner != 0 && (s.winner != d.winner || s.attempt != d.winner):
		return nil
	}
	d.attempt = s.attempt
	return []draft{d}
}

// draftModel is the register for porcupine; steps counts down.
func draftModel(steps *int, j draftJudge) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{draft{}} },
		Step: func(state, input, _ any) []any {
			o, _ := input.(draftOp)
			d, _ := state.(draft)
			if *steps--; *steps < 0 {
				return nil
			}
			var all []any
			for _, next := range j.next(d, &o) {
				all = append(all, next)
			}
			return all
		},
	}
	return model.ToModel()
}

// explains reports whether an order of the operations explains all answers, and how many steps of the search are left; below
// 0: the search was given up. It looks first without the operations that were not answered: often none of them was done, and
// eight of them have more orders than can be searched.
func (j draftJudge) explains(operations []porcupine.Operation) (explained bool, steps int) {
	answered := slices.DeleteFunc(slices.Clone(operations), func(operation porcupine.Operation) bool {
		o, _ := operation.Input.(draftOp)
		return o.unknown
	})
	for _, some := range [][]porcupine.Operation{answered, operations} {
		steps = registerStepsMax
		if porcupine.CheckOperations(draftModel(&steps, j), some) {
			return true, steps
		}
	}
	return false, steps
}
