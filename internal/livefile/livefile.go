// Package livefile keeps what is in small files at hand while others change them: certificates and tokens
// that are renewed under a running process. It owns reading, bounds and the last good value; what the files
// mean is its caller's.
//
// There is no goroutine: whoever asks looks again, at most every LookEvery. What cannot be read, or means
// nothing, leaves the last good value in force, since a file may be seen half-way through its change.
package livefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// LookEvery is how old a value may be before the files are read again.
const LookEvery = time.Second

// ErrFile says that a file cannot be used; the text names it.
var ErrFile = errors.New("cannot use file")

// Config says which files, and what is in them. All but Changed is required.
type Config[T any] struct {
	Paths    []string
	BytesMax int64 // of each file
	// Parse makes the value of what is in the files, in the order of Paths. Its error must not quote them.
	Parse func(contents [][]byte) (T, error)
	Clock clock.Clock
	// Changed is told of a new value (nil), and why a change is not taken, once for each reason; nil: nobody
	// is.
	Changed func(err error)
}

// Files are files and the last good value of what is in them. It is safe for concurrent use.
type Files[T any] struct {
	Config[T]

	value  atomic.Pointer[T]
	lookAt atomic.Int64 // when to read again, in monotonic nanoseconds

	mu       sync.Mutex // held while reading
	contents [][]byte   // of the last good value
	failure  string     // that was told last
}

// Open reads the files; what is wrong with them is ErrFile.
func Open[T any](c Config[T]) (*Files[T], error) {
	f := &Files[T]{Config: c}
	if err := f.read(); err != nil {
		return nil, err
	}
	f.lookAt.Store(int64(clock.Mono(c.Clock) + LookEvery))
	return f, nil
}

// Get is the last good value. Nobody waits while another one reads.
func (f *Files[T]) Get() T {
	if now := clock.Mono(f.Clock); int64(now) >= f.lookAt.Load() && f.mu.TryLock() {
		f.lookAt.Store(int64(now + LookEvery))
		f.refresh()
		f.mu.Unlock()
	}
	return *f.value.Load()
}

func (f *Files[T]) refresh() {
	before := f.value.Load()
	err := f.read()
	switch {
	case err != nil:
		if text := err.Error(); text != f.failure {
			f.failure = text
			f.tell(err)
		}
	case f.value.Load() != before || f.failure != "":
		f.failure = ""
		f.tell(nil)
	}
}

func (f *Files[T]) tell(err error) {
	if f.Changed != nil {
		f.Changed(err)
	}
}

// read takes in what is there, unless it is what was there.
func (f *Files[T]) read() error {
	contents := make([][]byte, len(f.Paths))
	for i, path := range f.Paths {
		var err error
		if contents[i], err = Read(path, f.BytesMax); err != nil {
			return err
		}
	}
	if f.contents != nil && slices.EqualFunc(contents, f.contents, bytes.Equal) {
		return nil
	}
	value, err := f.Parse(contents)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrFile, strings.Join(f.Paths, " and "), err)
	}
	f.contents = contents
	f.value.Store(&value)
	return nil
}

// Read reads one file, once; what is wrong with it is ErrFile.
func Read(path string, bytesMax int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for
		return nil, fmt.Errorf("%w %s: it is no regular file", ErrFile, path)
	}
	file, err := os.Open(path) //nolint:gosec // the caller names the file
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	content, err := io.ReadAll(io.LimitReader(file, bytesMax+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if int64(len(content)) > bytesMax {
		return nil, fmt.Errorf("%w %s: it is longer than %d bytes", ErrFile, path, bytesMax)
	}
	return content, nil
}
