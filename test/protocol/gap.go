package protocol

// gap ends all processes for longer than ended rows are kept: an ended row has expired before a full scan. A
// wake-up row that is left may be of a task that ran. Writes in flight are still applied, or lost.
func (m *model) gap(w *world, out emit) {
	if w.left.gaps == 0 {
		return
	}
	v := *w
	v.left.gaps--
	for i := range m.Calls { // no request is repeated for that long
		if w.begun(m.Calls, i) {
			v.calls[i] = proc{pc: callDone}
		}
	}
	v.arrival, v.cancels, v.changes, v.armed = proc{}, proc{}, proc{}, 0
	for i := range v.owners {
		v.owners[i] = proc{}
	}
	for i := range v.workers {
		v.workers[i] = proc{}
	}
	if v.task.by != 0 {
		v.task.by = gone
	}
	if v.task.state == ended {
		v.expired |= 1 << v.task.life
		v.task = taskRow{}
	}
	for p := range v.rows {
		for at := range v.rows[p] {
			m.outlived(w, &v.rows[p][at], uint8(at))
		}
	}
	for i := range v.late {
		if l := &v.late[i]; l.put == 1 {
			m.outlived(w, &l.row, l.at)
		}
	}
	out(&v, step{who: "time", what: "all processes are gone, for longer than ended rows are kept", fault: true})
}

// outlived marks a row that is older than a gap as old, and as doubtful if the row's times show that its task
// may have been dispatched before the gap.
func (m *model) outlived(w *world, r *wakeRow, at uint8) {
	if r.seq == 0 {
		return
	}
	r.old = 1
	if !m.keyed() && (r.kind == holdsEnq || r.kind == holds && at <= w.now) {
		r.doubt = 1
	}
}

// setsAside keeps the task of a doubtful row among the rejected ones, and then deletes the row as it was
// seen.
func (m *model) setsAside(w *world, o int, out emit) {
	v := *w
	self := &v.owners[o]
	v.aside |= 1 << self.row.life
	self.pc = ownerDrops
	out(&v, step{who: ownerNames[o], what: "reads that there is no task row, and sets the task aside"})
}

// begun reports whether a call, or another one for the same task, has begun.
func (w *world) begun(calls []Call, i int) bool {
	for j := range calls {
		if calls[j].Life == calls[i].Life && w.calls[j].pc != 0 {
			return true
		}
	}
	return false
}
