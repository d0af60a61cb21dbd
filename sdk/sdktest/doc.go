// Package sdktest is a whole Kinesin for tests of code that uses package sdk: the
// server with all its roles on a store in memory, behind the real wire contract, in
// virtual time.
//
//	k := sdktest.New(t)
//	k.Lambda("send-reminder")
//	k.Run(NewWorker(k.Client()))
//	app := NewApp(k.Client())
//	app.SignUp(ctx, "ada@example.org")
//	k.Advance(30 * 24 * time.Hour) // returns when all that fell due has ended
//
// Time stands still, except in Advance, which moves it through every moment at which
// something falls due. At each of them it waits until what fell due has ended: handlers run
// for real, in goroutines of their own, and take no virtual time. A handler waits for virtual time with
// Kinesin.Sleep, or on its context, which ends at the task's timeout.
//
// The package owns the server, its store, its time and the workers it was told to run, and ends
// all of them with the test. It never waits for real time to pass, other than for handlers to return.
package sdktest
