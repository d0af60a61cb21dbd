// Package sdktest is Kinesin for tests of code that uses package sdk: a server
// with all its roles and a store in memory, behind the real wire contract, in
// virtual time.
//
//	k := sdktest.New(t)
//	k.Lambda("send-reminder")
//	k.Run(NewWorker(k.Client()))
//	app := NewApp(k.Client())
//	app.SignUp(ctx, "ada@example.org")
//	k.Advance(30 * 24 * time.Hour) // returns when all that became due has ended
//
// Time stands still except in Advance, which moves it from one due time to the
// next, and waits at each until what is due has ended. Handlers run for real,
// in goroutines of their own, and take no virtual time. A handler waits for
// virtual time with Kinesin.Sleep, or on its context, which ends at the task's
// timeout.
//
// A task that the server holds, by a gate, a quota, a limit or an earlier
// occurrence of its cron, stops no time: it starts when the server lets it go.
//
// The server and the workers end with the test. The package never waits for
// real time to pass, except for handlers to return.
package sdktest
