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

	"github.com/kinesin-io/kinesin/internal/quota"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// RegistrationKind is the kind of control rows that define lambdas. Terraform writes them and no server does:
// a lambda's own row also has a reference and a version, which no file could give. See docs/adr/0018.
const RegistrationKind = "registration"

// registrationFormat is the newest format of registrations that this version knows.
const registrationFormat = 1

// ErrFixed refuses a registration with another mode or other priorities than the lambda has, or with fewer
// shards than it ever had.
var ErrFixed = errors.New("mode and priorities are fixed at creation, and shards only grow")

// Registration is the definition of a lambda.
type Registration struct {
	task.Lambda // with defaults, except that Shards are 0 where it does not say; without Ref, Created and Deleting

	// Quotas are the limits that the lambda is to have; nil: those that it has stay, unless they are of a
	// registration.
	Quotas []quota.Limit

	Declared

	Sum string // digest of its row
	Err error  // why it cannot be read or is invalid: then only its name is known
}

// Registered reads registrations from the store.
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

// registration is the row's value. An absent field has its default.
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

	KeyRetention int64  `json:"key_retention_us,omitempty"`
	PoisonBound  uint32 `json:"poison_bound,omitempty"`
	StartWithin  int64  `json:"start_within_us,omitempty"`

	PriorityWeights map[string]uint32 `json:"priority_weights,omitempty"`

	LimitKeyConcurrency int32   `json:"limit_key_concurrency,omitempty"`
	LimitKeyRate        float64 `json:"limit_key_rate,omitempty"`

	RetryShare      float64 `json:"retry_share,omitempty"`
	BreakerFailures float64 `json:"breaker_failures,omitempty"`
	BreakerWindow   int64   `json:"breaker_window_us,omitempty"`

	Quotas *registrationQuotas `json:"quotas,omitempty"`

	Crons     map[string]RegisteredCron `json:"crons,omitempty"`
	Objective *RegisteredObjective      `json:"objective,omitempty"`
}

// CheckSettings refuses settings, given without defaults, that have no meaning in a mode.
func CheckSettings(mode task.Mode, given task.Lambda) error {
	if mode != task.Deliver {
		return nil
	}
	var unfit []string
	for _, setting := range []struct {
		name  string
		given bool
	}{
		{"max attempts", given.MaxAttempts != 0},
		{"timeout", given.Timeout != 0},
		{"backoff", given.BackoffMin != 0 || given.BackoffMax != 0},
		{"poison bound", given.PoisonBound != 0},
		{"start within", given.StartWithin != 0},
		{"priority weights", given.PriorityWeights != nil},
		{"limits by key", given.HasKeyLimits()},
		{"retry share", given.RetryShare != 0},
		{"breaker", given.Breaker != task.Breaker{}},
	} {
		if setting.given {
			unfit = append(unfit, setting.name)
		}
	}
	if unfit == nil {
		return nil
	}
	return fmt.Errorf("%s: not for mode deliver, whose tasks are put on a queue and not executed by Kinesin; leave that out", strings.Join(unfit, ", "))
}

// ParseRegistration decodes a registration; errors are task.ErrInvalid or store.ErrCorrupt.
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
		KeyRetention: task.Micros(r.KeyRetention), PoisonBound: r.PoisonBound, StartWithin: task.Micros(r.StartWithin),
		LimitKeyConcurrency: r.LimitKeyConcurrency, LimitKeyRate: r.LimitKeyRate,
		RetryShare: r.RetryShare, Breaker: task.Breaker{Failures: r.BreakerFailures, Window: task.Micros(r.BreakerWindow)},
	}
	if want.PriorityWeights, err = task.WeightsOf(want.WithDefaults().Priorities, r.PriorityWeights); err != nil {
		return Registration{}, err
	}
	quotas, err := r.Quotas.limits(mode, want.WithDefaults().Priorities)
	if err != nil {
		return Registration{}, err
	}
	if err := CheckSettings(mode, want); err != nil {
		return Registration{}, fmt.Errorf("%w registration %s: %w", task.ErrInvalid, row.Name, err)
	}
	declared := Declared{Crons: r.Crons, Objective: r.Objective}
	if err := errors.Join(declared.validate(), checkFields(row)); err != nil {
		return Registration{}, err
	}
	sum := sha256.Sum256(row.Value)
	want = want.WithDefaults()
	invalid := want.Validate()
	want.Shards = r.Shards
	return Registration{Lambda: want, Quotas: quotas, Declared: declared, Sum: hex.EncodeToString(sum[:8])}, invalid
}

// checkFields refuses fields that this version does not know: servers that know them would take the lambda
// for one that has them.
func checkFields(row store.Control) error {
	d := json.NewDecoder(bytes.NewReader(row.Value))
	d.DisallowUnknownFields()
	if err := d.Decode(&registration{}); err != nil {
		return fmt.Errorf("%w registration %s: %w, which this program does not know; update the servers before the Terraform modules",
			task.ErrInvalid, row.Name, err)
	}
	return nil
}

// Fits refuses, with ErrFixed, a registration that an existing lambda can never become. The one that it was
// made of last always fits.
func (r *Registration) Fits(have *Entry) error {
	if have.Registration == r.Sum || have.Mode == r.Mode && slices.Equal(have.Priorities, r.Priorities) && r.shardsFit(have) {
		return nil
	}
	wayOut := "register another lambda with these settings; or delete it, and it is created anew of this registration"
	if have.Registration != "" {
		wayOut = "put the registration back; or wait until it has no live tasks, or delete it with its tasks dropped: then it is created anew of this " +
			"registration, a few minutes later, if all queues of that exist"
	}
	return fmt.Errorf("%w: the registration of %s wants mode %s, priorities %s, shards %d, and %s; %s",
		ErrFixed, r.Name, r.Mode, strings.Join(r.Priorities, ","), cmp.Or(r.Shards, have.Shards), describe(have.Lambda), wayOut)
}

// shardsFit reports whether a lambda can have the shards of a registration: more than it has, or a count that
// it had once and that a call made grow since.
func (r *Registration) shardsFit(have *Entry) bool {
	return r.Shards == 0 || r.Shards > have.Shards || have.HadShards(r.Shards)
}

// Register creates the lambda of a registration, or changes it when it was last made of another registration,
// and notes the digest of this one. So a change by a call stays until the registration itself changes. A
// deletion that has begun is cancelled: its Remove fails with ErrChanged. A lambda that cannot become so
// stays as it is (ErrFixed).
func (c *Catalog) Register(ctx context.Context, r Registration) (entry *Entry, created bool, err error) {
	entry, existed, err := c.create(ctx, r.Lambda, r.Sum, Owner{Urgent: true})
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
		if e.Registration == r.Sum { // what a call changed since stays
			return nil
		}
		if r.Shards > e.Shards {
			if err := e.Grow(r.Shards, c.GrownFrom()); err != nil {
				return err
			}
		}
		e.MaxAttempts, e.Timeout, e.BackoffMin, e.BackoffMax, e.Retention = r.MaxAttempts, r.Timeout, r.BackoffMin, r.BackoffMax, r.Retention
		e.KeyRetention, e.PoisonBound, e.StartWithin, e.PriorityWeights = r.KeyRetention, r.PoisonBound, r.StartWithin, r.PriorityWeights
		e.LimitKeyConcurrency, e.LimitKeyRate = r.LimitKeyConcurrency, r.LimitKeyRate
		e.RetryShare, e.Breaker = r.RetryShare, r.Breaker
		e.Registration = r.Sum
		return nil
	})
	return entry, false, err
}
