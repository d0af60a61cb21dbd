// Package target is the role of a server that calls the targets of lambdas: it runs workers in the process of
// the server, whose handlers are the runners of target/httptarget and others (docs/adr/0049). It owns which
// worker serves which lambda. Its workers call the server as any worker does; no other role knows of targets.
package target
