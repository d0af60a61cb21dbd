//go:build !windows

package server

import (
	"fmt"
	"syscall"
)

// allowedFiles returns how many files this process may open. The runtime has raised that to the hard limit.
func allowedFiles() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("ask how many files may be open: %w", err)
	}
	return limit.Cur, nil
}
