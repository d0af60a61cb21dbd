package protocol

const (
	delivererAcquires uint8 = iota + 1
	delivererSends
	delivererDeletes
)

func (m *model) deliverer(w *world, o int, out emit) {
	who := ownerNames[o]
	p := &w.owners[o]
	v := *w
	self := &v.owners[o]
	switch p.pc {
	case 0:
		for part := range m.Parts {
			for at := uint8(0); at <= w.now; at++ {
				row := w.rows[part][at]
				if row.seq == 0 || row.kind == acquired && m.isAcquired(w, uint8(part), at) {
					continue
				}
				v := *w
				v.owners[o] = proc{pc: delivererAcquires, part: uint8(part), at: at, row: row}
				out(&v, step{who: who, what: "reads a wake-up row"})
			}
		}
		return
	case delivererAcquires:
		if w.rows[p.part][p.at] != p.row {
			*self = proc{}
			out(&v, step{who: who, what: "finds that another has acquired the task"})
			return
		}
		v.rows[p.part][p.at] = wakeRow{seq: p.row.seq + 1, kind: acquired}
		self.pc, self.row = delivererSends, v.rows[p.part][p.at]
		out(&v, step{who: who, what: "acquires the task"})
	case delivererSends:
		if v.delivered++; v.delivered > 1 && v.crashed == 0 {
			v.bad = Twice
		}
		self.pc = delivererDeletes
		out(&v, step{who: who, what: "sends the task"})
	case delivererDeletes:
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

// isAcquired reports whether a process that lives has acquired the row.
func (m *model) isAcquired(w *world, part, at uint8) bool {
	for _, p := range w.owners {
		if p.pc > delivererAcquires && p.part == part && p.at == at && p.row == w.rows[part][at] {
			return true
		}
	}
	return false
}
