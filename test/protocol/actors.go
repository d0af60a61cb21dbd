package protocol

// step is one transition: who does what. A fault is a step that need not happen; a slow one waits for a
// timeout or for a full scan.
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
	if w.bad != NoProperty {
		return
	}
	for i := range m.Calls {
		m.call(w, i, out)
	}
	m.arrive(w, out)
	m.cancel(w, out)
	m.change(w, out)
	for i := range m.Owners {
		if m.Deliver {
			m.deliverer(w, i, out)
		} else {
			m.owner(w, i, out)
		}
	}
	for i := range m.Workers {
		m.worker(w, i, out)
	}
	m.follow(w, out)
	m.surroundings(w, out)
}

// surroundings adds the steps of time, of the network, and of rows that expire.
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
	m.ages(w, out)
	m.expire(w, out)
	m.gap(w, out)
}

// ages makes a row old that stands in front of a task row with a lower seq, once what put it is over for
// long.
func (m *model) ages(w *world, out emit) {
	if w.task.state == absent {
		return
	}
	for p := range w.rows {
		for at, r := range w.rows[p] {
			first := r.kind != bare && m.keyed() && w.task.state == ended && r.seq > w.task.seq
			changed := r.kind == bare && r.seq > w.task.seq
			if !first && !changed || r.old == 1 || w.underWay(uint8(p), uint8(at)) {
				continue
			}
			v := *w
			v.rows[p][at].old = 1
			out(&v, step{who: "time", what: "the call that put a wake-up row is over for long"})
		}
	}
}

// delivering reports whether a call of a deliver lambda is under way. Time stands still meanwhile, because no
// row would refuse the call later.
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
	if w.changes.pc == changeReplaces && w.changes.part == part && w.changes.at == at {
		return true
	}
	for _, p := range w.workers {
		if (p.pc == hscReplaces || p.pc == hscReadsBack) && p.task.part == part && p.at == at {
			return true
		}
	}
	for _, c := range w.calls {
		if c.pc != 0 && c.pc != callDone && c.part == part && c.at == at {
			return true
		}
	}
	return false
}

// settled reports whether the retention is over: full scans have dropped what lay behind now and held that
// task, no copy of it is in the buffer or in flight, and no process is in the middle of something that it
// began before.
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
	if c := &w.changes; c.plan&began != 0 || c.task.state == ended || c.row.seq != 0 && c.row.life == life {
		return false
	}
	if c := &w.cancels; c.plan&began != 0 || c.row.seq != 0 && c.row.life == life {
		return false
	}
	return w.buffered == 0 && w.arrival.pc == 0 && w.enders == [endersMax]ender{}
}
