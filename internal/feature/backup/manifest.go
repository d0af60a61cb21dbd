// Package backup writes, checks and reads backups. A place, a directory or a bucket, has recovery points of a
// store, of which a later one adds only what is new. A tar archive has one of them. The package does not know what
// is in the files of a store.
//
// A manifest names all files with their checksums. It is written last; without it there is no backup.
//
//	place:   points/CLAIM-TIME…, pieces/SHA256…, claims/CLAIM…
//	archive: store/NAME…, manifest.json
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// format is the version of the format.
const format = 2

// Bounds of what is read.
const (
	filesMax         = 1 << 20
	manifestBytesMax = 256 << 20
	nameBytesMax     = 200
	pieceBytesCeil   = 64 << 20
)

const manifestName = "manifest.json"

// Manifest lists the content of a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"` // by the server's clock; the backup has all that was acknowledged before
	// Data is the id of the data directory, if its server wrote the backup by itself: in one directory a data file
	// never gets the name of another.
	Data  string `json:"data,omitempty"`
	Files []File `json:"files"`
}

// File is one file of a store.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"` // in hexadecimal digits; of files that came over the API
	// Pieces are the checksums of the parts of the file in a place, each of PieceBytes but the last.
	PieceBytes int64    `json:"piece_bytes,omitempty"`
	Pieces     []string `json:"pieces,omitempty"`
}

// pieceBytes returns the size of a file's piece.
func (f *File) pieceBytes(n int) int64 { return min(f.PieceBytes, f.Bytes-int64(n)*f.PieceBytes) }

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
		if names[f.Name] || f.Bytes < 0 || !f.hasSums() {
			return fmt.Errorf("%w: file %s is there twice, or has no size or sum", ErrDamaged, f.Name)
		}
		names[f.Name] = true
	}
	return nil
}

// hasSums reports whether a file has a checksum for all of it, and of the right form.
func (f *File) hasSums() bool {
	if f.PieceBytes == 0 {
		return len(f.Pieces) == 0 && sumForm.MatchString(f.SHA256)
	}
	for _, sum := range f.Pieces {
		if !sumForm.MatchString(sum) {
			return false
		}
	}
	return f.PieceBytes > 0 && f.PieceBytes <= pieceBytesCeil && int64(len(f.Pieces)) == (f.Bytes+f.PieceBytes-1)/f.PieceBytes
}

// readManifest reads a manifest to its end.
func readManifest(r io.Reader) (Manifest, error) {
	content, err := io.ReadAll(io.LimitReader(r, manifestBytesMax+1))
	if err != nil {
		return Manifest{}, err
	}
	if len(content) > manifestBytesMax {
		return Manifest{}, fmt.Errorf("%w: a manifest of more than %d bytes", ErrDamaged, manifestBytesMax)
	}
	return decodeManifest(content)
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
