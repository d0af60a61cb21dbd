//go:build !windows

package backup

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock keeps others from writing to the same place while the file is open; a killed process loses the lock.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%s %w: another backup is being written to it", f.Name(), ErrPlace)
	}
	return err
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path) //nolint:gosec // the user names the place
	if err != nil {
		return err
	}
	return errors.Join(syncFile(d), d.Close())
}
