package protocol

const (
	ownerReadsTask uint8 = iota + 1
	ownerWrites
	ownerSends
	ownerDrops // what was set aside
)

// owner reads a row of a partition, decides, writes and sends. Two owners may do so at once.
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
	case ownerDrops:
		m.lazyDelete(&v, p.part, p.at, p.row.seq)
		*self = proc{}
		out(&v, step{who: who, what: "deletes the wake-up row of what is set aside"})
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
			if row.kind == holds && !m.keyed() && (row.doubt == 0 || !m.has(DoubtfulIsSetAside)) {
				v.owners[o].pc = ownerWrites // put if absent: a conflict shows the task row
			}
			out(&v, step{who: ownerNames[o], what: "reads a wake-up row", slow: m.slow(w)})
		}
	}
}

// slow reports whether the next read of the task waits for a timeout or a full scan: no process has the task
// in memory with its next step, and no hint tells of it. Only scenarios that check Late need it.
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
	conclusion := m.conclude(self.part, self.at, row, t)
	switch {
	case conclusion == drop:
		m.lazyDelete(&v, self.part, self.at, row.seq)
		*self = proc{}
		out(&v, step{who: who, what: "reads the task row, and deletes the leftover wake-up row"})
	case conclusion == doubt:
		m.setsAside(w, o, out)
	case conclusion == fire:
		self.pc = ownerWrites
		out(&v, step{who: who, what: "reads that there is no task row"})
	case conclusion == follow && m.actsOn(w):
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
	if conclusion == leave || conclusion == follow {
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

// ownerWrites puts the task row of a task that was not dispatched, or replaces the one that is there.
func (m *model) ownerWrites(w *world, o int, out emit) {
	if w.owners[o].row.seq != 0 {
		m.ownerPuts(w, o, out)
		return
	}
	m.ownerReplaces(w, o, out)
}

// wrote is an owner after its write of a task row: it sends the message next, unless it has done so.
func (p *proc) wrote(seq uint8) proc {
	if p.plan&1 == 1 {
		return proc{}
	}
	return proc{pc: ownerSends, task: taskRow{seq: seq}}
}

// ownerPuts puts the task row, if there is none.
func (m *model) ownerPuts(w *world, o int, out emit) {
	if w.task.state != absent {
		m.ownerMeets(w, o, out)
		return
	}
	v := *w
	self := &v.owners[o]
	who, row := ownerNames[o], self.row
	t := taskRow{state: enqueued, seq: row.seq + 1, part: self.part, at: self.at, wseq: row.seq, life: row.life, by: uint8(o) + 1}
	if !m.has(AbsentFires) || m.keyed() && row.old == 1 && m.has(OldIsSetAside) {
		m.lazyDelete(&v, self.part, self.at, row.seq)
		*self = proc{}
		out(&v, step{who: who, what: "sees no task row, and deletes the wake-up row"})
		return
	}
	if !m.has(SendAfterRow) && self.plan&1 == 0 {
		if v.addMsg(t.seq) {
			self.plan |= 1
			out(&v, step{who: who, what: "sends the message"})
		}
		return
	}
	if m.Expiring {
		v := *w
		t := t
		t.state, t.by = ended, 0
		v.task = t
		v.end(t.life)
		m.endDelete(&v, self.part, self.at, row.seq)
		v.owners[o] = proc{}
		out(&v, step{who: who, what: "puts the task row as expired"})
	}
	if m.Match {
		m.pushes(w, t, who, out, func(v *world) { v.owners[o] = proc{} })
	}
	v.task = t
	*self = self.wrote(v.task.seq)
	out(&v, step{who: who, what: "puts the task row as enqueued"})
}

// ownerMeets decides about the task row that is in the way of the one that an owner wants to put.
func (m *model) ownerMeets(w *world, o int, out emit) {
	v := *w
	self := &v.owners[o]
	row, what := self.row, "finds a task row in its way, which lives"
	conclusion := m.conclude(self.part, self.at, row, w.task)
	if conclusion == drop {
		m.lazyDelete(&v, self.part, self.at, row.seq)
		what = "finds a task row in its way, and deletes the leftover wake-up row"
	}
	if conclusion == follow {
		self.pc = ownerReadsTask // in flight from now on: known by its task row
	} else {
		*self = proc{}
	}
	out(&v, step{who: ownerNames[o], what: what})
}

// ownerReplaces replaces the task row that it has read.
func (m *model) ownerReplaces(w *world, o int, out emit) {
	v := *w
	self := &v.owners[o]
	who := ownerNames[o]
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
	if m.Expiring && w.task.attempt == 0 {
		v := *w
		m.ends(&v)
		v.owners[o] = proc{}
		out(&v, step{who: who, what: "replaces the task row as expired"})
	}
	v.armed, v.reread = 0, 0
	v.task.state, v.task.by = enqueued, uint8(o)+1
	v.task.seq++
	v.task.worker = 0
	*self = self.wrote(v.task.seq)
	out(&v, step{who: who, what: "replaces the task row as enqueued"})
}
