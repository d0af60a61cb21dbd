// Package sdk is the client library of Kinesin: a Client schedules tasks and
// reads them, a Worker runs them.
//
// A lambda is declared once, as a value that both sides share:
//
//	var SendReminder = sdk.NewLambda[Reminder]("send-reminder", sdk.MaxAttempts(8))
//
//	id, err := SendReminder.Schedule(ctx, client, Reminder{User: 42},
//		sdk.In(30*24*time.Hour), sdk.Key("reminder-42"))
//
//	w := sdk.NewWorker(client, sdk.Slots(100))
//	SendReminder.Handle(w, func(ctx context.Context, t *sdk.Task[Reminder]) error {
//		return mail.Send(ctx, t.Args.User)
//	})
//	return w.Run(ctx) // returns after a drain when ctx ends
//
// Schedule returns when the task is durable. A handler may run more than once,
// because its process can die before it reports the outcome, but never twice
// at the same time; Attempt is a fencing number for what the handler changes.
// A supervisor has to restart the process of a worker: Run returns when the
// worker has lost its lease, and exits if handlers ignore that (ExitWith).
//
// Errors that callers decide on are sentinels of this package, for errors.Is.
package sdk
