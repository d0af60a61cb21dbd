// Package e2e holds the binary to what its users are told at the command line: what commands print, where,
// and with which exit status.
package e2e
