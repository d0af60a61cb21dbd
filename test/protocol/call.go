package protocol

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
	Far      uint8 = iota // without a key, due later: a wake-up row
	Near                  // due now: both rows, enqueued, and a message
	Keyed                 // with a key: both rows, scheduled
	Matched               // due now: both rows, claimed, and pushed
	Repeated              // without a key, due later, by a call that may not be the first: both rows, scheduled
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
		if c.Next && w.task.state == ended && (w.task.life != c.Life || !m.has(KnowsRequest)) {
			self.pc, self.task = callPuts, w.task
			self.row.seq = m.draw(&v, w.task.seq)
			out(&v, step{who: who, what: "sees the ended task row, whose key is free"})
			break
		}
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

// callBy stands for a call that dispatches its own task.
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

// baseOf returns the first seq of the task of a call: after the row that it replaces.
func (m *model) baseOf(w *world, i int) uint8 {
	if p := &w.calls[i]; p.task.state == ended {
		return p.row.seq
	}
	if m.keyed() && m.has(FreshLife) {
		return 1 + 20*uint8(i)
	}
	return 1
}

func (m *model) firstRow(w *world, i int) wakeRow {
	c := &m.Calls[i]
	row := wakeRow{seq: m.baseOf(w, i), kind: holds, life: c.Life}
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
	row := m.firstRow(w, i)
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
	done := row.seq >= m.baseOf(w, i)
	if t.state != absent && !done {
		done = !m.has(PutMustBeSeen) || m.conclude(self.part, self.at, m.firstRow(w, i), t) == drop
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
	replaces := self.task
	if replaces.state == ended && w.task.state == absent {
		*self = proc{pc: callDone}
		out(&v, step{who: who, what: "finds that the ended row has expired, and says so"})
		return
	}
	if w.task.state != absent && w.task != replaces {
		if m.has(WakeupFirst) && m.conclude(self.part, self.at, m.firstRow(w, i), w.task) == drop {
			m.lazyDelete(&v, self.part, self.at, m.baseOf(w, i))
		}
		m.answer(&v, i)
		out(&v, step{who: who, what: "finds a task row in its way, and answers by it"})
		return
	}
	base := m.baseOf(w, i)
	t := taskRow{state: scheduled, seq: base, part: self.part, at: self.at, wseq: base, life: c.Life, attempt: replaces.attempt}
	if c.Kind == Near || c.Kind == Matched {
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

// answer answers by the task row: the same task is a duplicate, and another one has the key.
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

// start begins an attempt of the task row as it was just written.
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
	case w.now < w.notBefore:
		w.bad = TooEarly
	}
}
