package protocol

const (
	enderPuts uint8 = iota + 1
	enderDeletes
)

// ender is a process that has ended the task, or has met a leftover of its end: it puts what follows, and
// then deletes the wake-up row.
type ender struct {
	pc, part, at, seq uint8
}

// follower is what follows the task. It waits in a partition of its own, and its start is its end.
type follower struct {
	row    uint8 // 1: it has a wake-up row
	ended  uint8 // 1: it has an ended row
	starts uint8
}

// endDelete is lazyDelete of the wake-up row of a task that has just ended.
func (m *model) endDelete(w *world, part, at, seq uint8) {
	if !m.Follows {
		m.lazyDelete(w, part, at, seq)
		return
	}
	if m.Embedded {
		w.follower.put()
		m.deleteWakeup(w, part, at, seq)
		return
	}
	if !m.has(FollowupsFirst) {
		m.sendDelete(w, part, at, seq)
	}
	w.addEnder(part, at, seq)
}

// leftoverDelete is lazyDelete of a row that no task needs.
func (m *model) leftoverDelete(w *world, part, at, seq uint8) (taken bool) {
	if !m.Follows || w.task.state != ended || !m.has(LeftoverCompletes) {
		return false
	}
	w.addEnder(part, at, seq) // without room the row stays, for the next full scan
	return true
}

func (w *world) addEnder(part, at, seq uint8) {
	for i := range w.enders {
		if e := (ender{enderPuts, part, at, seq}); w.enders[i] == e {
			return
		} else if w.enders[i].pc == 0 {
			w.enders[i] = e
			return
		}
	}
}

// put puts the first row of the follow-up if it is absent.
func (f *follower) put() { f.row = 1 }

// follow adds the steps of those who end the task, and of what follows it.
func (m *model) follow(w *world, out emit) {
	if !m.Follows {
		return
	}
	for i, e := range w.enders {
		if e.pc == 0 {
			continue
		}
		v := *w
		if e.pc == enderPuts {
			v.follower.put()
			v.enders[i].pc = enderDeletes
			out(&v, step{who: "ender", what: "puts the first row of the follow-up, if it is absent"})
		} else {
			v.enders[i] = ender{}
			m.sendDelete(&v, e.part, e.at, e.seq)
			out(&v, step{who: "ender", what: "deletes the wake-up row of the task that has ended"})
		}
		if w.left.crashes > 0 {
			v := *w
			v.left.crashes--
			v.enders[i] = ender{}
			out(&v, step{who: "ender", what: "crashes", fault: true})
		}
	}
	if w.follower.row == 1 {
		v := *w
		v.follower.row = 0
		what := "drops the row of a follow-up that has ended"
		if w.follower.ended == 0 {
			v.follower.ended = 1
			v.follower.starts++
			what = "starts the follow-up, which ends"
		}
		if v.follower.starts > 1 {
			v.bad = StartedTwice
		}
		out(&v, step{who: "follower", what: what})
	}
	if m.Expires && w.follower.ended == 1 && (!m.has(EndedStays) || m.completed(w)) {
		v := *w
		v.follower.ended = 0
		out(&v, step{who: "time", what: "the ended row of the follow-up expires"})
	}
}

// completed reports whether full scans have met what lay there of the end of the task, and of its follow-up,
// and no process is in the middle of something that it began before.
func (m *model) completed(w *world) bool {
	for _, p := range [...]proc{w.owners[0], w.owners[1], w.cancels, w.changes, w.calls[0], w.calls[1], w.calls[2]} {
		if p.plan&began != 0 || p.row.seq != 0 {
			return false
		}
	}
	if w.follower.row == 1 || w.enders != [endersMax]ender{} {
		return false
	}
	for p := range w.rows {
		for _, r := range w.rows[p] {
			if r.seq != 0 {
				return false
			}
		}
	}
	for _, l := range w.late {
		if l.put == 1 {
			return false
		}
	}
	return true
}

// isFollowed reports whether what follows a task that has ended has started.
func (m *model) isFollowed(w *world) bool {
	return m.isEnd(w) && (w.finished == 0 || w.follower.starts > 0)
}

func followScenarios() []Scenario {
	return []Scenario{
		{
			Name:  "follow-up: a worker, a cancel, rows that expire",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 1, Expires: true, Follows: true,
			Left: budget{crashes: 1, cancels: 1},
		},
		{
			Name:  "follow-up: of a task that moves",
			Calls: []Call{{Kind: Far}}, Parts: 1, Owners: 1, Workers: 1, Places: 2, Until: 1, Follows: true,
			Left: budget{crashes: 1, moves: 1},
		},
		{
			Name:  "follow-up: embedded, with sweeps",
			Calls: []Call{{Kind: Near}}, Parts: 1, Owners: 1, Workers: 1, Places: 1, Embedded: true, Expires: true, Sweeps: true, Follows: true,
			Left: budget{crashes: 1, cancels: 1},
		},
	}
}
