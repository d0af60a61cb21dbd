// Package lease reads and changes worker leases: one control row of kind "worker" for each worker process,
// renewed by its heartbeats. The HSC opens, renews and ends leases here; the scheduler, which takes tasks
// back from silent workers, looks at them and marks them lost. Every change is a compare-and-set on the row's
// version, so that a heartbeat which got through always wins over a decision that was made without it. The
// package decides nothing about tasks.
package lease

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows.
const Kind = "worker"

// Limits and default of the length of a lease.
const (
	LengthMin     = 3 * time.Second
	LengthMax     = time.Hour
	LengthDefault = 15 * time.Second
)

// LengthLasting is the length of all leases of NewLastingBook.
const LengthLasting = 100 * 365 * 24 * time.Hour

// BeatsPerLease is how many heartbeats a worker sends in the length of its lease.
const BeatsPerLease = 4

// NameBytesMax bounds the name in a worker's id.
const NameBytesMax = 40

// LambdasMax bounds the lambdas in the row of a lease, which each heartbeat writes. A worker for more is not
// held to those that it registered for.
const LambdasMax = 32

// KeptAfterEnd is how long the row of a lease that ended is kept. Until then the tasks of a lost worker are
// judged by it, and a late heartbeat is answered that the lease is lost.
const KeptAfterEnd = 24 * time.Hour

var (
	// ErrLost says that the lease has ended for good: it was marked lost, left, or swept.
	ErrLost = errors.New("worker lease has ended")
	// ErrBusy says that others kept changing the lease at the same time; the call may be repeated.
	ErrBusy = errors.New("worker lease was changed at the same time")
)

// Lease is the lease of one worker process.
type Lease struct {
	Worker string // the id: task.Task.Worker of what it runs
	Name   string // as the worker gave it, for people
	// Owner is the identity that registered the worker; empty: unknown, as in rows of older versions.
	Owner string
	// Lambdas are those that the worker registered for, separated by commas; empty: any.
	Lambdas string
	Version uint64 // of the row; 0 when there is no row
	Length  time.Duration
	Receipt task.Instant // when the newest heartbeat was received, by the wall clock of its receiver
	Beat    uint64       // number of the newest heartbeat; 0 if an older version received it
	Heard   task.Instant // when the newest heartbeat was received at the latest, by clock.Steady of this process; not in the row
	Came    task.Instant // when it was received at the earliest, likewise; zero: unknown
	// Silent is for how long servers had listened for the next heartbeat, at least, when the row was written.
	Silent time.Duration
	// SilentBefore is Silent as it was when this process first saw the newest heartbeat; not in the row.
	SilentBefore time.Duration
	Suspect      task.ID // the one suspect that the process may run; zero for none
	Attend       uint64  // changes when the next heartbeat must read the rows of all tasks of the worker
	Lost         bool    // it was marked lost, or has no row
}

// End returns when the lease runs out unless a heartbeat renews it, by the wall clock of the receiver of the
// newest one.
func (l *Lease) End() task.Instant { return l.Receipt.Add(l.Length) }

// HoldsUntil returns End by clock.Steady of this process, which no step of a wall clock moves.
func (l *Lease) HoldsUntil() task.Instant { return l.Heard.Add(l.Length) }

// HeartbeatEvery returns the interval at which the worker sends heartbeats.
func (l *Lease) HeartbeatEvery() time.Duration { return l.Length / BeatsPerLease }

// OverAt returns when the tasks of the worker may be taken back unless a heartbeat comes: when the lease ran
// out by the clock bound. since is when the caller began to listen. If that is later than the last receipt,
// the lease counts from there, because a heartbeat before may have found no server; but for the time that
// processes before the caller have listened.
func (l *Lease) OverAt(since task.Instant) task.Instant {
	return max(l.Receipt, since.Add(-l.SilentBefore)).Add(l.Length + task.ClockBound)
}

// Over reports whether the tasks of the worker may be taken back at now: the lease was marked lost, or it ran
// out.
func (l *Lease) Over(now, since task.Instant) bool { return l.Lost || now >= l.OverAt(since) }

// Blames reports whether the loss of this worker is blamed on the task alone.
func (l *Lease) Blames(t *task.Task) bool { return t.Suspect && t.ID == l.Suspect }

// Covers reports whether the worker registered for a lambda.
func (l *Lease) Covers(lambda string) bool {
	return l.Lambdas == "" || slices.Contains(strings.Split(l.Lambdas, ","), lambda)
}

// CheckLength returns the length, the default for zero, or task.ErrInvalid for one outside the limits.
func CheckLength(d time.Duration) (time.Duration, error) {
	if d == 0 {
		return LengthDefault, nil
	}
	if d < LengthMin || d > LengthMax {
		return 0, fmt.Errorf("%w lease %v: want %v to %v, or 0 for %v", task.ErrInvalid, d, LengthMin, LengthMax, LengthDefault)
	}
	return d, nil
}

// record is the stored form of a lease. An absent field means its zero value.
type record struct {
	Name    string `json:"name,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Lambdas string `json:"lambdas,omitempty"`
	Length  int64  `json:"length_us"`
	Receipt int64  `json:"receipt_us"`
	Beat    uint64 `json:"beat,omitempty"`
	Silent  int64  `json:"silent_us,omitempty"`
	Suspect string `json:"suspect,omitempty"`
	Attend  uint64 `json:"attend,omitempty"`
	Lost    bool   `json:"lost,omitempty"`
}

func encode(l *Lease) (store.Control, error) {
	r := record{Name: l.Name, Owner: l.Owner, Lambdas: l.Lambdas, Length: l.Length.Microseconds(), Receipt: int64(l.Receipt), Beat: l.Beat, Silent: l.Silent.Microseconds(), Attend: l.Attend, Lost: l.Lost}
	if !l.Suspect.IsZero() {
		r.Suspect = l.Suspect.String()
	}
	value, err := json.Marshal(r)
	return store.Control{Kind: Kind, Name: l.Worker, Version: l.Version, Value: value}, err
}

func decode(row *store.Control) (Lease, error) {
	var r record
	if err := json.Unmarshal(row.Value, &r); err != nil {
		return Lease{}, fmt.Errorf("%w: lease of worker %s: %w", store.ErrCorrupt, row.Name, err)
	}
	l := Lease{
		Worker: row.Name, Name: r.Name, Owner: r.Owner, Lambdas: r.Lambdas, Version: row.Version, Attend: r.Attend, Lost: r.Lost,
		Length: task.Micros(r.Length), Receipt: task.Instant(r.Receipt), Beat: r.Beat, Silent: task.Micros(r.Silent),
	}
	if r.Suspect == "" {
		return l, nil
	}
	var err error
	if l.Suspect, err = task.ParseID(r.Suspect); err != nil {
		return Lease{}, fmt.Errorf("%w: lease of worker %s: suspect: %w", store.ErrCorrupt, row.Name, err)
	}
	return l, nil
}
