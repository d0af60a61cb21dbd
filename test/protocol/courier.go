package protocol

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
