//go:build linux

package process

import "testing"

// StartedTicks returns the start time of a process.
func StartedTicks(t *testing.T, pid int) uint64 {
	t.Helper()
	ticks, err := startedTicks(pid)
	if err != nil {
		t.Fatal(err)
	}
	return ticks
}
