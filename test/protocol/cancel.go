package protocol

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
		if w.acked&^w.finished&^w.aside&1 != 0 { // what is set aside is found where that is
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
		m.endDelete(&v, self.part, self.at, row.seq)
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
	mark(&w.changes)
}

// ends replaces the task row by an ended one and deletes the wake-up row that it names.
func (m *model) ends(w *world) {
	t := &w.task
	*t = taskRow{state: ended, seq: t.seq + 1, part: t.part, at: t.at, wseq: t.wseq, life: t.life}
	w.end(t.life)
	m.endDelete(w, t.part, t.at, t.wseq)
}
