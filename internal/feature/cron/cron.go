// Package cron has what repeats: a cron schedules its occurrences as tasks of its lambda, one after the
// other. Crons are control rows. The package decides what becomes of each occurrence when its time comes, and
// puts the next one; docs/adr/0042 says in which order, and why. Package cronspec computes the nominal times.
// Service serves the CronService of the wire contract: it stores crons, pauses, resumes and deletes them, runs them out of
// turn and shows what became of their nominal times. It reads the rows of occurrences, and neither decides about them nor
// changes them.
package cron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of a cron.
const (
	// ReasonBytesMax bounds why a cron is paused.
	ReasonBytesMax = 512
	// PayloadBytesMax bounds the payload, which each occurrence holds.
	PayloadBytesMax = 64 << 10
	// CatchUpMax and CatchUpWithinMax bound the bounds of catch-up "all".
	CatchUpMax       = 100_000
	CatchUpWithinMax = 366 * 24 * time.Hour
	// ChangeAfter is how long after a change the new revision is in charge: more than occurrences are decided
	// ahead, and than clocks of servers may differ.
	ChangeAfter = 5 * time.Second
	// revisionsMax is how many revisions a cron remembers, twice as many with those of pauses, and
	// revisionKeptFor for how long one that is in charge no more: until its last occurrence is decided.
	revisionsMax    = 64
	revisionKeptFor = 24 * time.Hour
)

// Pause says why a cron has no occurrences for a while.
type Pause struct {
	Reason string       `json:"reason"`
	By     string       `json:"by"` // an identity; empty: the failure limit
	At     task.Instant `json:"at"`
	Until  task.Instant `json:"until,omitempty"` // when it resumes by itself; zero: never
}

// Revision is a cron as it is between two changes. It is in charge of the nominal times after From, until the
// From of the next one.
type Revision struct {
	Number uint64       `json:"number"` // from 1
	From   task.Instant `json:"from"`
	Pause  *Pause       `json:"pause,omitempty"`
	Spec   Spec         `json:"spec"`
	// Resumed is when the pause ended that this revision took the place of: nominal times until then were
	// missed. Zero: there was none.
	Resumed task.Instant `json:"resumed,omitempty"`
}

// Cron is also the stored form.
type Cron struct {
	control.Meta `json:"-"`

	Name      string       `json:"name"`
	Lambda    string       `json:"lambda"`
	Ref       uint32       `json:"ref"` // of the lambda: one that is created again is another
	Created   task.Instant `json:"created"`
	CreatedBy string       `json:"created_by"`
	Updated   task.Instant `json:"updated"`
	UpdatedBy string       `json:"updated_by"`
	// ManagedBy names the declared set that it is of; empty: none. It changes nothing about what fires.
	ManagedBy string `json:"managed_by,omitempty"`
	// Registered says that the registration of the lambda made it: see catalog.Entry.Crons.
	Registered bool       `json:"registered,omitempty"`
	Revisions  []Revision `json:"revisions"` // the newest last; never empty
	// Traceparent is the span of the call that made it, if that was traced.
	Traceparent string `json:"traceparent,omitempty"`
}

// Now returns the newest revision.
func (c *Cron) Now() *Revision { return &c.Revisions[len(c.Revisions)-1] }

// InCharge returns the revision with a number if it is in charge of a nominal time; else nil.
func (c *Cron) InCharge(number uint64, nominal task.Instant) *Revision {
	i := slices.IndexFunc(c.Revisions, func(r Revision) bool { return r.Number == number })
	if i < 0 || nominal <= c.Revisions[i].From || nominal > c.until(i) {
		return nil
	}
	return &c.Revisions[i]
}

// until returns the last instant of which a revision is in charge.
func (c *Cron) until(i int) task.Instant {
	if i+1 < len(c.Revisions) {
		return c.Revisions[i+1].From
	}
	return math.MaxInt64
}

// Change adds a revision with another spec, which is in charge soon. While the cron is paused it stays so.
func (c *Cron) Change(spec Spec, now task.Instant) error {
	return c.add(Revision{From: now.Add(ChangeAfter), Pause: c.Now().Pause, Spec: spec}, now)
}

// PauseAt adds a revision that has no occurrences.
func (c *Cron) PauseAt(p Pause, now task.Instant) error {
	return c.add(Revision{From: now.Add(ChangeAfter), Pause: &p, Spec: c.Now().Spec}, now)
}

// Resume replaces the revisions that pause by one that is in charge of all that they were.
func (c *Cron) Resume(now task.Instant) error {
	spec, from, number, resumed := c.Now().Spec, c.Now().From, c.Now().Number, now
	if p := c.Now().Pause; p != nil && !p.Until.IsZero() {
		resumed = min(now, p.Until)
	}
	for len(c.Revisions) > 0 && c.Now().Pause != nil {
		from = c.Now().From
		c.Revisions = c.Revisions[:len(c.Revisions)-1]
	}
	return c.addNumbered(Revision{Number: number + 1, From: from, Spec: spec, Resumed: resumed}, now)
}

func (c *Cron) add(r Revision, now task.Instant) error {
	r.Number = c.Now().Number + 1
	r.From = max(r.From, c.Now().From)
	return c.addNumbered(r, now)
}

func (c *Cron) addNumbered(r Revision, now task.Instant) error {
	c.Revisions = append(slices.Clone(c.Revisions), r)
	for len(c.Revisions) > 1 && c.Revisions[1].From < now.Add(-revisionKeptFor) {
		c.Revisions = c.Revisions[1:]
	}
	most := revisionsMax
	if r.Pause != nil || !r.Resumed.IsZero() { // what stops a cron, or undoes that, is not refused for its changes
		most *= 2
	}
	if len(c.Revisions) > most {
		return fmt.Errorf("%w change: cron %s was changed %d times within %s; want at most that", task.ErrInvalid, c.Name, most, revisionKeptFor)
	}
	return nil
}

// CheckReason refuses a reason for a pause that says nothing.
func CheckReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return fmt.Errorf("%w reason: it is empty; say why, for those who miss their occurrences", task.ErrInvalid)
	case len(reason) > ReasonBytesMax || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl):
		return fmt.Errorf("%w reason: want at most %d bytes of UTF-8 text on one line", task.ErrInvalid, ReasonBytesMax)
	}
	return nil
}

// Kind is the kind of the control rows of crons. KindTodo is that of crons whose first occurrence may not be
// put yet, or whose pause ends by itself.
const (
	Kind     = "cron"
	KindTodo = "cron-todo"
)

// Store is where crons are kept.
type Store interface {
	store.ControlRows
	store.Writer
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error)
}

// NewBook returns the crons of a store.
func NewBook(rows store.ControlRows, c clock.Clock) *control.Book[Cron] {
	return control.NewBook(rows, control.Kind[Cron]{
		Live: Kind, What: "cron", Name: func(c *Cron) string { return c.Name },
		Read: func(_ string, value []byte, c *Cron) error {
			err := json.Unmarshal(value, c)
			if err == nil && len(c.Revisions) == 0 {
				err = errors.New("it has no revision")
			}
			return err
		},
	}, c)
}
