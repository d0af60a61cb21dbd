package task

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ErrInvalid is in every refusal of a value by this package; the text says what is allowed.
var ErrInvalid = errors.New("invalid")

// Mode says who runs a lambda's tasks.
type Mode uint8

// The modes of a lambda.
const (
	Managed Mode = iota // workers of the SDK
	Deliver             // consumers of the SQS queue on which each task is put when it is due
)

// String returns the text of the mode.
func (m Mode) String() string {
	if m == Deliver {
		return "deliver"
	}
	return "managed"
}

// MarshalText returns the text of the mode.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is ParseMode.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMode(string(text))
	return err
}

// ParseMode reads the text of a mode; empty means managed.
func ParseMode(text string) (Mode, error) {
	switch text {
	case "", "managed":
		return Managed, nil
	case "deliver":
		return Deliver, nil
	}
	return Managed, fmt.Errorf("%w mode %q: want managed or deliver", ErrInvalid, text)
}

// Limits and defaults of a lambda's settings.
const (
	PrioritiesMax = 8
	ShardsMax     = 1024
	AttemptsMax   = 1000
	TimeoutMin    = 100 * time.Millisecond
	TimeoutMax    = 30 * 24 * time.Hour
	BackoffFloor  = time.Millisecond
	BackoffCeil   = 30 * 24 * time.Hour
	RetentionMin  = time.Minute
	RetentionMax  = 5 * 365 * 24 * time.Hour

	PoisonBoundMin = 2 // a task that lost one worker may be innocent
	PoisonBoundMax = 1000
	StartWithinMin = time.Millisecond
	StartWithinMax = 365 * 24 * time.Hour

	LimitKeyConcurrencyMax = 100_000
	LimitKeyRateMin        = 0.001 // starts per second
	LimitKeyRateMax        = 1_000_000

	PriorityWeightMax = 1000
	// PriorityWeightFloor is the weight of a priority that is not named where others are.
	PriorityWeightFloor = 1

	ShardsDefault      = 1
	MaxAttemptsDefault = 10
	TimeoutDefault     = 15 * time.Minute
	BackoffMinDefault  = time.Second
	BackoffMaxDefault  = 10 * time.Minute
	RetentionDefault   = 7 * 24 * time.Hour
	PoisonBoundDefault = 3

	// EndedMin is how long every ended row is kept at least. It is longer than two full scans over its
	// partition are apart, so that leftover rows are deleted before the row that refuses to start the task
	// again.
	EndedMin = 15 * time.Minute
	// DeadRetention is how long a dead letter is kept for inspection and redrive.
	DeadRetention = 90 * 24 * time.Hour
)

// PrioritiesDefault returns the priorities of a new lambda, highest first.
func PrioritiesDefault() []string { return []string{"high", "normal", "low"} }

// PriorityDefault is the priority of a task that names none, if the lambda has it; otherwise the lambda's
// middle priority is.
const PriorityDefault = "normal"

// Lambda is a named kind of work, with the settings of its tasks. Its JSON is how it is stored.
type Lambda struct {
	Name       string   `json:"-"`
	Ref        uint32   `json:"ref"` // identifies the lambda in keys and ids; a lambda that is created again gets a new one
	Mode       Mode     `json:"mode"`
	FIFO       bool     `json:"fifo,omitempty"` // the queues of mode deliver are FIFO queues
	Priorities []string `json:"priorities"`     // highest first
	// PriorityWeights are the weights of the priorities, in their order: while tasks of several wait, starts
	// are shared out by them. nil: strict, the highest priority first.
	PriorityWeights []uint16      `json:"priority_weights,omitempty"`
	Shards          uint16        `json:"shards"` // partitions per priority: the newest count, which may not be used yet
	MaxAttempts     uint32        `json:"max_attempts"`
	Timeout         time.Duration `json:"timeout_ns"` // of one attempt
	BackoffMin      time.Duration `json:"backoff_min_ns"`
	BackoffMax      time.Duration `json:"backoff_max_ns"`
	Retention       time.Duration `json:"retention_ns"` // how long ended rows are kept
	// KeyRetention is how long a key is held after its task ended as success or delivered; 0: Retention.
	KeyRetention time.Duration `json:"key_retention_ns,omitempty"`
	// PoisonBound is how many attempts in a row may be lost with their workers before the task is dead; 0:
	// PoisonBoundDefault.
	PoisonBound uint32 `json:"poison_bound,omitempty"`
	// StartWithin is how long after its due time a task expires if it never started; 0: never.
	StartWithin time.Duration `json:"start_within_ns,omitempty"`
	// LimitKeyConcurrency is how many tasks of one limit key run at once, and LimitKeyRate how many of them
	// start per second; 0: any number.
	LimitKeyConcurrency int32   `json:"limit_key_concurrency,omitempty"`
	LimitKeyRate        float64 `json:"limit_key_rate,omitempty"`
	LimitKeySet         Instant `json:"limit_key_set_us,omitempty"` // when these limits were changed last; zero: never
	// RetryShare is how many retries may start for each first start; 0: any number.
	RetryShare float64 `json:"retry_share,omitempty"`
	Breaker    Breaker `json:"breaker,omitzero"` // the zero value is none
	Target     *Target `json:"target,omitempty"` // nil: workers run the tasks
	Created    Instant `json:"created_us"`
	Deleting   bool    `json:"deleting,omitempty"` // refuses new tasks while its live tasks are dropped

	// ShardHistory is how Shards grew, oldest first; the last one is Shards. It is empty if they never grew.
	ShardHistory []ShardCount `json:"shard_history,omitempty"`
}

// WithDefaults returns a copy in which every unset field has its default.
func (l Lambda) WithDefaults() Lambda {
	if len(l.Priorities) == 0 {
		l.Priorities = PrioritiesDefault()
	}
	l.Shards = cmp.Or(l.Shards, ShardsDefault)
	l.MaxAttempts = cmp.Or(l.MaxAttempts, MaxAttemptsDefault)
	l.Timeout = cmp.Or(l.Timeout, TimeoutDefault)
	l.BackoffMin = cmp.Or(l.BackoffMin, BackoffMinDefault)
	l.BackoffMax = cmp.Or(l.BackoffMax, BackoffMaxDefault)
	l.Retention = cmp.Or(l.Retention, RetentionDefault)
	l.Breaker = l.Breaker.WithDefaults()
	return l
}

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// CheckName refuses the name of a lambda or priority that is not 1 to 64 of a–z, A–Z, 0–9, "_" and "-".
func CheckName(what, name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%w %s name %.80q: want 1 to 64 characters of a-z, A-Z, 0-9, '_' and '-'", ErrInvalid, what, name)
	}
	return nil
}

// Validate checks every setting and says for each wrong one what is allowed.
func (l Lambda) Validate() error {
	errs := []error{CheckName("lambda", l.Name)}
	if n := len(l.Priorities); n == 0 || n > PrioritiesMax {
		errs = append(errs, fmt.Errorf("%w priorities: want 1 to %d, have %d", ErrInvalid, PrioritiesMax, n))
	}
	seen := map[string]bool{}
	for _, p := range l.Priorities[:min(len(l.Priorities), PrioritiesMax)] {
		errs = append(errs, CheckName("priority", p))
		if seen[p] {
			errs = append(errs, fmt.Errorf("%w priorities: %q is named twice", ErrInvalid, p))
		}
		seen[p] = true
	}
	errs = append(errs,
		l.checkWeights(),
		between("shards", int64(l.Shards), 1, ShardsMax),
		l.checkShardHistory(),
		between("max attempts", int64(l.MaxAttempts), 1, AttemptsMax),
		durationBetween("timeout", l.Timeout, TimeoutMin, TimeoutMax),
		durationBetween("backoff minimum", l.BackoffMin, BackoffFloor, BackoffCeil),
		durationBetween("backoff maximum", l.BackoffMax, l.BackoffMin, BackoffCeil),
		durationBetween("retention", l.Retention, RetentionMin, RetentionMax),
		unlessZero(l.KeyRetention, durationBetween("key retention", l.KeyRetention, RetentionMin, RetentionMax)),
		unlessZero(l.PoisonBound, between("poison bound", int64(l.PoisonBound), PoisonBoundMin, PoisonBoundMax)),
		unlessZero(l.StartWithin, durationBetween("start within", l.StartWithin, StartWithinMin, StartWithinMax)),
		l.checkKeyLimits(),
		l.checkTarget(),
		l.checkFIFO())
	return errors.Join(append(errs, l.checkBrakes()...)...)
}

// Validate checks the settings of one task; zero fields mean the lambda's and are fine.
func (o Overrides) Validate() error {
	var errs []error
	if o.MaxAttempts != 0 {
		errs = append(errs, between("max attempts", int64(o.MaxAttempts), 1, AttemptsMax))
	}
	if o.Timeout != 0 {
		errs = append(errs, durationBetween("timeout", o.Timeout, TimeoutMin, TimeoutMax))
	}
	if o.BackoffMin != 0 || o.BackoffMax != 0 {
		errs = append(errs,
			durationBetween("backoff minimum", o.BackoffMin, BackoffFloor, BackoffCeil),
			durationBetween("backoff maximum", o.BackoffMax, o.BackoffMin, BackoffCeil))
	}
	return errors.Join(errs...)
}

// Priority returns the index of a priority; the empty name means the default priority.
func (l *Lambda) Priority(name string) (uint8, error) {
	if name == "" {
		name = PriorityDefault
		if _, found := l.priorityIndex(name); !found {
			return uint8(len(l.Priorities) / 2), nil
		}
	}
	if i, found := l.priorityIndex(name); found {
		return i, nil
	}
	return 0, fmt.Errorf("%w priority %.80q: lambda %s has %s", ErrInvalid, name, l.Name, strings.Join(l.Priorities, ", "))
}

func (l *Lambda) priorityIndex(name string) (uint8, bool) {
	for i, p := range l.Priorities {
		if p == name {
			return uint8(i), true
		}
	}
	return 0, false
}

// PolicyFor returns the settings of a task: its own, or else the lambda's.
func (l *Lambda) PolicyFor(t *Task) Policy {
	p := Policy{
		MaxAttempts: l.MaxAttempts, Timeout: l.Timeout, Retention: l.Retention,
		BackoffMin: l.BackoffMin, BackoffMax: l.BackoffMax, KeyRetention: cmp.Or(l.KeyRetention, l.Retention), PoisonBound: l.PoisonBound,
	}
	o := t.Overrides
	if o.MaxAttempts != 0 {
		p.MaxAttempts = o.MaxAttempts
	}
	if o.Timeout != 0 {
		p.Timeout = o.Timeout
	}
	if o.BackoffMin != 0 || o.BackoffMax != 0 {
		p.BackoffMin, p.BackoffMax = o.BackoffMin, o.BackoffMax
	}
	return p
}

func unlessZero[T comparable](v T, err error) error {
	if v == *new(T) {
		return nil
	}
	return err
}

func between(what string, v, lowest, highest int64) error {
	if v < lowest || v > highest {
		return fmt.Errorf("%w %s %d: want %d to %d", ErrInvalid, what, v, lowest, highest)
	}
	return nil
}

func durationBetween(what string, v, lowest, highest time.Duration) error {
	if v < lowest || v > highest {
		return fmt.Errorf("%w %s %v: want %v to %v", ErrInvalid, what, v, lowest, highest)
	}
	return nil
}

// Bounds and defaults of the brakes of a lambda.
const (
	RetryShareMin = 0.01
	RetryShareMax = 10

	BreakerFailuresMin   = 0.01
	BreakerFailuresMax   = 1
	BreakerWindowMin     = 10 * time.Second
	BreakerWindowMax     = time.Hour
	BreakerWindowDefault = time.Minute
)

// Breaker is the setting of a lambda's circuit breaker: it pauses the lambda when the share Failures of the
// attempts that ended within Window have failed. The zero value is none.
type Breaker struct {
	Failures float64       `json:"failures"`
	Window   time.Duration `json:"window_ns"`
}

// IsSet reports whether there is a breaker.
func (b Breaker) IsSet() bool { return b.Failures > 0 }

// WithDefaults returns a copy in which a breaker without a window has the default one.
func (b Breaker) WithDefaults() Breaker {
	if b.IsSet() && b.Window == 0 {
		b.Window = BreakerWindowDefault
	}
	return b
}

func (b Breaker) validate() error {
	switch {
	case b == Breaker{}:
		return nil
	case b.Failures == 0:
		return fmt.Errorf("%w breaker window %v: the lambda has no breaker; give the share of failures too", ErrInvalid, b.Window)
	case !(b.Failures >= BreakerFailuresMin && b.Failures <= BreakerFailuresMax):
		return fmt.Errorf("%w breaker failures %v: want %v to %v, a share of the attempts", ErrInvalid, b.Failures, BreakerFailuresMin, BreakerFailuresMax)
	}
	return durationBetween("breaker window", b.Window, BreakerWindowMin, BreakerWindowMax)
}

// checkBrakes checks the retry share and the breaker.
func (l *Lambda) checkBrakes() []error {
	var share error
	if s := l.RetryShare; s != 0 && !(s >= RetryShareMin && s <= RetryShareMax) || math.IsNaN(l.RetryShare) {
		share = fmt.Errorf("%w retry share %v: want %v to %v retries for each first start", ErrInvalid, l.RetryShare, RetryShareMin, RetryShareMax)
	}
	return []error{share, l.Breaker.validate()}
}

// WeightsOf returns the weights of a lambda's priorities in their order, from what is given by name: a
// priority that is not named has PriorityWeightFloor. Nothing given is strict, which is nil. It refuses, with
// ErrInvalid, a name that is no priority of the lambda, and a weight that is not 1 to PriorityWeightMax.
func WeightsOf(priorities []string, given map[string]uint32) ([]uint16, error) {
	if len(given) == 0 {
		return nil, nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(priorities, name) {
			errs = append(errs, fmt.Errorf("%w priority weights: %.80q is no priority of the lambda, which has %s", ErrInvalid, name, strings.Join(priorities, ", ")))
		}
		errs = append(errs, checkWeight(name, given[name]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	weights := make([]uint16, len(priorities))
	for i, name := range priorities {
		weights[i] = PriorityWeightFloor
		if weight, named := given[name]; named {
			weights[i] = uint16(weight)
		}
	}
	return weights, nil
}

func checkWeight(priority string, weight uint32) error {
	return between(fmt.Sprintf("weight of priority %.80q", priority), int64(weight), 1, PriorityWeightMax)
}

// checkWeights refuses weights that are not one for each priority.
func (l *Lambda) checkWeights() error {
	if l.PriorityWeights == nil {
		return nil
	}
	if len(l.PriorityWeights) != len(l.Priorities) {
		return fmt.Errorf("%w priority weights: want %d, one for each priority, have %d", ErrInvalid, len(l.Priorities), len(l.PriorityWeights))
	}
	var errs []error
	for i, weight := range l.PriorityWeights {
		errs = append(errs, checkWeight(l.Priorities[i], uint32(weight)))
	}
	return errors.Join(errs...)
}

// NamedWeights returns the weight of each priority by its name; nil if the order is strict.
func (l *Lambda) NamedWeights() map[string]uint32 {
	if l.PriorityWeights == nil {
		return nil
	}
	named := make(map[string]uint32, len(l.PriorityWeights))
	for i, weight := range l.PriorityWeights {
		named[l.Priorities[i]] = uint32(weight)
	}
	return named
}

// PrioritiesBefore returns how many of the lambda's priorities, from the highest on, have tasks that one of
// this priority must not overtake: its own and all higher ones; with weights all, since each has its turns.
func (l *Lambda) PrioritiesBefore(priority uint8) uint8 {
	if l.PriorityWeights != nil {
		return uint8(len(l.Priorities))
	}
	return priority + 1
}

// checkFIFO refuses FIFO queues for a lambda whose tasks are on queues of Kinesin's own.
func (l *Lambda) checkFIFO() error {
	if l.FIFO && l.Mode != Deliver {
		return fmt.Errorf("%w fifo: only for mode deliver, whose queues others read", ErrInvalid)
	}
	return nil
}

// HasKeyLimits reports whether the tasks of each limit key of the lambda are limited.
func (l *Lambda) HasKeyLimits() bool { return l.LimitKeyConcurrency > 0 || l.LimitKeyRate > 0 }

// checkKeyLimits refuses limits by key that are out of bounds, and those of a deliver lambda.
func (l *Lambda) checkKeyLimits() error {
	switch rate := l.LimitKeyRate; {
	case l.LimitKeyConcurrency < 0 || l.LimitKeyConcurrency > LimitKeyConcurrencyMax:
		return fmt.Errorf("%w limit key concurrency %d: want 1 to %d", ErrInvalid, l.LimitKeyConcurrency, LimitKeyConcurrencyMax)
	case rate != 0 && !(rate >= LimitKeyRateMin && rate <= LimitKeyRateMax): // also not a number
		return fmt.Errorf("%w limit key rate %v: want %v to %v starts per second", ErrInvalid, rate, LimitKeyRateMin, LimitKeyRateMax)
	case l.Mode == Deliver && l.HasKeyLimits():
		return fmt.Errorf("%w limits by key: lambda %s is of mode deliver, so Kinesin does not know when its tasks run", ErrInvalid, l.Name)
	}
	return nil
}
