// Package slo has the objectives of lambdas as sdk.Client sets and shows them: which share of a lambda's
// tasks is to start in time.
package slo

import "time"

// Objective says that a share of a lambda's tasks starts within a time after they are due, over a window that
// ends now.
type Objective struct {
	Lambda  string
	Within  time.Duration // 1 ms to 24 h
	Percent float64       // above 0 and below 100
	Window  time.Duration // whole hours, up to 90 days; zero: 30 days
	// ManagedBy names the declared set that it is of (kinesin apply). In SetObjective an empty one means no
	// change of it, and "none" that it is of none.
	ManagedBy string

	// The fields below are read only.

	Updated   time.Time
	UpdatedBy string // an identity
	// Registered says that the registration of the lambda set it (Terraform). Only that changes and deletes
	// it: calls are refused with sdk.ErrRegistered.
	Registered bool
}

// Status says how an objective is met.
type Status struct {
	Objective

	Started    int64   // tasks that started in the window, or expired, and those of Waiting
	Good       int64   // those of them that started in time
	Waiting    int64   // tasks that are late already and have not started
	Attained   float64 // percent; 100 while there is none
	BudgetLeft float64 // share of what may be late that is left, up to 1; negative when more was late
	Burns      []Burn
}

// Burn is how fast the budget was used up over a time: at 1 all of it is in one window.
type Burn struct {
	Over    time.Duration
	Rate    float64
	Started int64
}
