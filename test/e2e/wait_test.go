package e2e_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

// awaitPIDs waits until a file names so many processes.
func awaitPIDs(t *testing.T, path string, n int) []int {
	t.Helper()
	var pids []int
	eventually(t, "the commands run", func() bool {
		content, _ := os.ReadFile(path)
		pids = nil
		for field := range strings.FieldsSeq(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) >= n
	})
	return pids
}

// awaitGone waits until none of the processes runs.
func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		eventually(t, "process "+strconv.Itoa(pid)+" is gone", func() bool { return !harness.Runs(pid) })
	}
}
