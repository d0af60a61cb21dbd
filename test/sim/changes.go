package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

// Change is a call about a task that clients change, or about a key that they use again. Such tasks are of a
// lambda of their own, which the same servers and workers serve.
type Change struct {
	Subject  int // the number of the task, or of the key
	Keyed    bool
	Do       changeKind
	Name     naming
	In       time.Duration // schedule, reschedule: until it is due
	Within   time.Duration // schedule: it expires so long after it is due; 0: never
	Conflict sdk.Conflict  // schedule
	Force    bool          // redrive
	IfSeq    bool          // all but schedule and get: only if the task is as it was seen last
	Task     Work          // schedule, update, and a redrive with another payload
}

type changeKind string

const (
	doSchedule   changeKind = "schedule"
	doReschedule changeKind = "reschedule"
	doRunNow     changeKind = "run now"
	doUpdate     changeKind = "update"
	doRedrive    changeKind = "redrive"
	doRepayload  changeKind = "redrive with a payload"
	doCancel     changeKind = "cancel"
	doGet        changeKind = "get"
)

// naming is how a call names its task.
type naming uint8

const (
	byNewest naming = iota // the id that was given out last
	byOldest               // the id that was given out first
	byKey
)

const (
	draftsMax       = 6
	draftOrdersMax  = 10
	payloadApartMin = 800 // bytes that do not fit into a row
)

// changes draws the orders about tasks that are changed, apart from everything else.
func (p *Plan) changes(seed uint64, span time.Duration) (all []Order) {
	r := rand.New(rand.NewPCG(seed, 6))
	if r.IntN(3) == 0 {
		return nil
	}
	for subject := range 1 + r.IntN(draftsMax) {
		keyed := r.IntN(3) > 0
		begin, within := time.Duration(r.Int64N(int64(span)/4)), span
		if r.IntN(2) == 0 {
			begin, within = time.Duration(r.Int64N(int64(span))), time.Duration(1+r.IntN(3000))*time.Millisecond // all at about the same time
		}
		var first Work
		for n := range 2 + r.IntN(draftOrdersMax-1) {
			c := change(r, subject, n, keyed, within)
			switch {
			case n == 0:
				c.Do, first = doSchedule, c.Task
			case c.Do == doSchedule && r.IntN(3) == 0:
				c.Task = first // the same task, for which there may be a duplicate
			}
			at := begin
			if n > 0 {
				at += time.Duration(r.Int64N(int64(within)))
			}
			all = append(all, Order{At: at, Client: r.IntN(2), Do: alter, Change: c})
		}
	}
	return all
}

func change(r *rand.Rand, subject, n int, keyed bool, span time.Duration) *Change {
	c := &Change{Subject: subject, Keyed: keyed, Force: r.IntN(3) == 0, Do: doGet}
	kinds := []changeKind{
		doSchedule, doSchedule, doSchedule, doReschedule, doReschedule, doRunNow, doUpdate, doUpdate, doRedrive, doRedrive, doRepayload, doCancel, doCancel, doGet,
	}
	if c.Do = kinds[r.IntN(len(kinds))]; c.Do == doSchedule && !keyed {
		c.Do = doReschedule
	}
	c.IfSeq = r.IntN(5) == 0
	c.Name = []naming{byNewest, byNewest, byOldest, byKey}[r.IntN(4)]
	if !keyed && c.Name == byKey {
		c.Name = byNewest
	}
	switch r.IntN(3) {
	case 0: // due at once
	case 1:
		c.In = time.Duration(r.IntN(3000)) * time.Millisecond
	default:
		c.In = time.Duration(r.Int64N(int64(span)))
	}
	if r.IntN(5) == 0 {
		c.Within = time.Second + time.Duration(r.IntN(20_000))*time.Millisecond
	}
	c.Conflict = []sdk.Conflict{"", sdk.ConflictKeep, sdk.ConflictReplace, sdk.ConflictReplace, sdk.ConflictReject}[r.IntN(5)]
	c.Task = work(r, 0)
	c.Task.Nonce, c.Task.Poison = fmt.Sprintf("c%d-%d", subject, n), false
	switch r.IntN(8) { // so that it can be redriven, and frees its key
	case 0, 1:
		c.Task.Fatal = true
	case 2:
		c.Task.Fails, c.Task.Fatal = attemptsMax, false
	}
	if r.IntN(3) == 0 {
		c.Task.Fill = payloadApartMin
	}
	return c
}
