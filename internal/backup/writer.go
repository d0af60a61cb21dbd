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
	"syscall"
	"time"
)

// place is where a backup is written: the form of directories or that of archives.
type place interface {
	have() []File
	begin(f *File) (io.Writer, error)
	end(f *File) error  // all of it is written, and f has its sum
	keep(f *File) error // it is there
	commit(manifest []byte, m *Manifest) error
	close() error // without commit: nothing remains that looks like this backup
}

// Writer writes one backup, file by file. It is for one goroutine.
type Writer struct {
	place    place
	manifest Manifest
	have     map[string]File // by name

	file    *File // that is being written
	into    io.Writer
	sum     hash.Hash
	written int64

	// SentBytes counts what was written.
	SentBytes int64
}

// Create begins a backup at path: in a directory, if there is one or path ends in a separator, else in an
// archive.
func Create(path string) (*Writer, error) {
	info, err := os.Stat(path)
	var p place
	switch {
	case err == nil && info.IsDir(), errors.Is(err, os.ErrNotExist) && strings.HasSuffix(path, string(filepath.Separator)):
		p, err = createDir(path)
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%s %w: it is neither a file nor a directory", path, ErrPlace)
	case err == nil, errors.Is(err, os.ErrNotExist):
		p, err = createArchive(path)
	}
	if err != nil {
		return nil, err
	}
	w := &Writer{place: p, have: map[string]File{}, sum: sha256.New()}
	for _, f := range p.have() {
		w.have[f.Name] = f
	}
	return w, nil
}

// Have lists what is there from an earlier backup.
func (w *Writer) Have() []File { return w.place.have() }

// Begin begins a file.
func (w *Writer) Begin(name string, size int64) (err error) {
	if err := checkName(name); err != nil {
		return err
	}
	w.file = &File{Name: name, Bytes: size}
	w.written = 0
	w.sum.Reset()
	w.into, err = w.place.begin(w.file)
	return err
}

// Write adds to the file that was begun.
func (w *Writer) Write(p []byte) (int, error) {
	if w.file == nil || w.written+int64(len(p)) > w.file.Bytes {
		return 0, fmt.Errorf("%w: more came of a file than was announced", ErrDamaged)
	}
	n, err := w.into.Write(p)
	_, _ = w.sum.Write(p[:n]) // never fails
	w.written += int64(n)
	w.SentBytes += int64(n)
	return n, err
}

// End ends the file that was begun, which must have that sum.
func (w *Writer) End(sum []byte) error {
	switch {
	case w.file == nil || w.written != w.file.Bytes:
		return fmt.Errorf("%w: less came of a file than was announced", ErrDamaged)
	case !bytes.Equal(sum, w.sum.Sum(nil)):
		return fmt.Errorf("%w: %s changed on its way", ErrDamaged, w.file.Name)
	}
	w.file.SHA256 = hex.EncodeToString(sum)
	err := w.place.end(w.file)
	w.manifest.Files = append(w.manifest.Files, *w.file)
	w.file = nil
	return err
}

// Keep takes over a file that Have named.
func (w *Writer) Keep(name string, sum []byte) error {
	f, known := w.have[name]
	if !known || f.SHA256 != hex.EncodeToString(sum) {
		return fmt.Errorf("%w: %s is not there from an earlier backup", ErrDamaged, name)
	}
	if err := w.place.keep(&f); err != nil {
		return err
	}
	w.manifest.Files = append(w.manifest.Files, f)
	return nil
}

// Commit ends the backup: it is complete, and on disk.
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

// Close ends the writing. Without Commit what was there before is still there.
func (w *Writer) Close() error { return w.place.close() }

// hold keeps others from writing to the same place as long as the file is open, also after this process was
// killed.
func hold(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%s %w: another backup is being written to it", f.Name(), ErrPlace)
	}
	return err
}

func syncDir(path string) error {
	d, err := os.Open(path) //nolint:gosec // the user names the place
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeSynced writes a file that is on disk afterwards.
func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, filePerm) //nolint:gosec // the user names the place
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// Files of a backup can be read by their owner alone.
const (
	filePerm = 0o600
	dirPerm  = 0o700
)
