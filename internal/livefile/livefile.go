// Package livefile keeps the contents of small files that others replace, such as certificates and tokens. It
// reads and bounds the files and keeps the last valid value; its caller parses them.
//
// There is no goroutine: Get reads again when the value is older than LookEvery. Files that cannot be read or
// parsed leave the last valid value in place, since a file may be read in the middle of its replacement.
package livefile

import (
	"bytes"
	"crypto/tls"
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

// ErrFile is returned for a file that cannot be used; the text names it.
var ErrFile = errors.New("cannot use file")

// Config configures Files. All but Changed is required.
type Config[T any] struct {
	Paths    []string
	BytesMax int64 // of each file
	// Parse returns the value of the contents, in the order of Paths. Its error must not quote them.
	Parse func(contents [][]byte) (T, error)
	Clock clock.Clock
	// Named returns the files that the contents of Paths name and that are part of a value, as Parse read
	// them. They are read again like Paths, and everything is parsed when one has changed. It may be nil.
	Named func(value T) []Content
	// Changed is called with nil after a reload, and with the error of a failed one, once for each error. It
	// may be nil.
	Changed func(err error)
}

// Content is what was read of a file.
type Content struct {
	Path  string
	Bytes []byte
}

// Files holds the last valid value of some files. It is safe for concurrent use.
type Files[T any] struct {
	Config[T]

	value  atomic.Pointer[T]
	lookAt atomic.Int64 // when to read again, in monotonic nanoseconds

	mu       sync.Mutex // held while reading
	contents [][]byte   // of the last valid value
	failure  string     // the last error reported
}

// Open reads the files. Its errors are ErrFile.
func Open[T any](c Config[T]) (*Files[T], error) {
	f := &Files[T]{Config: c}
	if err := f.read(); err != nil {
		return nil, err
	}
	f.lookAt.Store(int64(clock.Mono(c.Clock) + LookEvery))
	return f, nil
}

// Get returns the last valid value. It does not wait for another Get that reads the files.
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
			f.report(err)
		}
	case f.value.Load() != before || f.failure != "":
		f.failure = ""
		f.report(nil)
	}
}

func (f *Files[T]) report(err error) {
	if f.Changed != nil {
		f.Changed(err)
	}
}

// read reads the files, and parses them if they changed.
func (f *Files[T]) read() error {
	contents := make([][]byte, len(f.Paths))
	for i, path := range f.Paths {
		var err error
		if contents[i], err = Read(path, f.BytesMax); err != nil {
			return err
		}
	}
	if f.contents != nil && slices.EqualFunc(contents, f.contents, bytes.Equal) {
		if same, err := f.sameNamed(); same || err != nil {
			return err
		}
	}
	value, err := f.Parse(contents)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrFile, strings.Join(f.Paths, " and "), err)
	}
	f.contents = contents
	f.value.Store(&value)
	return nil
}

// sameNamed reports whether the files that the value names hold what they held.
func (f *Files[T]) sameNamed() (bool, error) {
	if f.Named == nil {
		return true, nil
	}
	for _, known := range f.Named(*f.value.Load()) {
		if now, err := Read(known.Path, f.BytesMax); err != nil || !bytes.Equal(now, known.Bytes) {
			return false, err
		}
	}
	return true, nil
}

// Read reads one file once. Its errors are ErrFile.
func Read(path string, bytesMax int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if !info.Mode().IsRegular() { // a read of a pipe would block
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

// IsLoose reports whether every user of this machine may read or change a file. Its group may, because that
// is how Kubernetes mounts Secrets.
func IsLoose(path string) bool {
	const others = 0o007
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&others != 0
}

// pairBytesMax bounds a file with a certificate chain or a key.
const pairBytesMax = 1 << 20

// OpenPair reads a certificate chain and its key, both in PEM, and reloads them when they change.
func OpenPair(certFile, keyFile string, c clock.Clock, changed func(error)) (*Files[*tls.Certificate], error) {
	return Open(Config[*tls.Certificate]{
		Paths: []string{certFile, keyFile}, BytesMax: pairBytesMax, Clock: c, Changed: changed,
		Parse: func(contents [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(contents[0], contents[1])
			return &pair, err
		},
	})
}
