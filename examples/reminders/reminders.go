// Package reminders holds what both sides of the example share: a lambda, with
// the type of its arguments.
package reminders

import "github.com/kinesin-io/kinesin/sdk"

// Reminder is the argument of a task.
type Reminder struct {
	User int    `json:"user"`
	Text string `json:"text"`
}

// Send is the lambda. Its tasks are tried up to 8 times.
var Send = sdk.NewLambda[Reminder]("send-reminder", sdk.MaxAttempts(8))
