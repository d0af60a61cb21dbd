//go:build linux

package process

import "testing"

// StartedTicks is what a process would say of itself.
func StartedTicks(t *testing.T, pid int) uint64 {
	t.Helper()
	ticks, err := startedTicks(pid)
	if err != nil {
		t.Fatal(err)
	}
	return ticks
}
