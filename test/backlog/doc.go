// Package backlog holds the tests of what waits in great numbers in the embedded store: tasks that no worker
// takes, tasks that run for hours, and wake-up rows that crashes left behind. With KINESIN_LONG there are
// a million of them. Its server runs in the test's process, where the reads of its store are counted.
package backlog
