package backup

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// lock keeps others from writing to the same place while the file is open; a killed process loses the lock.
func lock(f *os.File) error {
	behind := &windows.Overlapped{OffsetHigh: 1 << 30} // far behind the content, which others may read
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, behind)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return fmt.Errorf("%s %w: another backup is being written to it", f.Name(), ErrPlace)
	}
	return err
}

// syncDir does nothing: Windows cannot sync a directory.
func syncDir(string) error { return nil }
