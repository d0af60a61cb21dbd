// Package reminders is what the two sides of the example share: a lambda, with
// the type of its arguments.
package reminders

import "github.com/kinesin-io/kinesin/sdk"

// Reminder is what a task is about.
type Reminder struct {
	User int    `json:"user"`
	Text string `json:"text"`
}

// Send is the lambda. A task of it is tried up to 8 times.
var Send = sdk.NewLambda[Reminder]("send-reminder", sdk.MaxAttempts(8))
