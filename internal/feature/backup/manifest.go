// Package backup writes, checks and reads backups on disk. A backup is a directory, to which a later backup
// adds only new files, or one tar archive. The package does not know what is in the files of a store.
//
// A manifest names all files with their SHA-256. It is written last; without it there is no backup.
//
//	directory: manifest.json, files/SHA256…
//	archive:   store/NAME…, manifest.json
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Errors that callers distinguish.
var (
	// ErrDamaged means that a backup fails its checks.
	ErrDamaged = errors.New("damaged backup")
	// ErrNone means that there is no complete backup.
	ErrNone = errors.New("no complete backup")
	// ErrPlace means that a backup cannot be written to a place; the text says why.
	ErrPlace = errors.New("cannot hold a backup")
)

// format is the version of the format on disk.
const format = 1

// Bounds of what is read.
const (
	filesMax         = 1 << 20
	manifestBytesMax = 256 << 20
	nameBytesMax     = 200
)

const manifestName = "manifest.json"

// Manifest lists the content of a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"` // by the server's clock; the backup has all that was acknowledged before
	Files   []File    `json:"files"`
}

// File is one file of a store.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hexadecimal digits
}

// Bytes returns the size of all files together.
func (m *Manifest) Bytes() (sum int64) {
	for i := range m.Files {
		sum += m.Files[i].Bytes
	}
	return sum
}

// encode returns the manifest as one line of JSON, and a line with the sum of the first.
func (m *Manifest) encode() ([]byte, error) {
	line, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	return fmt.Appendf(line, "%x\n", sha256.Sum256(line)), nil
}

func decodeManifest(content []byte) (m Manifest, err error) {
	line, rest, _ := bytes.Cut(content, []byte{'\n'})
	sum := sha256.Sum256(append(slices.Clip(line), '\n'))
	if string(rest) != hex.EncodeToString(sum[:])+"\n" {
		return m, fmt.Errorf("%w: its manifest fails its checksum", ErrDamaged)
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("%w: manifest: %w", ErrDamaged, err)
	}
	if m.Format != format {
		return m, fmt.Errorf("the backup has format %d, this program reads %d: restore it with the version that made it", m.Format, format)
	}
	return m, m.check()
}

func (m *Manifest) check() error {
	if len(m.Files) > filesMax {
		return fmt.Errorf("%w: %d files, want %d at most", ErrDamaged, len(m.Files), filesMax)
	}
	names := make(map[string]bool, len(m.Files))
	for i := range m.Files {
		f := &m.Files[i]
		if err := checkName(f.Name); err != nil {
			return err
		}
		if names[f.Name] || f.Bytes < 0 || !sumForm.MatchString(f.SHA256) {
			return fmt.Errorf("%w: file %s is there twice, or has no size or sum", ErrDamaged, f.Name)
		}
		names[f.Name] = true
	}
	return nil
}

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	sumForm  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// checkName refuses names that could lead out of a directory.
func checkName(name string) error {
	if len(name) > nameBytesMax || !nameForm.MatchString(name) {
		return fmt.Errorf("%w: it names a file %.40q", ErrDamaged, name)
	}
	return nil
}
