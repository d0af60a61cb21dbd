package protocol

const (
	changeReadsRow uint8 = iota + 1
	changeReadsTask
	changeWrites
	changePutsRow
	changeReplaces
)

// Changes that users make of a task that is there.
const (
	Reschedules uint8 = iota + 1 // to the place ChangeTo
	Redrives                     // an ended task starts anew, as the next life, at ChangeTo
)

// change reads the task and replaces its row, each by one conditional write. Of a task that is a wake-up row
// alone it first puts a task row, which refuses the dispatch of that wake-up row.
func (m *model) change(w *world, out emit) {
	const who = "change"
	p := &w.changes
	v := *w
	self := &v.changes
	switch p.pc {
	case 0:
		if w.left.changes == 0 || w.acked&1 == 0 {
			return
		}
		v.left.changes--
		*self = proc{pc: changeReadsRow, part: m.Calls[0].Part, at: m.Calls[0].At}
		out(&v, step{who: who, what: "begins"})
		return
	case changeReadsRow:
		self.row, self.pc = w.rows[p.part][p.at], changeReadsTask
		out(&v, step{who: who, what: "looks for the wake-up row"})
	case changeReadsTask:
		self.task, self.pc = w.task, changeWrites
		out(&v, step{who: who, what: "looks for the task row"})
	case changeWrites:
		m.changeWrites(w, out)
	case changePutsRow:
		m.changePutsRow(w, out)
	case changeReplaces:
		m.changeReplaces(w, out)
	}
	if w.left.crashes > 0 {
		v := *w
		v.left.crashes--
		v.changes = proc{}
		out(&v, step{who: who, what: "crashes", fault: true})
	}
}

// changeWrites decides by what was read.
func (m *model) changeWrites(w *world, out emit) {
	const who = "change"
	v := *w
	self := &v.changes
	seen, row := self.task, self.row
	isEnd := seen.state == ended
	switch {
	case seen.state == absent && (row.seq == 0 || row.kind != holds):
		*self = proc{}
		out(&v, step{who: who, what: "finds nothing that it may change"})
	case seen.state == absent && w.task.state != absent:
		self.pc, self.row, self.task = changeReadsRow, wakeRow{}, taskRow{}
		out(&v, step{who: who, what: "finds that the task was dispatched, and looks again"})
	case seen.state == absent && m.Change == Reschedules:
		v.task = taskRow{state: scheduled, seq: row.seq, part: self.part, at: self.at, wseq: row.seq, life: row.life}
		self.task, self.pc = v.task, changePutsRow
		if m.Embedded { // one commit
			m.changePutsRow(&v, out)
			return
		}
		out(&v, step{who: who, what: "puts a task row"})
	case seen.state == absent, seen.state == claimed, isEnd != (m.Change == Redrives), isEnd && seen.life != 0:
		*self = proc{}
		out(&v, step{who: who, what: "is too late, or too early"})
	default:
		self.pc = changePutsRow
		m.changePutsRow(&v, out)
	}
}

func (m *model) changePutsRow(w *world, out emit) {
	v := *w
	self := &v.changes
	t := &self.task
	self.pc = changeReplaces
	self.row, self.part, self.at = wakeRow{seq: m.draw(&v, t.seq)}, m.changePart(t.part), m.ChangeTo
	if t.part == self.part && t.at == m.ChangeTo && t.state != ended {
		m.changeReplaces(&v, out)
		return
	}
	m.putWakeup(&v, self.part, m.ChangeTo, wakeRow{seq: self.row.seq, kind: bare, life: t.life})
	if m.Embedded {
		m.changeReplaces(&v, out)
		return
	}
	out(&v, step{who: "change", what: "puts the new wake-up row"})
}

// changePart returns the partition to which a change moves a task.
func (m *model) changePart(from uint8) uint8 { return (from + m.ChangePart) % uint8(max(1, m.Parts)) }

func (m *model) changeReplaces(w *world, out emit) {
	const who = "change"
	v := *w
	self := &v.changes
	old := self.task
	if w.task != old {
		*self = proc{pc: changeReadsRow, part: m.Calls[0].Part, at: m.Calls[0].At}
		out(&v, step{who: who, what: "finds that the task row has moved on, and looks again"})
		return
	}
	t := taskRow{state: moved, seq: self.row.seq, part: m.changePart(old.part), at: m.ChangeTo, wseq: self.row.seq, life: old.life, attempt: old.attempt}
	switch {
	case old.state == ended:
		t.life++
		v.accept(t.life)
	case old.part == t.part && old.at == t.at:
		t.wseq = old.wseq
	default:
		m.lazyDelete(&v, old.part, old.at, old.wseq)
	}
	v.task = t
	v.notBefore = t.at
	*self = proc{}
	out(&v, step{who: who, what: "replaces the task row"})
}
