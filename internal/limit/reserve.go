package limit

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// KindLine is the kind of the control rows of lines that servers share.
const KindLine = "quota-line"

const (
	// reserveTriesMax is how often a reservation is tried again that another server's was before.
	reserveTriesMax = 8
	// reserveMax bounds one reservation.
	reserveMax = 3 * time.Second
)

// conflictPause is before a try that follows a conflict, failurePause before one that follows a failure of
// the store. The process spends its reservation meanwhile, and then nothing starts: never more than the rate.
var (
	conflictPause = backoff.Policy{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond}
	failurePause  = backoff.Policy{Min: 50 * time.Millisecond, Max: 2 * time.Second}
)

// lineRow is the stored form of a line.
type lineRow struct {
	// TAT is the theoretical arrival time of the next start, in Unix nanoseconds.
	TAT nanos `json:"tat"`
}

// refill reserves what waits and is not reserved, when the rest of what is comes soon. It reports whether
// there is more at once; with rows it comes later.
func (l *Limiter) refill(o *line, now nanos) (more bool) {
	need := 0
	for _, w := range o.waiting {
		need += w.count
	}
	for i := range o.have {
		need -= o.have[i].count
	}
	if o.reserving || now < o.notBefore && o.notBefore <= now+o.pace.aheadMax() || need <= 0 || o.reaches(now+nanos(refillAt)+2*o.took) {
		return false
	}
	if l.rows == nil {
		s, next, again := o.pace.reserve(o.tat, now, 0, need)
		o.tat = next
		o.add(s, again)
		return s.upTo(now) > 0
	}
	o.reserving, o.reserved = true, make(chan struct{})
	p, row, took := o.pace, o.row, o.took
	l.underWay.Go(func() { l.reserve(o, p, row, took, need) })
	return false
}

// reaches reports whether what is reserved goes on until t.
func (o *line) reaches(t nanos) bool {
	for i := range o.have {
		if s := &o.have[i]; s.count > 0 && s.at(s.count-1) > t {
			return true
		}
	}
	return false
}

// add adds a reservation; an empty one says when to try again.
func (o *line) add(r reservation, again nanos) {
	if r.count > 0 {
		o.have = append(o.have, r)
	}
	o.notBefore = again
}

// reserve makes a reservation in the line's row.
func (l *Limiter) reserve(o *line, p pace, row store.Control, took nanos, need int) {
	ctx, cancel := clock.Within(context.Background(), l.clock, reserveMax)
	defer cancel()
	began := clock.Mono(l.clock)
	s, row, again, err := l.write(ctx, o.name, p, row, took, need)
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.count > 0 {
		o.took = min(nanos(clock.Mono(l.clock)-began), nanos(tookMax))
	}
	switch {
	case err != nil:
		o.failures++
		o.row = store.Control{} // the write may have been made: what it took is lost
		o.notBefore = l.now() + nanos(failurePause.Pause(l.clock, o.failures))
	case o.pace != p:
		o.row = row // the rate was changed meanwhile
	default:
		o.row, o.failures = row, 0
		o.add(s, again)
	}
	o.reserving = false
	close(o.reserved)
}

// write takes a reservation from the row, of which the caller knows one version; zero: none.
func (l *Limiter) write(ctx context.Context, name string, p pace, row store.Control, took nanos, need int) (reservation, store.Control, nanos, error) {
	for n := 1; ; n++ {
		if row.Version == 0 {
			var err error
			if row, err = l.rows.Control(ctx, KindLine, name); err != nil && !errors.Is(err, store.ErrNotFound) {
				return reservation{}, row, 0, err
			}
		}
		var was lineRow
		if len(row.Value) > 0 && json.Unmarshal(row.Value, &was) != nil {
			was = lineRow{} // damaged: a burst may begin
		}
		s, next, again := p.reserve(was.TAT, l.now(), took, need)
		if s.count == 0 {
			return s, row, again + nanos(conflictPause.Pause(l.clock, n)), nil
		}
		value, err := json.Marshal(lineRow{next})
		if err != nil {
			return reservation{}, row, 0, err
		}
		changed := store.Control{Kind: KindLine, Name: name, Version: row.Version + 1, Value: value}
		err = l.rows.PutControl(ctx, changed)
		if err == nil {
			return s, changed, 0, nil
		}
		if row = conflictRow(err); !errors.Is(err, store.ErrConflict) {
			return reservation{}, row, 0, err
		}
		pause := conflictPause.Pause(l.clock, n)
		if n == reserveTriesMax {
			return reservation{}, row, l.now() + nanos(pause), nil
		}
		if err := clock.Sleep(ctx, l.clock, pause); err != nil {
			return reservation{}, row, 0, err
		}
	}
}

// conflictRow returns the row that a write has met; zero if it is not known.
func conflictRow(err error) store.Control {
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) && conflict.Control != nil {
		return *conflict.Control
	}
	return store.Control{}
}

// The rate is kept by the generic cell rate algorithm (GCRA, ITU-T I.371, the leaky bucket as a meter): one
// number, the theoretical arrival time (TAT), says when the next start is due if all come at even distances.
// A start that comes later moves it along; one may come earlier by the tolerance, which is what makes a
// burst. Each reservation takes the next part of that line of time for one server, so that no two servers
// have the same start, whatever their clocks show.

const (
	// reservedMax is how much of the line one reservation takes at most (beyond a burst). It is what a server
	// that dies keeps from the others.
	reservedMax = 200 * time.Millisecond
	// reserveAhead is how far ahead of now all servers together may have reserved.
	reserveAhead = 350 * time.Millisecond
	// tookMax is how slow a store may be so that its answers come in time.
	tookMax = time.Second
	// clocksApart is by how much clocks may differ, and a little more.
	clocksApart = time.Second
	// burstDefault is how much of the rate may start at once after a pause, if the quota does not say.
	burstDefault = 100 * time.Millisecond
	// spendWithin is how long a start may be made up for that was not made at its time.
	spendWithin = 250 * time.Millisecond
)

// nanos is a wall time in Unix nanoseconds: at a million starts per second microseconds are too coarse.
type nanos int64

// pace is a rate and a burst, in terms of time.
type pace struct {
	rate  float64
	burst uint32
}

// interval returns the time between starts.
func (p pace) interval() float64 { return float64(time.Second) / p.rate }

// tolerance returns how much earlier than at even distances a start may come.
func (p pace) tolerance() nanos {
	burst := float64(p.burst)
	if burst == 0 {
		burst = max(1, math.Floor(p.rate*burstDefault.Seconds()))
	}
	return nanos((burst - 1) * p.interval())
}

// Within returns how many starts a rate and its burst allow within a time at most.
func Within(rate float64, burst uint32, d time.Duration) int {
	p := pace{rate, burst}
	return int(float64(d+time.Duration(p.tolerance()))/p.interval()) + 1
}

// lapse returns how long after its time a start may still be made: never so late that more than the burst,
// spendWithin and one interval come together.
func (p pace) lapse() nanos {
	return p.tolerance() + max(nanos(spendWithin), nanos(p.interval()))
}

// reservation has starts at even distances that this server has reserved.
type reservation struct {
	first    nanos
	interval float64
	count    int
}

// at returns the time of start number i, from 0 on.
func (r *reservation) at(i int) nanos { return r.first + nanos(float64(i)*r.interval) }

// upTo returns how many starts are at or before t.
func (r *reservation) upTo(t nanos) int {
	switch {
	case r.count == 0 || t < r.first:
		return 0
	case r.interval <= 0:
		return r.count
	}
	n := min(r.count, int(float64(t-r.first)/r.interval)+1)
	for n < r.count && r.at(n) <= t {
		n++
	}
	for n > 0 && r.at(n-1) > t {
		n--
	}
	return n
}

// drop removes the first n starts.
func (r *reservation) drop(n int) { r.first, r.count = r.at(n), r.count-n }

// reserve takes up to want starts from the line, whose theoretical arrival time is tat. Where others have
// reserved far enough ahead it takes none, and says when to come again. A slow store, whose answers take
// took, needs more at a time.
func (p pace) reserve(tat, now, took nanos, want int) (taken reservation, next, again nanos) {
	ahead, longest := nanos(reserveAhead)+2*took, nanos(reservedMax)+2*took
	if tat > now+p.aheadMax() {
		tat = now // of a lower rate, or of a clock that was set back
	}
	if tat > now+ahead {
		return reservation{}, tat, tat - ahead
	}
	tat = max(tat, now-p.tolerance())
	most := max(1, int(float64(max(tat, now)+longest-tat)/p.interval()))
	taken = reservation{tat, p.interval(), min(want, most)}
	return taken, taken.at(taken.count), 0
}

// aheadMax returns how far ahead of now the line can be reserved at this rate, by any server's clock.
func (p pace) aheadMax() nanos {
	return nanos(reserveAhead+2*tookMax) + max(nanos(reservedMax+2*tookMax), nanos(p.interval())) + nanos(clocksApart)
}
