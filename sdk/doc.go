// Package sdk is what an application uses of Kinesin: a client that schedules
// tasks and asks what became of them, and a worker that runs them.
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
// Schedule returns once the task is on disk. A handler may run more than once
// (its process can die before the outcome is reported), never twice at the same
// time, and gets Attempt as a fencing number to pass on to what it changes.
//
// A worker's process must be run by something that starts it again: Run returns when the
// worker has lost its lease with tasks in hand, because then they start elsewhere, and it ends
// the process if a handler ignores that (ExitWith).
//
// Errors that a caller decides on are the sentinels of this package; errors.Is
// finds them. The package owns connections and the retries of calls. It links
// neither the server nor a store, and it starts no goroutine outside of a call.
package sdk
