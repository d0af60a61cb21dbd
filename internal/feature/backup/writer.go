package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// target is a place or an archive to which a backup is written.
type target interface {
	begin(ctx context.Context, f *File) error
	write(ctx context.Context, p []byte) error
	end(ctx context.Context, f *File) error // all of f is written
	commit(ctx context.Context, m *Manifest) error
	sentBytes() int64
	close() error // without commit it leaves nothing that looks like this backup
}

// Writer writes one backup, file by file, as they come from a server. It is for one goroutine.
type Writer struct {
	target   target
	manifest Manifest
	older    []File // of the backup that is there already

	file    *File // that is being written
	sum     hash.Hash
	written int64
}

// Create begins a backup at path: in a place if it is s3://BUCKET/PREFIX, a directory or ends in a separator, else in an
// archive. In a place, recovery points go after it that are older than keep.
func Create(ctx context.Context, path string, keep time.Duration) (*Writer, error) {
	w := &Writer{sum: sha256.New()}
	info, err := os.Stat(path)
	switch {
	case isURL(path), err == nil && info.IsDir(), errors.Is(err, os.ErrNotExist) && strings.HasSuffix(path, string(filepath.Separator)):
		w.target, w.older, err = createPoint(ctx, path, keep)
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%s %w: it is neither a file nor a directory", path, ErrPlace)
	case err == nil, errors.Is(err, os.ErrNotExist):
		w.target, err = createArchive(path)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Have returns the files of the earlier backup.
func (w *Writer) Have() []File { return w.older }

// SentBytes counts the written bytes.
func (w *Writer) SentBytes() int64 { return w.target.sentBytes() }

// Begin begins a file.
func (w *Writer) Begin(ctx context.Context, name string, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	if w.file != nil {
		return fmt.Errorf("%w: a file begins inside another", ErrDamaged)
	}
	w.file = &File{Name: name, Bytes: size}
	w.written = 0
	w.sum.Reset()
	return w.target.begin(ctx, w.file)
}

// Write adds to the current file.
func (w *Writer) Write(ctx context.Context, p []byte) error {
	if w.file == nil || w.written+int64(len(p)) > w.file.Bytes {
		return fmt.Errorf("%w: a file is longer than announced", ErrDamaged)
	}
	_, _ = w.sum.Write(p) // never fails
	w.written += int64(len(p))
	return w.target.write(ctx, p)
}

// End ends the current file, which must have that sum.
func (w *Writer) End(ctx context.Context, sum []byte) error {
	switch {
	case w.file == nil || w.written != w.file.Bytes:
		return fmt.Errorf("%w: a file is shorter than announced", ErrDamaged)
	case !bytes.Equal(sum, w.sum.Sum(nil)):
		return fmt.Errorf("%w: %s changed on its way", ErrDamaged, w.file.Name)
	}
	w.file.SHA256 = hex.EncodeToString(sum)
	err := w.target.end(ctx, w.file)
	w.manifest.Files = append(w.manifest.Files, *w.file)
	w.file = nil
	return err
}

// Keep adds a file that Have returned.
func (w *Writer) Keep(name string, sum []byte) error {
	at := slices.IndexFunc(w.older, func(f File) bool { return f.Name == name && f.SHA256 == hex.EncodeToString(sum) })
	if at < 0 {
		return fmt.Errorf("%w: %s is not there from an earlier backup", ErrDamaged, name)
	}
	w.manifest.Files = append(w.manifest.Files, w.older[at])
	return nil
}

// Commit completes the backup and makes it durable.
func (w *Writer) Commit(ctx context.Context, created time.Time) (Manifest, error) {
	w.manifest.Format, w.manifest.Created = format, created
	if err := w.manifest.check(); err != nil {
		return w.manifest, err
	}
	return w.manifest, w.target.commit(ctx, &w.manifest)
}

// Close ends the writing. Without Commit the backup of before stays as it was.
func (w *Writer) Close() error { return w.target.close() }

// pointTarget is a new recovery point in a place.
type pointTarget struct {
	newPoint

	keepFor time.Duration
	claim   int
	buffer  []byte
	pieces  []string // of the file that is being written
	cut     int64
}

// createPoint also returns the files of the newest recovery point, as far as it has their sums.
func createPoint(ctx context.Context, path string, keep time.Duration) (*pointTarget, []File, error) {
	p, err := OpenPlace(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	b, err := p.base(ctx)
	var claim Claim
	if err == nil {
		claim, err = p.newestClaim(ctx)
	}
	if err != nil {
		p.Close()
		return nil, nil, err
	}
	var older []File
	for _, f := range b.files {
		if f.SHA256 != "" && b.has(f) {
			older = append(older, *f)
		}
	}
	t := &pointTarget{newPoint: newPoint{place: p, base: &b, fresh: map[string]bool{}}, keepFor: keep, claim: claim.Number}
	return t, older, nil
}

func (t *pointTarget) begin(_ context.Context, f *File) error {
	t.cut, t.pieces, t.buffer = cutOf(f.Name), nil, t.buffer[:0]
	return nil
}

func (t *pointTarget) write(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		n := min(int64(len(p)), t.cut-int64(len(t.buffer)))
		t.buffer, p = append(t.buffer, p[:n]...), p[n:]
		if int64(len(t.buffer)) == t.cut {
			if err := t.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *pointTarget) flush(ctx context.Context) error {
	sum, err := t.piece(ctx, t.buffer)
	t.pieces, t.buffer = append(t.pieces, sum), t.buffer[:0]
	return err
}

func (t *pointTarget) end(ctx context.Context, f *File) error {
	if len(t.buffer) > 0 {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	f.PieceBytes, f.Pieces = t.cut, t.pieces
	return nil
}

func (t *pointTarget) sentBytes() int64 { return t.sent }

func (t *pointTarget) commit(ctx context.Context, m *Manifest) error {
	t.m = *m
	if _, err := t.newPoint.commit(ctx, t.claim, m.Created); err != nil {
		return err
	}
	if _, _, err := t.place.Prune(ctx, m.Created, t.keepFor); err != nil {
		return fmt.Errorf("the backup is complete, but older ones were not removed: %w", err)
	}
	return nil
}

func (t *pointTarget) close() error {
	t.place.Close()
	return nil
}

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
