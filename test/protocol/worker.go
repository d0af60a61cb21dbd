package protocol

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
		v.workers[k].pc, v.workers[k].row, v.workers[k].task = hscReads, wakeRow{}, p.task.mine()
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

// mine returns what a worker knows of its attempt.
func (t *taskRow) mine() taskRow { return taskRow{attempt: t.attempt, life: t.life} }

func (m *model) claim(w *world, k int, out emit) {
	who := workerNames[k]
	for i, s := range w.msgs {
		if s == 0 || i > 0 && w.msgs[i-1] == s {
			continue
		}
		current := w.task.state == enqueued && w.task.seq == s
		if w.left.holds > 0 && (current || !m.has(PutBackBySeq) && w.task.state != absent && w.task.state != ended) {
			m.putsBack(w, i, who, out)
		}
		v := *w
		v.dropMsg(i)
		if !current {
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

// putsBack has a task wait in its row again that a gate holds. Then the message goes, unless hsc crashes.
func (m *model) putsBack(w *world, message int, who string, out emit) {
	v := *w
	v.left.holds--
	v.task.state, v.task.by, v.task.worker = moved, 0, 0
	v.task.seq++
	if v.left.crashes > 0 {
		v := v
		v.left.crashes--
		out(&v, step{who: who, what: "has a held task put back, and hsc crashes before the message is deleted", fault: true})
	}
	v.dropMsg(message)
	out(&v, step{who: who, what: "has a held task put back, and its message deleted"})
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
		self.row.seq = m.draw(w, t.seq)
		row := m.moveRow(self)
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
				v.workers[k].pc, v.workers[k].row.seq = hscReadsBack, row.seq
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

// moveRow returns the bare wake-up row of a move.
func (m *model) moveRow(p *proc) wakeRow {
	row := wakeRow{seq: p.row.seq, kind: bare, life: p.task.life}
	if !m.has(CarriesSeq) {
		row.seq = 1
	}
	return row
}

func (m *model) hscAgain(v *world, k int, out emit) {
	self := &v.workers[k]
	self.pc, self.row, self.task = hscReads, wakeRow{}, self.task.mine()
	out(v, step{who: workerNames[k], what: "reports again, since the task row has moved on"})
}

func (m *model) hscReplaces(w *world, k int, out emit) {
	who := workerNames[k]
	v := *w
	self := &v.workers[k]
	t := self.task
	if self.plan == moves && self.pc == hscReplaces && !m.has(WakeupFirst) { // the wake-up row last
		old := t
		m.putWakeup(&v, old.part, self.at, wakeRow{seq: w.task.seq, kind: bare, life: old.life})
		v.workers[k] = proc{}
		out(&v, step{who: who, what: "moves: hsc puts the new wake-up row"})
		return
	}
	if w.task != t {
		m.hscAgain(&v, k, out)
		return
	}
	if self.row.seq == 0 {
		self.row.seq = m.draw(w, t.seq)
	}
	row := m.moveRow(self)
	v.task.state, v.task.at, v.task.wseq = moved, self.at, row.seq
	v.task.seq = self.row.seq
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
	done := row.seq >= self.row.seq
	if !done && w.task.state != absent {
		done = !m.has(PutMustBeSeen) || m.conclude(self.task.part, self.at, m.moveRow(self), w.task) == drop
	}
	if done {
		self.pc = hscReplaces
		out(&v, step{who: workerNames[k], what: "moves: hsc reads back, and takes the put for done"})
		return
	}
	self.pc = hscWrites
	out(&v, step{who: workerNames[k], what: "moves: hsc reads back, and sees nothing of the put"})
}
