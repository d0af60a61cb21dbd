package protocol

// step is one transition: who does what. A fault is a step that need not happen; a slow one waits for a
// timeout or for a full pass.
type step struct {
	who, what   string
	fault, slow bool
}

type emit func(next *world, s step)

var (
	callNames   = [...]string{"call 1", "call 2", "call 3"}
	ownerNames  = [...]string{"owner 1", "owner 2"}
	workerNames = [...]string{"worker 1", "worker 2"}
)

// next calls out with every step that may follow.
func (m *model) next(w *world, out emit) {
	if w.bad != "" {
		return
	}
	for i := range m.Calls {
		m.call(w, i, out)
	}
	m.arrive(w, out)
	m.cancel(w, out)
	for i := range m.Owners {
		if m.Deliver {
			m.courier(w, i, out)
		} else {
			m.owner(w, i, out)
		}
	}
	for i := range m.Workers {
		m.worker(w, i, out)
	}
	m.surroundings(w, out)
}

// surroundings are time, the network, and rows that expire.
func (m *model) surroundings(w *world, out emit) {
	for i, l := range w.late {
		if l == (lateOp{}) {
			continue
		}
		v := *w
		v.dropLate(i)
		lost := v
		what := "a delete that was in flight is applied"
		if l.put == 1 {
			what = "a put that was in flight is applied"
			m.putWakeup(&v, l.part, l.at, l.row)
		} else {
			m.deleteWakeup(&v, l.part, l.at, l.row.seq)
		}
		out(&v, step{who: "store", what: what})
		out(&lost, step{who: "store", what: "a write that was in flight is lost", fault: true})
	}
	for i, s := range w.msgs {
		if s == 0 || w.left.losses == 0 || i > 0 && w.msgs[i-1] == s {
			continue
		}
		v := *w
		v.left.losses--
		again := v
		v.dropMsg(i)
		out(&v, step{who: "queue", what: "a message is lost", fault: true})
		if again.addMsg(s) {
			out(&again, step{who: "queue", what: "a message is doubled", fault: true})
		}
	}
	if w.now < m.Until && !m.delivering(w) {
		v := *w
		v.now++
		out(&v, step{who: "time", what: "the next wake-ups come"})
	}
	m.expire(w, out)
}

// delivering keeps time from passing while a call of a deliver lambda is under way, which no row would
// refuse later.
func (m *model) delivering(w *world) bool {
	if !m.Deliver {
		return false
	}
	for i := range m.Calls {
		if w.calls[i].pc != callDone {
			return true
		}
	}
	return false
}

// expire removes the ended row when its retention is over.
func (m *model) expire(w *world, out emit) {
	if !m.Expires || w.task.state != ended || m.has(EndedStays) && !m.settled(w) {
		return
	}
	v := *w
	t := v.task
	v.task = taskRow{}
	v.expired |= 1 << t.life
	for p := range v.rows {
		for at := range v.rows[p] {
			if r := &v.rows[p][at]; r.seq != 0 && !w.underWay(uint8(p), uint8(at)) {
				r.old = 1
			}
		}
	}
	for i := range v.owners {
		if p := &v.owners[i]; p.row.seq != 0 && !w.underWay(p.part, p.at) {
			p.row.old = 1 // a row tells its age by itself
		}
	}
	what := "the ended row expires"
	if m.Sweeps {
		what = "the sweep removes the ended row and its wake-up row"
		if m.has(SweepInOne) {
			m.deleteWakeup(&v, t.part, t.at, v.rows[t.part][t.at].seq)
		} else {
			what = "the sweep removes the ended row first"
			v.addLate(lateOp{part: t.part, at: t.at, row: wakeRow{seq: t.wseq}})
		}
	}
	out(&v, step{who: "time", what: what})
}

// underWay reports whether a call that put the row there is not over: such a row is young.
func (w *world) underWay(part, at uint8) bool {
	for _, c := range w.calls {
		if c.pc != 0 && c.pc != callDone && c.part == part && c.at == at {
			return true
		}
	}
	return false
}

// settled says what retention stands for: full passes have dropped what lay behind now and held that task,
// no copy of it is in the buffer or in flight, and no process is in the middle of something that it began
// before.
func (m *model) settled(w *world) bool {
	life, t := w.task.life, &w.task
	for p := range w.rows {
		for at, r := range w.rows[p] {
			swept := m.Sweeps && uint8(p) == t.part && uint8(at) == t.at
			if r.seq != 0 && !swept && (r.kind != bare && r.life == life || r.kind == bare && uint8(at) <= w.now) {
				return false
			}
		}
	}
	for _, l := range w.late {
		if l.put == 1 && l.row.kind != bare && l.row.life == life {
			return false
		}
	}
	for i, c := range w.calls {
		if c.plan&began != 0 || c.pc != 0 && c.pc != callDone && m.Calls[i].Life == life {
			return false
		}
	}
	for _, p := range w.owners {
		if p.plan&began != 0 || p.row.seq != 0 && p.row.kind != bare && p.row.life == life {
			return false
		}
	}
	if c := &w.cancels; c.plan&began != 0 || c.row.seq != 0 && c.row.life == life {
		return false
	}
	return w.buffered == 0 && w.arrival.pc == 0
}

// ---- calls

const (
	callReads uint8 = iota + 1
	callPuts
	callPutsTask
	callSends
	callReadsBack
	callDone
)

// Kinds of calls.
const (
	Far     uint8 = iota // without a key, due later: a wake-up row
	Near                 // due now: both rows, enqueued, and a message
	Keyed                // with a key: both rows, scheduled
	Matched              // due now: both rows, claimed, and pushed
)

func (m *model) partOf(part, stale uint8) uint8 {
	if m.has(CountOfID) {
		return part
	}
	return stale
}

func (m *model) call(w *world, i int, out emit) {
	c, p, who := &m.Calls[i], &w.calls[i], callNames[i]
	v := *w
	self := &v.calls[i]
	switch p.pc {
	case 0:
		if !m.mayBegin(w, i) {
			return
		}
		v.refused &^= 1 << c.Life // from here on it may be accepted
		*self = proc{pc: callPuts, part: m.partOf(c.Part, c.Stale), at: c.At}
		if c.Kind == Keyed && m.has(KeyReadsFirst) {
			self.pc = callReads
		} else if c.Kind != Far && !m.has(WakeupFirst) {
			self.pc = callPutsTask
		}
		out(&v, step{who: who, what: "begins"})
		return
	case callDone:
		return
	case callReads:
		if w.task.state != absent {
			m.answer(&v, i)
			out(&v, step{who: who, what: "sees the task row and answers by it"})
			return
		}
		self.pc = callPuts
		if !m.has(WakeupFirst) {
			self.pc = callPutsTask
		}
		out(&v, step{who: who, what: "sees no task row"})
	case callPuts:
		m.callPuts(w, i, out)
	case callReadsBack:
		m.callReadsBack(w, i, out)
	case callPutsTask:
		m.callPutsTask(w, i, out)
	case callSends:
		if !v.addMsg(p.task.seq) {
			return
		}
		*self = proc{pc: callDone}
		out(&v, step{who: who, what: "sends the message"})
	}
	if w.left.crashes > 0 {
		v := *w
		v.left.crashes--
		v.calls[i] = proc{pc: callDone}
		if v.task.by == callBy {
			v.task.by = gone
		}
		out(&v, step{who: who, what: "crashes", fault: true})
	}
}

// callBy is the dispatcher that a call is.
const callBy = 8

func (m *model) mayBegin(w *world, i int) bool {
	c := &m.Calls[i]
	if c.AfterCall > 0 && w.calls[c.AfterCall-1].pc != callDone {
		return false
	}
	if m.has(EndedStays) && w.expired&(1<<c.Life) != 0 {
		return false // it comes again later than anything does
	}
	return (c.AfterExpiry == 0 || w.expired != 0) && (c.AfterEnd == 0 || w.finished != 0)
}

func (m *model) baseOf(i int) uint8 {
	if m.keyed() && m.has(FreshLife) {
		return 1 + 20*uint8(i)
	}
	return 1
}

func (m *model) firstRow(i int) wakeRow {
	c := &m.Calls[i]
	row := wakeRow{seq: m.baseOf(i), kind: holds, life: c.Life}
	switch {
	case c.Kind != Far && !m.has(FirstHoldsTask):
		row.kind = bare
	case c.Kind == Near, c.Kind == Matched:
		row.kind = holdsEnq
	}
	return row
}

func (m *model) callPuts(w *world, i int, out emit) {
	c, who := &m.Calls[i], callNames[i]
	v := *w
	self := &v.calls[i]
	row := m.firstRow(i)
	wrote := m.putWakeup(&v, self.part, self.at, row)
	what := "puts its wake-up row"
	if !wrote {
		what = "finds a wake-up row in its place"
	}
	m.callAfterPut(&v, i, wrote)
	if m.Embedded && self.pc == callPutsTask { // one commit
		m.callPutsTask(&v, i, out)
		return
	}
	out(&v, step{who: who, what: what})
	if w.left.unknowns > 0 && c.Kind == Far {
		v := *w
		v.left.unknowns--
		if v.addLate(lateOp{put: 1, part: self.part, at: self.at, row: row}) {
			v.calls[i].pc = callReadsBack
			out(&v, step{who: who, what: "puts its wake-up row, and the outcome is unknown", fault: true})
		}
	}
}

// callAfterPut goes on once a wake-up row is there.
func (m *model) callAfterPut(w *world, i int, wrote bool) {
	c, self := &m.Calls[i], &w.calls[i]
	switch {
	case c.Kind == Far, !wrote && !m.has(AnswerAfterBoth):
		w.accept(c.Life)
		*self = proc{pc: callDone}
	case m.has(WakeupFirst):
		if !m.has(AnswerAfterBoth) {
			w.accept(c.Life)
		}
		self.pc = callPutsTask
	default:
		m.callStored(w, i)
	}
}

func (w *world) accept(life uint8) { w.acked |= 1 << life }

func (m *model) callReadsBack(w *world, i int, out emit) {
	v := *w
	self := &v.calls[i]
	row, t := w.rows[self.part][self.at], w.task
	done := row.seq >= m.baseOf(i)
	if t.state != absent && !done {
		done = !m.has(PutMustBeSeen) || m.conclude(self.part, self.at, m.firstRow(i), t) == drop
	}
	if done {
		m.callAfterPut(&v, i, true)
		out(&v, step{who: callNames[i], what: "reads back, and takes the put for done"})
		return
	}
	self.pc = callPuts
	out(&v, step{who: callNames[i], what: "reads back, and sees nothing of the put"})
}

func (m *model) callPutsTask(w *world, i int, out emit) {
	c, who := &m.Calls[i], callNames[i]
	v := *w
	self := &v.calls[i]
	if w.task.state != absent {
		if m.has(WakeupFirst) && m.conclude(self.part, self.at, m.firstRow(i), w.task) == drop {
			m.lazyDelete(&v, self.part, self.at, m.baseOf(i))
		}
		m.answer(&v, i)
		out(&v, step{who: who, what: "finds a task row in its way, and answers by it"})
		return
	}
	t := taskRow{state: scheduled, seq: m.baseOf(i), part: self.part, at: self.at, wseq: m.baseOf(i), life: c.Life}
	if c.Kind != Keyed {
		t.state, t.by = enqueued, callBy
		t.seq++
	}
	if c.Kind == Matched {
		m.pushes(w, t, who, out, func(v *world) {
			v.calls[i] = proc{pc: callDone}
			v.accept(c.Life)
		})
	}
	v.task = t
	self.task = t
	if m.has(WakeupFirst) {
		m.callStored(&v, i)
	} else {
		self.pc = callPuts
	}
	out(&v, step{who: who, what: "puts the task row"})
	if w.left.refusals > 0 {
		v := *w
		v.left.refusals--
		if !m.has(HalfIsUnknown) {
			v.refused |= 1 << c.Life
		}
		v.calls[i] = proc{pc: callDone}
		out(&v, step{who: who, what: "has its task row throttled, and answers", fault: true})
	}
}

// callStored answers a call whose rows are both there.
func (m *model) callStored(w *world, i int) {
	c, self := &m.Calls[i], &w.calls[i]
	w.accept(c.Life)
	if c.Kind == Near {
		*self = proc{pc: callSends, task: taskRow{seq: self.task.seq}}
	} else {
		*self = proc{pc: callDone}
	}
}

// answer says what the task row says: duplicate of one's own task, or that the key is another's.
func (m *model) answer(w *world, i int) {
	life := m.Calls[i].Life
	if w.task.life == life {
		w.accept(life)
	} else {
		w.refused |= 1 << life
	}
	w.calls[i] = proc{pc: callDone}
}

// pushes stores a task as claimed by a worker that is free, and pushes it; a crash may lose the push.
func (m *model) pushes(w *world, t taskRow, who string, out emit, done func(*world)) {
	for k := range m.Workers {
		if w.workers[k].pc != 0 {
			continue
		}
		v := *w
		v.task = t
		v.task.state, v.task.worker, v.task.attempt = claimed, uint8(k), t.attempt+1
		v.task.by = 0
		done(&v)
		lost := v
		v.start(k)
		out(&v, step{who: who, what: "puts the task row as claimed, and pushes the task to " + workerNames[k]})
		if lost.left.crashes > 0 {
			lost.left.crashes--
			out(&lost, step{who: who, what: "puts the task row as claimed, and the push is lost", fault: true})
		}
	}
}

// start is the begin of an attempt: of the task row as it was just written.
func (w *world) start(k int) {
	t := &w.task
	w.workers[k] = proc{pc: workerRuns, task: taskRow{attempt: t.attempt, life: t.life}}
	switch other := &w.workers[1-k]; {
	case w.finished&(1<<t.life) != 0:
		w.bad = StartAfterEnd
	case w.refused&(1<<t.life) != 0 && w.acked&(1<<t.life) == 0:
		w.bad = StartAfterRefusal
	case other.pc == workerRuns:
		w.bad = TwoAttempts
	}
}

// ---- the inbound buffer

// arrive takes a task out of the buffer: puts its row, then looks whether it was overtaken.
func (m *model) arrive(w *world, out emit) {
	const who = "consumer"
	v := *w
	self := &v.arrival
	row := wakeRow{seq: 1, kind: holds}
	switch w.arrival.pc {
	case 0:
		if w.buffered == 0 {
			return
		}
		*self = proc{pc: 1, at: m.Calls[0].At}
		out(&v, step{who: who, what: "receives the task"})
		return
	case 1:
		m.putWakeup(&v, 0, self.at, row)
		self.pc = 2
		out(&v, step{who: who, what: "puts the wake-up row"})
	case 2:
		what := "sees that nothing has overtaken it, and deletes its message"
		if t := w.task; t.state != absent && m.conclude(0, self.at, row, t) == drop {
			m.lazyDelete(&v, 0, self.at, row.seq)
			what = "was overtaken: it takes its row back and deletes its message"
		}
		v.arrival = proc{}
		v.buffered--
		out(&v, step{who: who, what: what})
	}
	if w.left.crashes > 0 {
		v := *w
		v.left.crashes--
		v.arrival = proc{}
		out(&v, step{who: who, what: "crashes, and the message comes again", fault: true})
	}
}

// ---- cancel

const (
	cancelReadsRow uint8 = iota + 1
	cancelReadsTask
	cancelWrites
	cancelLooks // for a row that came out of the buffer meanwhile
)

func (m *model) cancel(w *world, out emit) {
	const who = "cancel"
	v := *w
	self := &v.cancels
	first, then := cancelReadsRow, cancelReadsTask
	if !m.has(RowThenTask) {
		first, then = then, first
	}
	switch w.cancels.pc {
	case 0:
		if w.left.cancels == 0 || w.acked&1 == 0 {
			return
		}
		v.left.cancels--
		*self = proc{pc: first, part: m.partOf(m.Calls[0].Part, 1), at: m.Calls[0].At}
		out(&v, step{who: who, what: "begins"})
		return
	case cancelReadsRow:
		self.row = w.rows[self.part][self.at]
		self.pc = after(first, cancelReadsRow, then)
		out(&v, step{who: who, what: "looks for the wake-up row"})
	case cancelReadsTask:
		self.task = w.task
		self.pc = after(first, cancelReadsTask, then)
		out(&v, step{who: who, what: "looks for the task row"})
	case cancelWrites:
		m.cancelWrites(w, first, out)
	case cancelLooks:
		if w.rows[self.part][self.at].seq != 0 {
			m.lazyDelete(&v, self.part, self.at, w.rows[self.part][self.at].seq)
		}
		*self = proc{}
		out(&v, step{who: who, what: "looks for a wake-up row, and is done"})
	}
	if w.left.crashes > 0 {
		v := *w
		v.left.crashes--
		v.cancels = proc{}
		out(&v, step{who: who, what: "crashes", fault: true})
	}
}

func after(first, now, then uint8) uint8 {
	if now == first {
		return then
	}
	return cancelWrites
}

func (m *model) cancelWrites(w *world, first uint8, out emit) {
	const who = "cancel"
	v := *w
	self := &v.cancels
	seen, row := self.task, self.row
	again := func() {
		self.pc, self.row, self.task = first, wakeRow{}, taskRow{}
		out(&v, step{who: who, what: "finds that the task has moved on, and looks again"})
	}
	tombstone := taskRow{state: ended, seq: row.seq + 1, part: self.part, at: self.at, wseq: row.seq, life: row.life}
	switch {
	case seen.state == absent && row.seq == 0 && !m.Buffered:
		if w.acked&1 != 0 && w.finished&1 == 0 {
			v.bad = FalseAnswer
		}
		*self = proc{}
		out(&v, step{who: who, what: "says that there is no such task"})
	case seen.state == absent && w.task.state != absent:
		again()
	case seen.state == absent && row.seq == 0:
		v.task = tombstone
		v.task.seq, v.task.wseq = 1, 1
		v.end(0)
		self.pc, self.row, self.task = cancelLooks, wakeRow{}, taskRow{}
		out(&v, step{who: who, what: "leaves a tombstone"})
	case seen.state == absent:
		v.task = tombstone
		v.end(row.life)
		m.lazyDelete(&v, self.part, self.at, row.seq)
		*self = proc{}
		out(&v, step{who: who, what: "puts the task row as cancelled"})
	case seen.state == ended:
		*self = proc{}
		out(&v, step{who: who, what: "is too late"})
	case w.task != seen:
		again()
	case seen.state == claimed:
		v.task.cancel = 1
		v.task.seq++
		*self = proc{}
		out(&v, step{who: who, what: "notes in the task row that it is wanted"})
	default:
		m.ends(&v)
		*self = proc{}
		out(&v, step{who: who, what: "replaces the task row as cancelled"})
	}
}

// began marks what began before a task ended. It is over before the ended row expires.
const began = 2

func (w *world) end(life uint8) {
	w.finished |= 1 << life
	mark := func(p *proc) {
		if p.pc != 0 && p.pc != callDone {
			p.plan |= began
		}
	}
	for i := range w.calls {
		mark(&w.calls[i])
	}
	for i := range w.owners {
		mark(&w.owners[i])
	}
	mark(&w.cancels)
}

// ends replaces the task row by its end and deletes the wake-up row that it names.
func (m *model) ends(w *world) {
	t := &w.task
	*t = taskRow{state: ended, seq: t.seq + 1, part: t.part, at: t.at, wseq: t.wseq, life: t.life}
	w.end(t.life)
	m.lazyDelete(w, t.part, t.at, t.wseq)
}

// ---- owners

const (
	ownerReadsTask uint8 = iota + 1
	ownerWrites
	ownerSends
)

// owner looks at a row of a partition, decides, writes and sends. Two of them look at everything at once.
func (m *model) owner(w *world, o int, out emit) {
	who := ownerNames[o]
	p := &w.owners[o]
	v := *w
	self := &v.owners[o]
	switch p.pc {
	case 0:
		m.look(w, o, out)
		return
	case ownerReadsTask:
		m.ownerDecides(w, o, out)
	case ownerWrites:
		m.ownerWrites(w, o, out)
	case ownerSends:
		if !v.addMsg(p.task.seq) {
			return
		}
		*self = proc{}
		out(&v, step{who: who, what: "sends the message"})
	}
	if w.left.crashes > 0 {
		v := *w
		v.left.crashes--
		v.owners[o] = proc{}
		v.armed = 0
		if m.has(LostIsReadAgain) {
			v.reread = 1
		}
		if v.task.by == uint8(o)+1 {
			v.task.by = gone
		}
		out(&v, step{who: who, what: "crashes", fault: true})
	}
}

func (m *model) look(w *world, o int, out emit) {
	for p := range m.Parts {
		for at := uint8(0); at <= w.now; at++ {
			row := w.rows[p][at]
			if row.seq == 0 {
				continue
			}
			v := *w
			v.owners[o] = proc{pc: ownerReadsTask, part: uint8(p), at: at, row: row}
			if row.kind == holds && !m.keyed() {
				v.owners[o].pc = ownerWrites // put if absent: a conflict shows the task row
			}
			out(&v, step{who: ownerNames[o], what: "reads a wake-up row", slow: m.slow(w)})
		}
	}
}

// slow reports whether a look at the task waits for a timeout or a full pass: where no process has it in
// memory with its next step, and nothing else tells of it. Only prompt scenarios ask.
func (m *model) slow(w *world) bool {
	switch w.task.state {
	case enqueued:
		return w.task.by != gone || !m.has(NamesDispatcher)
	case retrying:
		return w.armed == 0 && w.reread == 0
	}
	return false
}

func (m *model) ownerDecides(w *world, o int, out emit) {
	v := *w
	self := &v.owners[o]
	who := ownerNames[o]
	row, t := self.row, w.task
	verdict := m.conclude(self.part, self.at, row, t)
	switch {
	case verdict == drop:
		m.lazyDelete(&v, self.part, self.at, row.seq)
		*self = proc{}
		out(&v, step{who: who, what: "reads the task row, and deletes the wake-up row as a remnant"})
	case verdict == fire:
		self.pc = ownerWrites
		out(&v, step{who: who, what: "reads that there is no task row"})
	case verdict == follow && m.actsOn(w):
		if m.costsResend(w) {
			if w.left.resends == 0 {
				break
			}
			v.left.resends--
		}
		self.pc, self.task = ownerWrites, t
		self.row = wakeRow{}
		out(&v, step{who: who, what: "reads the task row, and has to act on it"})
		return
	}
	if verdict == leave || verdict == follow {
		v := *w
		v.owners[o] = proc{}
		out(&v, step{who: who, what: "reads the task row, and leaves both"})
	}
}

// actsOn reports whether the task row asks for something now.
func (m *model) actsOn(w *world) bool {
	t := &w.task
	if t.state != claimed || !m.has(LeaseFirst) {
		return true
	}
	p := &w.workers[t.worker]
	return p.pc == 0 || p.task.attempt != t.attempt // the lease is over, or the claim never reached its worker
}

// costsResend reports whether a message for the row is, or will be, on the queue: a timer may be too early.
func (m *model) costsResend(w *world) bool {
	if w.task.state != enqueued {
		return false
	}
	for _, p := range w.owners {
		if p.pc == ownerSends && p.task.seq == w.task.seq {
			return true
		}
	}
	for _, p := range w.calls {
		if p.pc == callSends && p.task.seq == w.task.seq {
			return true
		}
	}
	return w.hasMsg(w.task.seq)
}

func (m *model) ownerWrites(w *world, o int, out emit) {
	v := *w
	self := &v.owners[o]
	who := ownerNames[o]
	by := uint8(o) + 1
	sent := self.plan&1 == 1
	done := func() {
		if sent {
			*self = proc{}
		} else {
			*self = proc{pc: ownerSends, task: taskRow{seq: v.task.seq}}
		}
	}
	if row := self.row; row.seq != 0 { // not dispatched: put if absent
		t := taskRow{state: enqueued, seq: row.seq + 1, part: self.part, at: self.at, wseq: row.seq, life: row.life, by: by}
		if w.task.state != absent {
			what := "finds a task row in its way, which lives"
			if m.conclude(self.part, self.at, row, w.task) == drop {
				m.lazyDelete(&v, self.part, self.at, row.seq)
				what = "finds a task row in its way, and deletes the wake-up row as a remnant"
			}
			if m.conclude(self.part, self.at, row, w.task) == follow {
				self.pc = ownerReadsTask // in flight from now on: known by its task row
			} else {
				*self = proc{}
			}
			out(&v, step{who: who, what: what})
			return
		}
		if !m.has(AbsentFires) || m.keyed() && row.old == 1 && m.has(OldIsSetAside) {
			m.lazyDelete(&v, self.part, self.at, row.seq)
			*self = proc{}
			out(&v, step{who: who, what: "sees no task row, and deletes the wake-up row"})
			return
		}
		if !m.has(SendAfterRow) && !sent {
			if v.addMsg(t.seq) {
				self.plan |= 1
				out(&v, step{who: who, what: "sends the message"})
			}
			return
		}
		if m.Match {
			m.pushes(w, t, who, out, func(v *world) { v.owners[o] = proc{} })
		}
		v.task = t
		done()
		out(&v, step{who: who, what: "puts the task row as enqueued"})
		return
	}
	if w.task != self.task {
		*self = proc{}
		out(&v, step{who: who, what: "finds that the task row has moved on"})
		return
	}
	if w.task.cancel == 1 {
		m.ends(&v)
		*self = proc{}
		out(&v, step{who: who, what: "replaces the task row as cancelled, since that was wanted"})
		return
	}
	v.armed, v.reread = 0, 0
	v.task.state, v.task.by = enqueued, by
	v.task.seq++
	v.task.worker = 0
	done()
	out(&v, step{who: who, what: "replaces the task row as enqueued"})
}

// ---- workers, and hsc for them

const (
	workerRuns uint8 = iota + 1
	hscReads
	hscWrites
	hscReplaces
	hscReadsBack
)

// Plans of a result.
const (
	succeeds uint8 = iota + 1
	retriesHere
	moves
)

func (m *model) worker(w *world, k int, out emit) {
	who := workerNames[k]
	p := &w.workers[k]
	if p.pc != 0 && w.left.leases > 0 {
		v := *w
		v.left.leases--
		v.workers[k] = proc{}
		out(&v, step{who: who, what: "loses its lease, and its attempt with it", fault: true})
	}
	if p.pc > hscReads && w.left.crashes > 0 {
		v := *w
		v.left.crashes--
		v.workers[k].pc, v.workers[k].task = hscReads, p.task.mine()
		v.armed = 0
		out(&v, step{who: who, what: "reports again, since hsc crashed", fault: true})
	}
	switch p.pc {
	case 0:
		m.claim(w, k, out)
	case workerRuns:
		m.result(w, k, out)
	case hscReads:
		v := *w
		t := w.task
		if t.state != claimed || t.worker != uint8(k) || t.attempt != p.task.attempt || t.life != p.task.life {
			v.workers[k] = proc{}
			out(&v, step{who: who, what: "is told that its attempt is not the newest"})
			return
		}
		self := &v.workers[k]
		self.task, self.pc = t, hscWrites
		if t.cancel == 1 {
			self.plan = succeeds
		}
		out(&v, step{who: who, what: "reports, and hsc reads the task row"})
	case hscWrites:
		m.hscWrites(w, k, out)
	case hscReplaces:
		m.hscReplaces(w, k, out)
	case hscReadsBack:
		m.hscReadsBack(w, k, out)
	}
}

// mine is what a worker knows of its attempt.
func (t *taskRow) mine() taskRow { return taskRow{attempt: t.attempt, life: t.life} }

func (m *model) claim(w *world, k int, out emit) {
	who := workerNames[k]
	for i, s := range w.msgs {
		if s == 0 || i > 0 && w.msgs[i-1] == s {
			continue
		}
		v := *w
		v.dropMsg(i)
		if w.task.state != enqueued || w.task.seq != s {
			out(&v, step{who: who, what: "has a message refused as stale"})
			continue
		}
		v.task.state, v.task.worker = claimed, uint8(k)
		v.task.seq++
		v.task.attempt++
		v.task.by = 0
		lost := v
		v.start(k)
		out(&v, step{who: who, what: "claims the task and starts"})
		if lost.left.crashes > 0 {
			lost.left.crashes--
			out(&lost, step{who: who, what: "has the task claimed, and never hears of it: hsc crashed", fault: true})
		}
	}
}

func (m *model) result(w *world, k int, out emit) {
	who := workerNames[k]
	v := *w
	v.workers[k].pc, v.workers[k].plan = hscReads, succeeds
	out(&v, step{who: who, what: "succeeds"})
	if w.left.retries > 0 {
		v := *w
		v.left.retries--
		v.workers[k].pc, v.workers[k].plan = hscReads, retriesHere
		if m.has(InPlaceIfFired) && m.Outside {
			v.workers[k].plan, v.workers[k].at = moves, min(w.now+1, m.Until)
		}
		out(&v, step{who: who, what: "fails, to be tried again within moments"})
	}
	if w.left.moves > 0 {
		for at := range m.Places {
			if w.left.moves == 1 && m.LastMove != 0 && at != m.LastMove-1 {
				continue
			}
			v := *w
			v.left.moves--
			v.workers[k].pc, v.workers[k].plan, v.workers[k].at = hscReads, moves, at
			out(&v, step{who: who, what: "fails, to be tried again later"})
		}
	}
}

func (m *model) hscWrites(w *world, k int, out emit) {
	who := workerNames[k]
	v := *w
	self := &v.workers[k]
	t := self.task
	switch {
	case self.plan == moves && self.at != t.at && m.has(WakeupFirst):
		row := m.moveRow(&t)
		m.putWakeup(&v, t.part, self.at, row)
		self.pc = hscReplaces
		if m.Embedded {
			m.hscReplaces(&v, k, out)
			return
		}
		out(&v, step{who: who, what: "moves: hsc puts the new wake-up row"})
		if w.left.unknowns > 0 {
			v := *w
			v.left.unknowns--
			if v.addLate(lateOp{put: 1, part: t.part, at: self.at, row: row}) {
				v.workers[k].pc = hscReadsBack
				out(&v, step{who: who, what: "moves: hsc puts the new wake-up row, and the outcome is unknown", fault: true})
			}
		}
	case self.pc == hscWrites && w.task != t:
		m.hscAgain(&v, k, out)
	case self.plan == succeeds:
		m.ends(&v)
		v.workers[k] = proc{}
		out(&v, step{who: who, what: "ends: hsc replaces the task row"})
	case self.plan == retriesHere || self.at == t.at:
		v.task.state = retrying
		if self.plan == moves {
			v.task.state = moved
		}
		v.task.seq++
		v.task.worker = 0
		v.workers[k] = proc{}
		v.armed = 1
		if m.Outside {
			v.armed = 0
		}
		out(&v, step{who: who, what: "retries in place: hsc replaces the task row"})
	default: // the task row first
		m.hscReplaces(w, k, out)
	}
}

// moveRow is the bare wake-up row of a move.
func (m *model) moveRow(t *taskRow) wakeRow {
	row := wakeRow{seq: t.seq + 1, kind: bare, life: t.life}
	if !m.has(CarriesSeq) {
		row.seq = 1
	}
	return row
}

func (m *model) hscAgain(v *world, k int, out emit) {
	self := &v.workers[k]
	self.pc, self.task = hscReads, self.task.mine()
	out(v, step{who: workerNames[k], what: "reports again, since the task row has moved on"})
}

func (m *model) hscReplaces(w *world, k int, out emit) {
	who := workerNames[k]
	v := *w
	self := &v.workers[k]
	t := self.task
	if self.plan == moves && self.pc == hscReplaces && !m.has(WakeupFirst) { // the wake-up row last
		old := t
		m.putWakeup(&v, old.part, self.at, wakeRow{seq: old.seq + 1, kind: bare, life: old.life})
		v.workers[k] = proc{}
		out(&v, step{who: who, what: "moves: hsc puts the new wake-up row"})
		return
	}
	if w.task != t {
		m.hscAgain(&v, k, out)
		return
	}
	row := m.moveRow(&t)
	v.task.state, v.task.at, v.task.wseq = moved, self.at, row.seq
	v.task.seq++
	v.task.worker = 0
	m.lazyDelete(&v, t.part, t.at, t.wseq)
	if m.has(WakeupFirst) {
		v.workers[k] = proc{}
	} else {
		self.pc = hscReplaces
	}
	out(&v, step{who: who, what: "moves: hsc replaces the task row"})
}

func (m *model) hscReadsBack(w *world, k int, out emit) {
	v := *w
	self := &v.workers[k]
	row := w.rows[self.task.part][self.at]
	done := row.seq > self.task.seq
	if !done && w.task.state != absent {
		done = !m.has(PutMustBeSeen) || m.conclude(self.task.part, self.at, m.moveRow(&self.task), w.task) == drop
	}
	if done {
		self.pc = hscReplaces
		out(&v, step{who: workerNames[k], what: "moves: hsc reads back, and takes the put for done"})
		return
	}
	self.pc = hscWrites
	out(&v, step{who: workerNames[k], what: "moves: hsc reads back, and sees nothing of the put"})
}

// ---- deliver lambdas: no task row

const (
	courierAcquires uint8 = iota + 1
	courierSends
	courierDeletes
)

func (m *model) courier(w *world, o int, out emit) {
	who := ownerNames[o]
	p := &w.owners[o]
	v := *w
	self := &v.owners[o]
	switch p.pc {
	case 0:
		for part := range m.Parts {
			for at := uint8(0); at <= w.now; at++ {
				row := w.rows[part][at]
				if row.seq == 0 || row.kind == acquired && m.inHand(w, uint8(part), at) {
					continue
				}
				v := *w
				v.owners[o] = proc{pc: courierAcquires, part: uint8(part), at: at, row: row}
				out(&v, step{who: who, what: "reads a wake-up row"})
			}
		}
		return
	case courierAcquires:
		if w.rows[p.part][p.at] != p.row {
			*self = proc{}
			out(&v, step{who: who, what: "finds that another has acquired the task"})
			return
		}
		v.rows[p.part][p.at] = wakeRow{seq: p.row.seq + 1, kind: acquired}
		self.pc, self.row = courierSends, v.rows[p.part][p.at]
		out(&v, step{who: who, what: "acquires the task"})
	case courierSends:
		if v.delivered++; v.delivered > 1 && v.crashed == 0 {
			v.bad = Twice
		}
		self.pc = courierDeletes
		out(&v, step{who: who, what: "sends the task"})
	case courierDeletes:
		m.deleteWakeup(&v, p.part, p.at, p.row.seq)
		v.end(0)
		*self = proc{}
		out(&v, step{who: who, what: "deletes the wake-up row"})
	}
	if w.left.crashes > 0 {
		v := *w
		v.left.crashes--
		v.crashed = 1
		v.owners[o] = proc{}
		out(&v, step{who: who, what: "crashes", fault: true})
	}
}

// inHand reports whether a process that lives has acquired the row.
func (m *model) inHand(w *world, part, at uint8) bool {
	for _, p := range w.owners {
		if p.pc > courierAcquires && p.part == part && p.at == at && p.row == w.rows[part][at] {
			return true
		}
	}
	return false
}
