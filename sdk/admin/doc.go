// Package admin is what operators do from Go: a Client has the settings of lambdas, gates, quotas, crons, jobs and the
// rest, each with Get, List, Create, Update and Delete where there is such a call, and with what else can be done to it.
//
//	a := admin.New(client)
//	_, _, err := a.Lambdas.Create(ctx, admin.Lambda{Name: "mail", MaxAttempts: 8})
//	gate, err := a.Gates.Create(ctx, admin.Gate{Action: admin.GatePause, Lambda: "mail", Reason: "maintenance"})
//	_, err = a.Gates.Resume(ctx, gate.ID, admin.GateResumeOptions{})
//
// What a call needs are its parameters. What may be left out is in a struct at their end, named after the noun and the
// verb, whose zero value is the default. A list of an empty lambda is of all that the caller may read.
//
// Refusals are the errors of package sdk, for errors.Is.
package admin
