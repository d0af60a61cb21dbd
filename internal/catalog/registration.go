package catalog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// RegistrationKind is the kind of control rows that say which lambdas there are to be. Terraform writes them,
// and nobody here: what a lambda's own row has besides (its reference, its version) is nothing that a file
// could say. See docs/adr/0018.
const RegistrationKind = "registration"

// registrationFormat is the newest form of a registration that is known here.
const registrationFormat = 1

var errNotForDeliver = errors.New(
	"max attempts, timeout and backoff are not for mode deliver: its tasks are put on a queue and not executed by Kinesin; leave them out")

// ErrFixed refuses a registration with another mode or other priorities than the lambda has, or with fewer
// shards than it ever had.
var ErrFixed = errors.New("mode and priorities are fixed at creation, and shards only grow")

// Registration is a lambda as it is to be.
type Registration struct {
	task.Lambda // with defaults, but for Shards, which are 0 where it does not say; without Ref, Created and Deleting

	Sum string // tells it from what it was before
	Err error  // why it cannot be read, or is wrong: then only its name is known
}

// Registered is where registrations are read.
type Registered interface {
	Control(ctx context.Context, kind, name string) (store.Control, error)
	ControlsOmitted(ctx context.Context, kind string) ([]store.Control, map[string]error, error)
}

// Registrations reads all registrations, by name.
func Registrations(ctx context.Context, from Registered) ([]Registration, error) {
	rows, omitted, err := from.ControlsOmitted(ctx, RegistrationKind)
	if err != nil {
		return nil, fmt.Errorf("read registrations: %w", err)
	}
	all := make([]Registration, 0, len(rows)+len(omitted))
	for _, row := range rows {
		all = append(all, registrationOf(row.Name, row, nil))
	}
	for name, err := range omitted {
		all = append(all, registrationOf(name, store.Control{}, err))
	}
	slices.SortFunc(all, func(a, b Registration) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// RegistrationOf reads the registration of a name; false when there is none.
func RegistrationOf(ctx context.Context, from Registered, name string) (r Registration, isThere bool, err error) {
	row, err := from.Control(ctx, RegistrationKind, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, false, nil
	case err != nil && !errors.Is(err, store.ErrVersion) && !errors.Is(err, store.ErrCorrupt):
		return r, false, err
	}
	return registrationOf(name, row, err), true, nil
}

func registrationOf(name string, row store.Control, err error) Registration {
	var r Registration
	if err == nil {
		r, err = ParseRegistration(row)
	}
	if err != nil {
		r = Registration{Lambda: task.Lambda{Name: name}, Err: err}
	}
	return r
}

// registration is the row's value. What is absent has its default.
type registration struct {
	Format      uint     `json:"format"`
	Mode        string   `json:"mode"`
	Priorities  []string `json:"priorities"`
	Shards      uint16   `json:"shards"`
	MaxAttempts uint32   `json:"max_attempts"`
	Timeout     int64    `json:"timeout_us"`
	BackoffMin  int64    `json:"backoff_min_us"`
	BackoffMax  int64    `json:"backoff_max_us"`
	Retention   int64    `json:"retention_us"`
}

// CheckSettings refuses settings that say nothing in a mode. They are as they were given, without defaults.
func CheckSettings(mode task.Mode, given task.Lambda) error {
	if mode == task.Deliver && (given.MaxAttempts != 0 || given.Timeout != 0 || given.BackoffMin != 0 || given.BackoffMax != 0) {
		return errNotForDeliver
	}
	return nil
}

// ParseRegistration reads a registration. What is wrong with it is task.ErrInvalid or store.ErrCorrupt.
func ParseRegistration(row store.Control) (Registration, error) {
	var r registration
	if err := json.Unmarshal(row.Value, &r); err != nil {
		return Registration{}, fmt.Errorf("%w: registration %s: %w", store.ErrCorrupt, row.Name, err)
	}
	if r.Format != registrationFormat {
		return Registration{}, fmt.Errorf("%w registration %s: it has format %d, this program knows %d; update the servers before the Terraform modules",
			task.ErrInvalid, row.Name, r.Format, registrationFormat)
	}
	mode, err := task.ParseMode(r.Mode)
	if err != nil {
		return Registration{}, err
	}
	want := task.Lambda{
		Name: row.Name, Mode: mode, Priorities: r.Priorities, Shards: r.Shards, MaxAttempts: r.MaxAttempts,
		Timeout: task.Micros(r.Timeout), BackoffMin: task.Micros(r.BackoffMin), BackoffMax: task.Micros(r.BackoffMax), Retention: task.Micros(r.Retention),
	}
	if err := CheckSettings(mode, want); err != nil {
		return Registration{}, fmt.Errorf("%w registration %s: %w", task.ErrInvalid, row.Name, err)
	}
	if err := checkFields(row); err != nil {
		return Registration{}, err
	}
	sum := sha256.Sum256(row.Value)
	want = want.WithDefaults()
	invalid := want.Validate()
	want.Shards = r.Shards
	return Registration{Lambda: want, Sum: hex.EncodeToString(sum[:8])}, invalid
}

// checkFields refuses what is not known here: the lambda would pass for one that is as registered, also for
// servers that know it.
func checkFields(row store.Control) error {
	d := json.NewDecoder(bytes.NewReader(row.Value))
	d.DisallowUnknownFields()
	if err := d.Decode(&registration{}); err != nil {
		return fmt.Errorf("%w registration %s: %w, which this program does not know; update the servers before the Terraform modules",
			task.ErrInvalid, row.Name, err)
	}
	return nil
}

// Fits refuses, with ErrFixed, what can never become of a lambda that is there. What it was made of last
// always fits.
func (r *Registration) Fits(have *Entry) error {
	if have.Registration == r.Sum || have.Mode == r.Mode && slices.Equal(have.Priorities, r.Priorities) && r.shardsFit(have) {
		return nil
	}
	wayOut := "register another lambda with these; or delete it, and it is made anew of this registration"
	if have.Registration != "" {
		wayOut = "put the registration back; or wait until it has no live tasks, or delete it with them dropped: then it is made anew of this " +
			"registration, a few minutes later, if the queues of that are all there"
	}
	return fmt.Errorf("%w: the registration of %s wants mode %s, priorities %s, shards %d, and %s; %s",
		ErrFixed, r.Name, r.Mode, strings.Join(r.Priorities, ","), cmp.Or(r.Shards, have.Shards), describe(have.Lambda), wayOut)
}

// shardsFit reports whether a lambda can have the shards of a registration: it grows, or they are what it
// once had, so that they grew by a call, and stay.
func (r *Registration) shardsFit(have *Entry) bool {
	return r.Shards == 0 || r.Shards > have.Shards || have.HadShards(r.Shards)
}

// Register makes a lambda what a registration says, and notes that it did: the lambda is created, or changed
// when what it was last made of is another registration. So what is changed by a call afterwards stays until
// the registration itself is changed. A deletion that was begun is taken back: whoever is still at it gets
// ErrChanged from Remove. What Fits refuses is ErrFixed and stays as it is.
func (c *Catalog) Register(ctx context.Context, r Registration) (entry *Entry, created bool, err error) {
	entry, existed, err := c.create(ctx, r.Lambda, r.Sum)
	switch {
	case err == nil && !existed:
		return entry, true, nil
	case err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, ErrDeleting):
		return entry, false, err
	}
	entry, err = c.update(ctx, r.Name, func(e *Entry) error {
		if err := r.Fits(e); err != nil {
			return err
		}
		e.Deleting = false
		if e.Registration == r.Sum { // and what a call changed since stays
			return nil
		}
		if r.Shards > e.Shards {
			if err := e.Grow(r.Shards, c.GrownFrom()); err != nil {
				return err
			}
		}
		e.MaxAttempts, e.Timeout, e.BackoffMin, e.BackoffMax, e.Retention = r.MaxAttempts, r.Timeout, r.BackoffMin, r.BackoffMax, r.Retention
		e.Registration = r.Sum
		return nil
	})
	return entry, false, err
}
