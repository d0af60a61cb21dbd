// Package objective keeps objectives: which share of a lambda's tasks is to start within a time after they
// are due, over a window. Each process counts starts, and deaths of all lambdas, by the hour, one small
// control row for each hour, so that a crash loses a minute of counts at most, and any process can tell about
// the fleet. What is late and has not started is counted anew each minute, by the owners of its partitions.
package objective

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows of objectives, each named after its lambda.
const Kind = "objective"

// Bounds of an objective.
const (
	WithinMin     = time.Millisecond
	WithinMax     = 24 * time.Hour
	WindowMin     = time.Hour
	WindowMax     = 90 * 24 * time.Hour
	WindowDefault = 30 * 24 * time.Hour
	// ObjectivesMax bounds the objectives of an installation, and so the size of the rows with counts.
	ObjectivesMax = 500
)

// Objective is that of a lambda. Its JSON is how it is stored.
type Objective struct {
	control.Meta `json:"-"`

	Lambda    string        `json:"-"`
	Ref       uint32        `json:"ref"`
	Within    time.Duration `json:"within_ns"`
	Percent   float64       `json:"percent"`
	Window    time.Duration `json:"window_ns"`
	Updated   task.Instant  `json:"updated"`
	UpdatedBy string        `json:"updated_by,omitempty"`
	// ManagedBy names the declared set that it is of; empty: none.
	ManagedBy string `json:"managed_by,omitempty"`
	// Registered says that the registration of the lambda set it.
	Registered bool `json:"registered,omitempty"`
}

// Validate says what is allowed.
func (o *Objective) Validate() error {
	switch {
	case o.Within < WithinMin || o.Within > WithinMax:
		return fmt.Errorf("within %v: want %v to %v", o.Within, WithinMin, WithinMax)
	case !(o.Percent > 0 && o.Percent < 100):
		return fmt.Errorf("objective %v: want a percentage above 0 and below 100, such as 99 or 99.9; 100 would leave no budget", o.Percent)
	case o.Window < WindowMin || o.Window > WindowMax || o.Window%time.Hour != 0:
		return fmt.Errorf("window %v: want whole hours, 1 h to 90 days", o.Window)
	}
	return nil
}

// asRows says how objectives are kept as rows.
var asRows = control.Kind[Objective]{
	Live: Kind, What: "objective of lambda", Name: func(o *Objective) string { return o.Lambda },
	Read: func(name string, value []byte, o *Objective) error {
		o.Lambda = name
		return json.Unmarshal(value, o)
	},
}

// Count is how many tasks started, how many of them in time, and how many died. Those of a lambda without an
// objective died only.
type Count struct {
	Started, Good int64
	Dead          int64 `json:",omitempty"`
}

func (c Count) plus(other Count) Count {
	return Count{c.Started + other.Started, c.Good + other.Good, c.Dead + other.Dead}
}

// Attained returns the share of tasks that started in time, in percent.
func (c Count) Attained() float64 {
	if c.Started == 0 {
		return 100
	}
	return 100 * float64(c.Good) / float64(c.Started)
}

// Burn returns how fast the budget of an objective is used up: 1 uses up all of it in one window.
func (c Count) Burn(percent float64) float64 {
	return (100 - c.Attained()) / (100 - percent)
}

// Status says how an objective is met.
type Status struct {
	Objective
	Count

	Waiting int64 // tasks that are late already and have not started, which Count and Burns have as started
	Burns   []Burn
}

// BudgetLeft returns the share of the budget that is left; negative when more was late than may be.
func (s *Status) BudgetLeft() float64 { return 1 - s.Burn(s.Percent) }

// Burn is how fast the budget was used up over a time.
type Burn struct {
	Over time.Duration
	Count
}

// BurnSpans are the times over which burn is told. Counts are by the hour, so each is up to an hour longer.
func BurnSpans() []time.Duration {
	return []time.Duration{time.Hour, 6 * time.Hour, 72 * time.Hour}
}
