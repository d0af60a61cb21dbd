package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Extract writes the files of the backup at path, a directory or an archive, into a directory that is there
// and empty, and syncs them. All of them are as the manifest says, or there is an error: ErrNone, ErrDamaged,
// or that of the system.
func Extract(path, into string) (Manifest, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if info.IsDir() {
		m, err = extractDir(path, into)
	} else {
		m, err = extractArchive(path, into)
	}
	if err != nil {
		return m, fmt.Errorf("backup %s: %w", path, err)
	}
	return m, syncDir(into)
}

// readManifestOf reads that of a directory.
func readManifestOf(path string) (Manifest, error) {
	f, err := os.Open(filepath.Join(path, manifestName)) //nolint:gosec // the user names the place
	if errors.Is(err, os.ErrNotExist) {
		return Manifest{}, fmt.Errorf("%w: it has no %s", ErrNone, manifestName)
	}
	if err != nil {
		return Manifest{}, err
	}
	m, err := readManifest(f)
	return m, errors.Join(err, f.Close())
}

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

func extractDir(path, into string) (Manifest, error) {
	m, err := readManifestOf(path)
	if err != nil {
		return m, err
	}
	for i := range m.Files {
		f := &m.Files[i]
		from, err := os.Open(filepath.Join(path, filesName, f.SHA256)) //nolint:gosec // the user names the place
		if errors.Is(err, os.ErrNotExist) {
			return m, fmt.Errorf("%w: %s is missing", ErrDamaged, f.Name)
		}
		if err != nil {
			return m, err
		}
		got, err := extractFile(from, filepath.Join(into, f.Name))
		if err := errors.Join(err, from.Close(), got.matches(f)); err != nil {
			return m, err
		}
	}
	return m, nil
}

// extractArchive reads an archive from its begin to its end, where the manifest is.
func extractArchive(path, into string) (m Manifest, err error) {
	file, err := os.Open(path) //nolint:gosec // the user names the place
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	found := map[string]content{}
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
			return m, compare(&m, found)
		}
		name, ours := strings.CutPrefix(entry.Name, storePrefix)
		if !ours || entry.Typeflag != tar.TypeReg || len(found) == filesMax {
			return m, fmt.Errorf("%w: it is an archive of something else", ErrNone)
		}
		if err := checkName(name); err != nil {
			return m, err
		}
		got, err := extractFile(in, filepath.Join(into, name))
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return m, fmt.Errorf("%w: it ends in %s", ErrNone, name)
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
		found[name] = got
	}
}

func compare(m *Manifest, found map[string]content) error {
	for i := range m.Files {
		f := &m.Files[i]
		got, there := found[f.Name]
		if !there {
			return fmt.Errorf("%w: %s is missing", ErrDamaged, f.Name)
		}
		if err := got.matches(f); err != nil {
			return err
		}
	}
	if len(found) != len(m.Files) {
		return fmt.Errorf("%w: it holds %d files, its manifest names %d", ErrDamaged, len(found), len(m.Files))
	}
	return nil
}

// content is what was read of a file.
type content struct {
	bytes int64
	sum   string
}

func (c content) matches(f *File) error {
	if c.bytes != f.Bytes || c.sum != f.SHA256 {
		return fmt.Errorf("%w: %s has %d bytes and the sum %.8s…, want %d and %.8s…", ErrDamaged, f.Name, c.bytes, c.sum, f.Bytes, f.SHA256)
	}
	return nil
}

// extractFile writes a new file that is on disk afterwards.
func extractFile(from io.Reader, path string) (content, error) {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm) //nolint:gosec // a checked name in a place that the user names
	if err != nil {
		return content{}, err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), from)
	return content{n, hex.EncodeToString(sum.Sum(nil))}, errors.Join(err, to.Sync(), to.Close())
}
