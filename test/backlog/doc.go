// Package backlog holds the tests of what waits in great numbers in the embedded store: tasks that no worker
// takes, tasks that run for hours, and wake-up rows that crashes left behind. With
// KINESIN_BACKLOG_LONG there are a million of them.
package backlog
