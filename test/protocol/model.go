// Package protocol is a model of docs/internals/protocol.md, small enough to be searched exhaustively: the rows of one
// task, the processes that write them one conditional write at a time, and a crash or a pause between any
// two of those writes.
//
// It imports nothing of Kinesin. Its writes are those of store/change.go, its readers those of the page.
// Every rule of the page is a switch (Rule), so that a test can leave one out and show the trace that
// follows.
package protocol

// Rule is one rule of the protocol. The number in its text is that of docs/internals/protocol.md.
type Rule uint8

// The rules.
const (
	LiveProtects       Rule = iota // a live task row that names a wake-up row protects it
	NamesPlace                     // what lies at the place that a live task row names is its wake-up row, whatever its seq
	HigherIsToCome                 // a bare row with a seq above the task row's is a move to come
	PutMustBeSeen                  // an unknown put counts as done only when its row is seen
	PutReplacesLower               // a put replaces a lower seq
	DeleteBySeq                    // a delete is conditional on the seq that was seen
	CarriesSeq                     // a move's wake-up row carries the seq of the task row to come
	FreshLife                      // the first seq of a key, and that of a move, is above every seq that was put before
	AbsentFires                    // a row with the task in it and no task row is fired
	BareAbsentGoes                 // a bare row without a task row is a leftover row
	FirstHoldsTask                 // the first row of a keyed or immediate task holds the task
	EndedStays                     // an ended row outlives what could ask for another start
	SweepInOne                     // the embedded sweep removes both rows in one batch
	DoubtfulIsSetAside             // after a gap in which ended rows expired, a row that may be of a task that ran is set aside, not fired
	OldIsSetAside                  // an old first row of a keyed task without a task row is not fired
	WakeupFirst                    // the wake-up row is acknowledged before the task row is written
	AnswerAfterBoth                // a call is answered, also with duplicate, after both rows were settled
	HalfIsUnknown                  // half a success is unknown, never refused
	SendAfterRow                   // a message is sent after the task row was written
	KeyReadsFirst                  // a call with a key reads the task row before it puts a wake-up row
	KnowsRequest                   // an ended row of a key names the request that made it, which makes no second task
	RowThenTask                    // who looks for a task reads its wake-up row and then its task row
	InPlaceIfFired                 // a retry stays in place only where this process fires it
	LostIsReadAgain                // owners read again what a lost process changed last
	NamesDispatcher                // an enqueued row names who dispatched it; the rows of one that is gone are sent again
	LeaseFirst                     // a claim is taken back only after its lease, or when it never reached its worker
	NewLifeIsToCome                // a young first row of a key with a seq above the ended row's is a new task to come
	PutBackBySeq                   // a claim puts a held task back on the condition of its message's seq
	CountOfID                      // the shard follows from the count of the id, not from the newest that is known
	FollowupsFirst                 // what follows a task is put before the wake-up row of its end is deleted
	LeftoverCompletes              // who deletes a leftover of an end puts what follows first
	RulesEnd                       // one more than the last
)

var ruleTexts = [RulesEnd]string{
	LiveProtects:       "1a a live task row that names a wake-up row protects it",
	NamesPlace:         "1d what lies at the place that a live task row names is its wake-up row, whatever its seq",
	HigherIsToCome:     "1b a bare row with a seq above the task row's is a move to come",
	PutMustBeSeen:      "1c an unknown put counts as done only when its row is seen",
	PutReplacesLower:   "2a a put replaces a lower seq",
	DeleteBySeq:        "2b a delete is conditional on the seq that was seen",
	CarriesSeq:         "2c the wake-up row of a move carries the seq of the task row to come",
	FreshLife:          "2d the first seq of a key, and that of a move, is above every seq that was put before",
	AbsentFires:        "3a a row with the task in it and no task row is fired, not dropped",
	BareAbsentGoes:     "3b a bare row without a task row is a leftover row and goes",
	FirstHoldsTask:     "3c the first row of a keyed or immediate task holds the task",
	EndedStays:         "4a an ended row outlives what could ask for another start",
	SweepInOne:         "4b the embedded sweep removes both rows in one batch",
	DoubtfulIsSetAside: "4d a row that may be of a task that ran before a gap is set aside, not fired",
	OldIsSetAside:      "4c an old first row of a keyed task without a task row is not fired",
	WakeupFirst:        "5a the wake-up row is acknowledged before the task row is written",
	AnswerAfterBoth:    "5b a call is answered, also with duplicate, after both rows were settled",
	HalfIsUnknown:      "5c half a success is unknown, never refused",
	SendAfterRow:       "5d a message is sent after the task row was written",
	KeyReadsFirst:      "5e a call with a key reads the task row before it puts a wake-up row",
	RowThenTask:        "5f who looks for a task reads its wake-up row and then its task row",
	KnowsRequest:       "5g an ended row of a key names the request that made it, which makes no second task",
	InPlaceIfFired:     "6a a retry stays in place only where this process fires it",
	LostIsReadAgain:    "6b owners read again what a lost process changed last",
	NamesDispatcher:    "7  an enqueued row names its dispatcher; one that is gone is made good for at once",
	LeaseFirst:         "-  a claim is taken back only after its lease, or when it never reached its worker",
	NewLifeIsToCome:    "1e a young first row of a key with a seq above the ended row's is a new task to come",
	PutBackBySeq:       "9  a held task is put back on the condition of its message's seq",
	CountOfID:          "8  the shard follows from the count of the id",
	FollowupsFirst:     "10a what follows a task is put before the wake-up row of its end is deleted",
	LeftoverCompletes:  "10b who deletes a leftover of an end puts what follows first",
}

func (r Rule) String() string { return ruleTexts[r] }

// Rules is a set of rules.
type Rules uint32

// Protocol is the whole protocol.
const Protocol = Rules(1<<RulesEnd - 1)

// Without leaves rules out.
func (s Rules) Without(rules ...Rule) Rules {
	for _, r := range rules {
		s &^= 1 << r
	}
	return s
}

func (s Rules) has(r Rule) bool { return s&(1<<r) != 0 }

// Limits of the model.
const (
	partsMax  = 2
	placesMax = 3
	callsMax  = 3
	msgsMax   = 3
	lateMax   = 3
	endersMax = 3
)

// gone stands for a dispatcher that has crashed since.
const gone = 9

// Kinds of wake-up rows, by what they hold.
const (
	bare     uint8 = iota + 1
	holds          // a scheduled task; of a deliver lambda: not acquired
	holdsEnq       // a task whose task row is enqueued or claimed at once
	acquired       // deliver lambdas
)

// States of a task row.
const (
	absent    uint8 = iota
	scheduled       // with a key, before its first dispatch
	enqueued
	claimed
	retrying // in place: fired by who knows it
	moved    // waits at its wake-up row's place, after a retry or a snooze
	ended
)

// wakeRow is a wake-up row; seq 0 is none.
type wakeRow struct {
	seq, kind, life uint8
	old             uint8 // 1: it was put longer ago than any call lasts
	doubt           uint8 // 1: its task may have been dispatched before a gap
}

// taskRow is the task row. part, at and wseq name its wake-up row.
type taskRow struct {
	state, seq, part, at, wseq uint8
	life, attempt, worker      uint8
	by                         uint8 // who enqueued it: owner+1, or gone
	cancel                     uint8 // 1: a cancel is wanted
}

// lateOp is a write that was sent and may be applied at any later time, or never.
type lateOp struct {
	put, part, at uint8
	row           wakeRow // of a delete just the seq
}

// proc is a process in the middle of something: its program counter and what it remembers. A crash clears it.
type proc struct {
	pc, part, at, plan uint8
	row                wakeRow
	task               taskRow
}

// world is a state of the model. It holds bytes only, so that it can be hashed and compared as it is.
type world struct {
	rows [partsMax][placesMax]wakeRow
	task taskRow
	msgs [msgsMax]uint8 // seqs, sorted; 0 for none
	late [lateMax]lateOp

	calls   [callsMax]proc
	arrival proc
	cancels proc
	changes proc
	owners  [2]proc
	workers [2]proc
	now     uint8 // places up to now are looked at

	enders   [endersMax]ender
	follower follower

	notBefore uint8 // place before which the task must not start, once a change said so
	buffered  uint8 // copies in the inbound buffer

	acked, finished, refused uint8 // lives: told accepted, reached an end, told refused
	expired                  uint8 // ended rows that are gone
	aside                    uint8 // lives that a person has to decide about
	armed, reread            uint8 // memory that a retry in place needs; see prompt
	delivered, crashed       uint8
	left                     budget
	bad                      Property
}

// budget bounds what may happen.
type budget struct {
	crashes, losses, leases, unknowns, refusals, resends, retries, moves, cancels, changes, gaps, holds uint8
}

func (w *world) addMsg(seq uint8) bool {
	if w.msgs[0] != 0 {
		return false
	}
	w.msgs[0] = seq
	for i := 1; i < msgsMax && w.msgs[i-1] > w.msgs[i]; i++ {
		w.msgs[i-1], w.msgs[i] = w.msgs[i], w.msgs[i-1]
	}
	return true
}

func (w *world) dropMsg(i int) {
	copy(w.msgs[1:i+1], w.msgs[:i])
	w.msgs[0] = 0
}

func (w *world) hasMsg(seq uint8) bool {
	for _, m := range w.msgs {
		if m == seq {
			return true
		}
	}
	return false
}

func (l lateOp) key() uint64 {
	return uint64(l.put)<<48 | uint64(l.part)<<40 | uint64(l.at)<<32 | uint64(l.row.seq)<<24 | uint64(l.row.kind)<<16 | uint64(l.row.life)<<8 | 1
}

// addLate puts an op in flight. Two that are the same count as one; false when there is no room.
func (w *world) addLate(op lateOp) bool {
	for _, l := range w.late {
		if l == op {
			return true
		}
	}
	if w.late[0] != (lateOp{}) {
		return false
	}
	w.late[0] = op
	for i := 1; i < lateMax && rank(w.late[i-1]) > rank(w.late[i]); i++ {
		w.late[i-1], w.late[i] = w.late[i], w.late[i-1]
	}
	return true
}

func rank(l lateOp) uint64 {
	if l == (lateOp{}) {
		return 0
	}
	return l.key()
}

func (w *world) dropLate(i int) {
	copy(w.late[1:i+1], w.late[:i])
	w.late[0] = lateOp{}
}

// putWakeup is the op of the same name: true when a row with that seq or a higher one is there afterwards.
func (m *model) putWakeup(w *world, part, at uint8, row wakeRow) (wrote bool) {
	there := &w.rows[part][at]
	if there.seq != 0 && (there.seq >= row.seq || !m.has(PutReplacesLower)) {
		return false
	}
	*there = row
	return true
}

// draw returns the seq of a move, of a change by a user, or of a new task with a key that was used before:
// one above every seq that anything has.
func (m *model) draw(w *world, after uint8) uint8 {
	if !m.has(FreshLife) {
		return after + 1
	}
	most := max(after, w.task.seq, w.task.wseq, w.msgs[msgsMax-1], w.cancels.row.seq, w.changes.row.seq)
	for p := range w.rows {
		for _, r := range w.rows[p] {
			most = max(most, r.seq)
		}
	}
	for _, l := range w.late {
		most = max(most, l.row.seq)
	}
	for _, p := range w.calls {
		most = max(most, p.row.seq)
	}
	for i := range w.owners {
		most = max(most, w.owners[i].row.seq, w.workers[i].row.seq)
	}
	return most + 1
}

// deleteWakeup is the op of the same name.
func (m *model) deleteWakeup(w *world, part, at, seq uint8) {
	if there := &w.rows[part][at]; there.seq == seq || !m.has(DeleteBySeq) {
		*there = wakeRow{}
	}
}

// lazyDelete sends a delete that nobody waits for. Embedded, it is part of the commit.
func (m *model) lazyDelete(w *world, part, at, seq uint8) {
	if m.leftoverDelete(w, part, at, seq) {
		return
	}
	m.sendDelete(w, part, at, seq)
}

func (m *model) sendDelete(w *world, part, at, seq uint8) {
	if m.Embedded {
		m.deleteWakeup(w, part, at, seq)
		return
	}
	w.addLate(lateOp{part: part, at: at, row: wakeRow{seq: seq}}) // without room it is lost, as it may be anyway
}

// conclusion is what a wake-up row and the task row that was read after it mean together.
type conclusion uint8

const (
	leave  conclusion = iota // nothing is certain: the next full scan looks again
	fire                     // not dispatched: put the task row if absent
	follow                   // the task row says what is to be done
	drop                     // a leftover row: delete it, as it was seen
	doubt                    // it may be of a task that ran: set it aside
)

// conclude decides by the table of docs/internals/protocol.md.
func (m *model) conclude(part, at uint8, row wakeRow, t taskRow) conclusion {
	switch {
	case t.state == absent && row.kind == bare:
		if m.has(BareAbsentGoes) {
			return drop
		}
		return leave
	case t.state == absent && (!m.has(AbsentFires) || m.keyed() && row.old == 1 && m.has(OldIsSetAside)):
		return drop
	case t.state == absent && row.doubt == 1 && m.has(DoubtfulIsSetAside):
		return doubt
	case t.state == absent:
		return fire
	case t.state == ended && row.seq > t.seq && row.kind == bare && row.old == 0 && m.has(HigherIsToCome):
		return leave
	case t.state == ended && row.seq > t.seq && row.kind != bare && m.keyed() && row.old == 0 && m.has(NewLifeIsToCome):
		return leave
	case t.state == ended || !m.has(LiveProtects):
		return drop
	case t.part == part && t.at == at && (t.wseq == row.seq || m.has(NamesPlace)):
		return follow
	case row.kind == bare && row.seq > t.seq && row.old == 0 && m.has(HigherIsToCome):
		return leave
	}
	return drop
}
