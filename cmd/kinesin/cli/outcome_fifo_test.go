//go:build !windows

package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A command that puts a pipe in the place of its outcome file does not hold the worker up.
func TestAnOutcomeFileThatIsAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if o, err := takeOutcome(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("%v, %v", o, err)
	}
}
