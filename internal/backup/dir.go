package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// filesName is the directory of the files, each under its sum: what two backups share is there once, and no
// file of an older one is ever written to.
const filesName = "files"

// unfinished ends the names of what is being written.
const unfinished = ".unfinished"

// dirPlace is a backup in a directory.
type dirPlace struct {
	path  string
	self  *os.File // held
	older []File
	file  *os.File // that is being written
}

func createDir(path string) (*dirPlace, error) {
	if err := os.MkdirAll(path, dirPerm); err != nil {
		return nil, err
	}
	self, err := os.Open(path) //nolint:gosec // the user names the place
	if err != nil {
		return nil, err
	}
	d := &dirPlace{path: path, self: self}
	err = hold(self)
	if err == nil {
		err = d.look()
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(path, filesName), dirPerm)
	}
	if err != nil {
		return nil, errors.Join(err, self.Close())
	}
	return d, nil
}

// look reads what is there.
func (d *dirPlace) look() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	known := []string{filesName, manifestName, manifestName + unfinished}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			return fmt.Errorf("%s %w: it holds %s, which is no part of one; name a directory that is new, empty or holds a backup", d.path, ErrPlace, e.Name())
		}
	}
	m, err := readManifestOf(d.path)
	switch {
	case errors.Is(err, ErrNone) || errors.Is(err, ErrDamaged): // all is sent
		return nil
	case err != nil:
		return err
	}
	for i := range m.Files {
		f := &m.Files[i]
		if info, err := os.Stat(d.pathOf(f)); err == nil && info.Size() == f.Bytes {
			d.older = append(d.older, *f)
		}
	}
	return nil
}

func (d *dirPlace) pathOf(f *File) string { return filepath.Join(d.path, filesName, f.SHA256) }

func (d *dirPlace) have() []File { return d.older }

func (d *dirPlace) keep(*File) error { return nil }

func (d *dirPlace) begin(*File) (w io.Writer, err error) {
	if d.file != nil {
		return nil, fmt.Errorf("%w: a file begins in another", ErrDamaged)
	}
	path := filepath.Join(d.path, filesName, "file"+unfinished)
	d.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, filePerm) //nolint:gosec // the user names the place
	return d.file, err
}

func (d *dirPlace) end(f *File) error {
	file := d.file
	d.file = nil
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), d.pathOf(f))
}

func (d *dirPlace) commit(manifest []byte, m *Manifest) error {
	if err := syncDir(filepath.Join(d.path, filesName)); err != nil {
		return err
	}
	path := filepath.Join(d.path, manifestName)
	if err := writeSynced(path+unfinished, manifest); err != nil {
		return err
	}
	if err := os.Rename(path+unfinished, path); err != nil {
		return err
	}
	if err := errors.Join(d.self.Sync(), syncDir(filepath.Dir(filepath.Clean(d.path)))); err != nil {
		return err
	}
	return d.removeOthers(m)
}

// removeOthers removes the files of the backup before that this one has no use for, and what interrupted ones
// left.
func (d *dirPlace) removeOthers(m *Manifest) error {
	wanted := make(map[string]bool, len(m.Files))
	for i := range m.Files {
		wanted[m.Files[i].SHA256] = true
	}
	entries, err := os.ReadDir(filepath.Join(d.path, filesName))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if ours := sumForm.MatchString(name) || strings.HasSuffix(name, unfinished); ours && !wanted[name] {
			if err := os.Remove(filepath.Join(d.path, filesName, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *dirPlace) close() error {
	var err error
	if d.file != nil {
		err = errors.Join(d.file.Close(), os.Remove(d.file.Name()))
	}
	return errors.Join(err, d.self.Close())
}
