package backup

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Extract writes the files of the backup at path, a directory or an archive, into an empty directory and
// syncs them. It checks all of them against the manifest. Errors include ErrNone and ErrDamaged.
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

// readManifestOf reads the manifest of a directory.
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
		got, err := writeFile(filepath.Join(into, f.Name), os.O_EXCL, from)
		if err := errors.Join(err, from.Close(), f.matches(got)); err != nil {
			return m, err
		}
	}
	return m, nil
}

// extractArchive reads an archive up to the manifest, which is at its end.
func extractArchive(path, into string) (m Manifest, err error) {
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
