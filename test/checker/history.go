package checker

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// never is the end of what did not end.
const never = int64(math.MaxInt64)

// span is a time from..to, both included.
type span struct{ from, to int64 }

func (s span) meets(o span) bool { return s.from <= o.to && o.from <= s.to }

// execution is one run of a handler.
type execution struct {
	Event          // its start
	end      int64 // of the handler or of its process, never if neither
	returned bool  // the handler returned
	outcome  string
	effects  []int64
}

// record is all that a history says about one task.
type record struct {
	id        string
	nonces    []string // as workers saw it
	requested bool
	limitKey  string
	acked     *Event
	cancelled *Event
	mayCancel bool // a cancel was asked for
	report    *Event
	runs      []*execution // by start
}

// process is what happened to one worker process.
type process struct {
	died    int64  // never if it did not
	stopped []span // from SIGSTOP to SIGCONT
	faults  []int64
}

type history struct {
	Options
	tasks     []*record
	processes map[int]*process
	outages   []span // of the server
	stray     []Violation
}

// indexer builds a history from events.
type indexer struct {
	*history
	byID      map[string]*record
	requested map[string]*Event
	idOf      map[string]string // by nonce, as acknowledged
}

func index(events []Event, o Options) *history {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	x := indexer{
		history: &history{Options: o, processes: map[int]*process{}},
		byID:    map[string]*record{}, requested: map[string]*Event{}, idOf: map[string]string{},
	}
	for i := range events {
		x.add(&events[i])
	}
	x.finish()
	return x.history
}

func (x *indexer) add(e *Event) {
	switch e.Kind {
	case Requested:
		x.requested[e.Nonce] = e
	case Acked:
		x.record(e.Task).acked = e
		x.idOf[e.Nonce] = e.Task
	case Cancelling:
		x.record(e.Task).mayCancel = true
	case Cancelled:
		x.record(e.Task).cancelled = e
	case Reported:
		x.record(e.Task).report = e
	case Started:
		r := x.record(e.Task)
		r.nonces = append(r.nonces, e.Nonce)
		r.runs = append(r.runs, &execution{Event: *e, end: never})
	case Ended, Effect:
		x.addToRun(e)
	case Died, Stopped, Continued, Terminated:
		x.addToProcess(e)
	case ServerDown:
		x.outages = append(x.outages, span{e.At, never})
	case ServerUp:
		if n := len(x.outages); n > 0 {
			x.outages[n-1].to = e.At
		}
	}
}

func (x *indexer) addToRun(e *Event) {
	run := x.run(e)
	switch {
	case run == nil:
		x.stray = append(x.stray, Violation{Invented, e.Task, fmt.Sprintf("attempt %d in process %d %s without a start", e.Attempt, e.PID, e.Kind)})
	case e.Kind == Effect:
		run.effects = append(run.effects, e.At)
	default:
		run.end, run.outcome, run.returned = e.At, e.Outcome, e.Outcome != Poisoned
		if p := x.process(e.PID); e.Outcome == Poisoned {
			p.died = min(p.died, e.At)
		}
	}
}

// run finds the execution that an event of a worker belongs to: the newest of its attempt and process.
func (x *indexer) run(e *Event) *execution {
	r := x.byID[e.Task]
	if r == nil {
		return nil
	}
	for _, run := range slices.Backward(r.runs) {
		if run.Attempt == e.Attempt && run.PID == e.PID && run.end == never {
			return run
		}
	}
	return nil
}

func (x *indexer) addToProcess(e *Event) {
	p := x.process(e.PID)
	n := len(p.stopped)
	switch {
	case e.Kind == Stopped:
		p.stopped = append(p.stopped, span{e.At, never})
	case e.Kind == Continued && n > 0:
		p.stopped[n-1].to = e.At
	case e.Kind == Died:
		p.died = min(p.died, e.At)
	}
	p.faults = append(p.faults, e.At)
}

// finish ends what ran in processes that died, and says which tasks somebody asked for.
func (x *indexer) finish() {
	for _, id := range slices.Sorted(maps.Keys(x.byID)) {
		r := x.byID[id]
		for _, run := range r.runs {
			if died := x.process(run.PID).died; run.end == never && died >= run.At {
				run.end = died
			}
		}
		r.requested, r.limitKey = x.askedFor(r), x.limitKeyOf(r)
		x.tasks = append(x.tasks, r)
	}
}

// limitKeyOf is the limit key that was asked for.
func (x *indexer) limitKeyOf(r *record) string {
	var nonces []string
	if r.acked != nil {
		nonces = append(nonces, r.acked.Nonce)
	}
	for _, nonce := range append(nonces, r.nonces...) {
		if asked := x.requested[nonce]; asked != nil {
			return asked.LimitKey
		}
	}
	return ""
}

// askedFor reports whether somebody asked for what the task ran, and each request ran under one id.
func (x *indexer) askedFor(r *record) bool {
	for _, nonce := range r.nonces {
		if id := x.idOf[nonce]; id == "" {
			x.idOf[nonce] = r.id // its acknowledgement got lost
		} else if id != r.id {
			return false
		}
		if x.requested[nonce] == nil || nonce != r.nonces[0] {
			return false
		}
	}
	return true
}

func (x *indexer) record(id string) *record {
	r := x.byID[id]
	if r == nil {
		r = &record{id: id}
		x.byID[id] = r
	}
	return r
}

func (h *history) process(pid int) *process {
	p := h.processes[pid]
	if p == nil {
		p = &process{died: never}
		h.processes[pid] = p
	}
	return p
}
