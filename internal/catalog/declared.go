package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// RegisteredCronsMax bounds the crons of a registration, all of which each process reads every few seconds.
const RegisteredCronsMax = 100

// RegisteredCron is a cron of a lambda as its registration declares it. An absent setting has its default.
type RegisteredCron struct {
	Schedule        string            `json:"schedule"`
	Zone            string            `json:"zone,omitempty"`
	Start           time.Time         `json:"start,omitzero"`
	End             time.Time         `json:"end,omitzero"`
	JitterMS        int64             `json:"jitter_ms,omitempty"`
	Gap             string            `json:"gap,omitempty"`
	Fold            string            `json:"fold,omitempty"`
	Overlap         string            `json:"overlap,omitempty"`
	CatchUp         string            `json:"catch_up,omitempty"`
	CatchUpMax      uint32            `json:"catch_up_max,omitempty"`
	CatchUpWithinMS int64             `json:"catch_up_within_ms,omitempty"`
	FailuresMax     uint32            `json:"failures_max,omitempty"`
	Priority        string            `json:"priority,omitempty"`
	Collection      string            `json:"collection,omitempty"`
	Tags            map[string]string `json:"tags,omitempty"`
	Payload         string            `json:"payload,omitempty"`
}

// RegisteredObjective is the objective of a lambda as its registration declares it.
type RegisteredObjective struct {
	WithinUS int64   `json:"within_us"`
	Percent  float64 `json:"objective"`
	WindowUS int64   `json:"window_us,omitempty"` // 0: the default
}

// Declared is what a registration declares beside its lambda. Unlike the settings of the lambda, nobody but
// the registration changes it.
type Declared struct {
	Crons     map[string]RegisteredCron // by name
	Objective *RegisteredObjective      // nil: none
}

func (d *Declared) isNothing() bool { return len(d.Crons) == 0 && d.Objective == nil }

func (d *Declared) validate() error {
	var errs []error
	if len(d.Crons) > RegisteredCronsMax {
		errs = append(errs, fmt.Errorf("%w crons: %d of them in one registration; want at most %d", task.ErrInvalid, len(d.Crons), RegisteredCronsMax))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Crons)) {
		errs = append(errs, task.CheckName("cron", name))
	}
	return errors.Join(errs...)
}
