package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// place is a directory or an archive to which a backup is written.
type place interface {
	begin(f *File) (io.Writer, error)
	end(f *File) error // all of f is written, and f has its sum
	commit(manifest []byte, m *Manifest) error
	close() error // without commit it leaves nothing that looks like this backup
}

// Writer writes one backup, file by file. It is for one goroutine.
type Writer struct {
	place    place
	manifest Manifest
	older    []File // of the backup that is there already

	file    *File // that is being written
	into    io.Writer
	sum     hash.Hash
	written int64

	// SentBytes counts the written bytes.
	SentBytes int64
}

// Create begins a backup at path: in a directory if there is one or path ends in a separator, else in an
// archive.
func Create(path string) (*Writer, error) {
	w := &Writer{sum: sha256.New()}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir(), errors.Is(err, os.ErrNotExist) && strings.HasSuffix(path, string(filepath.Separator)):
		w.place, w.older, err = createDir(path)
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%s %w: it is neither a file nor a directory", path, ErrPlace)
	case err == nil, errors.Is(err, os.ErrNotExist):
		w.place, err = createArchive(path)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Have returns the files of the earlier backup.
func (w *Writer) Have() []File { return w.older }

// Begin begins a file.
func (w *Writer) Begin(name string, size int64) (err error) {
	if err := checkName(name); err != nil {
		return err
	}
	if w.file != nil {
		return fmt.Errorf("%w: a file begins inside another", ErrDamaged)
	}
	w.file = &File{Name: name, Bytes: size}
	w.written = 0
	w.sum.Reset()
	w.into, err = w.place.begin(w.file)
	return err
}

// Write adds to the current file.
func (w *Writer) Write(p []byte) (int, error) {
	if w.file == nil || w.written+int64(len(p)) > w.file.Bytes {
		return 0, fmt.Errorf("%w: a file is longer than announced", ErrDamaged)
	}
	n, err := w.into.Write(p)
	_, _ = w.sum.Write(p[:n]) // never fails
	w.written += int64(n)
	w.SentBytes += int64(n)
	return n, err
}

// End ends the current file, which must have that sum.
func (w *Writer) End(sum []byte) error {
	switch {
	case w.file == nil || w.written != w.file.Bytes:
		return fmt.Errorf("%w: a file is shorter than announced", ErrDamaged)
	case !bytes.Equal(sum, w.sum.Sum(nil)):
		return fmt.Errorf("%w: %s changed on its way", ErrDamaged, w.file.Name)
	}
	w.file.SHA256 = hex.EncodeToString(sum)
	err := w.place.end(w.file)
	w.manifest.Files = append(w.manifest.Files, *w.file)
	w.file = nil
	return err
}

// Keep adds a file that Have returned.
func (w *Writer) Keep(name string, sum []byte) error {
	for _, f := range w.older {
		if f.Name == name && f.SHA256 == hex.EncodeToString(sum) {
			w.manifest.Files = append(w.manifest.Files, f)
			return nil
		}
	}
	return fmt.Errorf("%w: %s is not there from an earlier backup", ErrDamaged, name)
}

// Commit completes the backup and makes it durable.
func (w *Writer) Commit(created time.Time) (Manifest, error) {
	w.manifest.Format, w.manifest.Created = format, created
	if err := w.manifest.check(); err != nil {
		return w.manifest, err
	}
	content, err := w.manifest.encode()
	if err != nil {
		return w.manifest, err
	}
	return w.manifest, w.place.commit(content, &w.manifest)
}

// Close ends the writing. Without Commit the backup of before stays as it was.
func (w *Writer) Close() error { return w.place.close() }

// syncFile makes a file, or the names in a directory, durable. Tests see what is synced, and when.
var syncFile = (*os.File).Sync

// writeFile writes a file and syncs it. flag is O_EXCL to create it, or O_TRUNC to replace it.
func writeFile(path string, flag int, from io.Reader) (written File, err error) {
	to, err := openPrivate(path, flag)
	if err != nil {
		return File{}, err
	}
	sum := sha256.New()
	written.Bytes, err = io.Copy(io.MultiWriter(to, sum), from)
	written.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return written, errors.Join(err, syncFile(to), to.Close())
}

// openPrivate opens a file to write, and makes it if need be. It is for its owner alone then, also if it was
// there.
func openPrivate(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, filePerm) //nolint:gosec // a checked name in a place that the user names
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(filePerm); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Only the owner may read the files of a backup.
const (
	filePerm = 0o600
	dirPerm  = 0o700
)
