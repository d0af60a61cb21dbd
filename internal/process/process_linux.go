package process

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Self returns the ID of this process. It fails unless /proc belongs to the process's own namespace.
var Self = sync.OnceValues(func() (ID, error) {
	pid := os.Getpid()
	if seen, err := os.Readlink("/proc/self"); err != nil || seen != strconv.Itoa(pid) {
		return ID{}, fmt.Errorf("%w: /proc shows %q, not process %d", ErrUnknown, seen, pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ID{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ID{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	started, err := startedTicks(pid)
	if err != nil {
		return ID{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	id := ID{PID: pid, StartedTicks: started}
	sum := sha256.Sum256([]byte(string(bytes.TrimSpace(boot)) + " " + namespace))
	copy(id.Place[:], sum[:])
	return id, nil
})

// statStarted is the index of the start time among the fields of /proc/PID/stat that follow the name. The
// name is in brackets and may hold anything.
const statStarted = 19

func startedTicks(pid int) (uint64, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= statStarted {
		return 0, fmt.Errorf("%w: %d fields in the state of process %d", ErrUnknown, len(fields), pid)
	}
	return strconv.ParseUint(string(fields[statStarted]), 10, 64)
}

// Watched is a process that ran when the watch began.
type Watched struct {
	mu sync.Mutex
	fd int // of the process; -1 when closed
}

// Watch begins to watch a process. It returns ErrElsewhere for a process that cannot be seen from here, does
// not run, or is this one.
func Watch(id ID) (*Watched, error) {
	self, err := Self()
	if err != nil {
		return nil, err
	}
	if id.Place != self.Place || id.PID <= 0 || id.PID == self.PID {
		return nil, ErrElsewhere
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, ErrElsewhere
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	w := &Watched{fd: fd}
	// The process with that number is the one of the descriptor, unless that one has ended.
	if started, err := startedTicks(id.PID); err != nil || started != id.StartedTicks || w.HasEnded() {
		_ = w.Close()
		return nil, ErrElsewhere
	}
	return w, nil
}

// HasEnded reports whether the process has ended for certain: all its threads are gone. A stopped process has
// not.
func (w *Watched) HasEnded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd < 0 {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n == 1 && fds[0].Revents&unix.POLLIN != 0 // with POLLHUP once the process was reaped
	}
}

// Close ends the watch. After that HasEnded returns false.
func (w *Watched) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	fd := w.fd
	if w.fd = -1; fd < 0 {
		return nil
	}
	return unix.Close(fd)
}
