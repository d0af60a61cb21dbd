package protocol

// arrive takes a task out of the buffer: it puts the wake-up row, then reads whether the task was cancelled
// or ended before.
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
