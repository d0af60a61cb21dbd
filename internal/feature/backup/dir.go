package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// filesName is the directory of the files. Each is named by its sum, so two backups share what is the same,
// and a file of an older backup is never written to.
const filesName = "files"

// unfinished ends the names of files that are being written.
const unfinished = ".unfinished"

// dirPlace is a backup in a directory.
type dirPlace struct {
	path string
	self *os.File // locked
	file *os.File // that is being written
}

// createDir also returns the files of the backup that is there.
func createDir(path string) (d *dirPlace, older []File, err error) {
	if err := os.MkdirAll(path, dirPerm); err != nil {
		return nil, nil, err
	}
	self, err := os.Open(path) //nolint:gosec // the user names the place
	if err != nil {
		return nil, nil, err
	}
	d = &dirPlace{path: path, self: self}
	err = lock(self)
	if err == nil {
		older, err = d.older()
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(path, filesName), dirPerm)
	}
	if err != nil {
		return nil, nil, errors.Join(err, self.Close())
	}
	return d, older, nil
}

// older returns the files of the backup that is there. It refuses a directory that holds anything else.
func (d *dirPlace) older() (files []File, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	known := []string{filesName, manifestName, manifestName + unfinished}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			return nil, fmt.Errorf("%s %w: it holds %s, which is no part of one; name a directory that is new, empty or holds a backup", d.path, ErrPlace, e.Name())
		}
	}
	m, err := readManifestOf(d.path)
	switch {
	case errors.Is(err, ErrNone) || errors.Is(err, ErrDamaged): // the server sends all files
		return nil, nil
	case err != nil:
		return nil, err
	}
	for _, f := range m.Files {
		if info, err := os.Stat(d.pathOf(f.SHA256)); err == nil && info.Size() == f.Bytes {
			files = append(files, f)
		}
	}
	return files, nil
}

// pathOf returns the path of the file with that sum.
func (d *dirPlace) pathOf(sum string) string { return filepath.Join(d.path, filesName, sum) }

func (d *dirPlace) begin(*File) (w io.Writer, err error) {
	d.file, err = openPrivate(d.pathOf("file"+unfinished), os.O_TRUNC)
	return d.file, err
}

func (d *dirPlace) end(f *File) error {
	file := d.file
	d.file = nil
	if err := errors.Join(syncFile(file), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), d.pathOf(f.SHA256))
}

func (d *dirPlace) commit(manifest []byte, m *Manifest) error {
	if err := syncDir(filepath.Join(d.path, filesName)); err != nil {
		return err
	}
	path := filepath.Join(d.path, manifestName)
	if _, err := writeFile(path+unfinished, os.O_TRUNC, bytes.NewReader(manifest)); err != nil {
		return err
	}
	if err := os.Rename(path+unfinished, path); err != nil {
		return err
	}
	if err := errors.Join(syncFile(d.self), syncDir(filepath.Dir(filepath.Clean(d.path)))); err != nil {
		return err
	}
	return d.removeOthers(m)
}

// removeOthers removes files that this backup does not use, and the remains of interrupted ones.
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
			if err := os.Remove(d.pathOf(name)); err != nil {
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
