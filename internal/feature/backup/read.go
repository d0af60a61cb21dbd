package backup

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Extract writes the files of a backup into an empty directory and syncs them: of an archive, or of the recovery point
// of a place that is the newest not later than at; the newest of all for the zero time. It checks all of them against
// the manifest. Errors include ErrNone and ErrDamaged.
func Extract(ctx context.Context, from string, at time.Time, into string) (Manifest, error) {
	m, err := extract(ctx, from, at, into)
	if err != nil {
		return m, fmt.Errorf("backup %s: %w", from, err)
	}
	return m, syncDir(into)
}

func extract(ctx context.Context, from string, at time.Time, into string) (Manifest, error) {
	if !isURL(from) {
		info, err := os.Stat(from)
		if err != nil {
			return Manifest{}, err
		}
		if !info.IsDir() {
			return extractArchive(from, at, into)
		}
	}
	p, err := OpenExisting(ctx, from)
	if err != nil {
		return Manifest{}, err
	}
	defer p.Close()
	point, err := p.Find(ctx, at)
	if err != nil {
		return Manifest{}, err
	}
	m, err := p.Manifest(ctx, point)
	if err != nil {
		return m, err
	}
	for i := range m.Files {
		if _, err := p.fetch(ctx, &m.Files[i], filepath.Join(into, m.Files[i].Name), 0); err != nil {
			return m, err
		}
	}
	return m, nil
}

// fetch writes a file, of which the first pieces are there, and syncs it. It returns how many bytes it fetched.
func (p *Place) fetch(ctx context.Context, f *File, path string, there int) (fetched int64, err error) {
	file, err := openPrivate(path, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for n := there; n < len(f.Pieces); n++ {
		data, err := p.piece(ctx, f, n)
		if err != nil {
			return fetched, err
		}
		if _, err := file.WriteAt(data, int64(n)*f.PieceBytes); err != nil {
			return fetched, err
		}
		fetched += int64(len(data))
	}
	return fetched, errors.Join(file.Truncate(f.Bytes), syncFile(file))
}

// extractArchive reads an archive up to the manifest, which is at its end.
func extractArchive(path string, at time.Time, into string) (m Manifest, err error) {
	file, err := os.Open(path) //nolint:gosec // the user names the place
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	found := map[string]File{}
	for in := tar.NewReader(file); ; {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			return m, fmt.Errorf("%w: it ends before its %s", ErrNone, manifestName)
		}
		if err != nil {
			return m, fmt.Errorf("%w: no archive of a backup, or an incomplete one: %w", ErrDamaged, err)
		}
		if entry.Name == manifestName {
			if m, err = readManifest(in); err != nil {
				return m, err
			}
			if !at.IsZero() && m.Created.After(at) {
				return m, fmt.Errorf("%w that old: it is of %s", ErrNone, m.Created.Format(time.RFC3339Nano))
			}
			return m, m.compare(found)
		}
		name, ours := strings.CutPrefix(entry.Name, storePrefix)
		if !ours || entry.Typeflag != tar.TypeReg || len(found) == filesMax {
			return m, fmt.Errorf("%w: it is an archive of something else", ErrNone)
		}
		if err := checkName(name); err != nil {
			return m, err
		}
		found[name], err = writeFile(filepath.Join(into, name), os.O_EXCL, in)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return m, fmt.Errorf("%w: it ends in %s", ErrNone, name)
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// compare checks the extracted files, by name, against the manifest.
func (m *Manifest) compare(found map[string]File) error {
	for i := range m.Files {
		f := &m.Files[i]
		got, there := found[f.Name]
		if !there {
			return fmt.Errorf("%w: %s is missing", ErrDamaged, f.Name)
		}
		if err := f.matches(got); err != nil {
			return err
		}
	}
	if len(found) != len(m.Files) {
		return fmt.Errorf("%w: it holds %d files, its manifest names %d", ErrDamaged, len(found), len(m.Files))
	}
	return nil
}

// matches checks the size and sum of an extracted file.
func (f *File) matches(got File) error {
	if got.Bytes != f.Bytes || got.SHA256 != f.SHA256 {
		return fmt.Errorf("%w: %s has %d bytes and the sum %.8s…, want %d and %.8s…", ErrDamaged, f.Name, got.Bytes, got.SHA256, f.Bytes, f.SHA256)
	}
	return nil
}

// unfinished ends the name of an archive that is being written.
const unfinished = ".unfinished"

// storePrefix begins the names of the store's files in an archive.
const storePrefix = "store/"

// archive is a backup in one file, which has another name until it is complete.
type archive struct {
	path string
	file *os.File
	tar  *tar.Writer
	sent int64
	done bool
}

func createArchive(path string) (*archive, error) {
	file, err := openPrivate(path+unfinished, 0)
	if err != nil {
		return nil, err
	}
	err = lock(file)
	if err == nil {
		err = file.Truncate(0) // a killed process may have left something
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &archive{path: path, file: file, tar: tar.NewWriter(file)}, nil
}

func (a *archive) begin(_ context.Context, f *File) error {
	return a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: storePrefix + f.Name, Size: f.Bytes, Mode: filePerm})
}

func (a *archive) write(_ context.Context, p []byte) error {
	n, err := a.tar.Write(p)
	a.sent += int64(n)
	return err
}

func (a *archive) end(context.Context, *File) error { return a.tar.Flush() }

func (a *archive) sentBytes() int64 { return a.sent }

func (a *archive) commit(_ context.Context, m *Manifest) error {
	manifest, err := m.encode()
	if err != nil {
		return err
	}
	err = a.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: manifestName, Size: int64(len(manifest)), Mode: filePerm, ModTime: m.Created,
	})
	if err != nil {
		return err
	}
	if _, err := a.tar.Write(manifest); err != nil {
		return err
	}
	if err := errors.Join(a.tar.Close(), syncFile(a.file)); err != nil {
		return err
	}
	if err := os.Rename(a.file.Name(), a.path); err != nil {
		return err
	}
	a.done = true
	return syncDir(filepath.Dir(a.path))
}

func (a *archive) close() error {
	var err error
	if !a.done {
		err = os.Remove(a.file.Name())
	}
	return errors.Join(err, a.file.Close())
}
