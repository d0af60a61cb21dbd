package backup

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// storePrefix begins the names of the store's files in an archive.
const storePrefix = "store/"

// archivePlace is a backup in one file, which has another name until it is complete.
type archivePlace struct {
	path string
	file *os.File
	tar  *tar.Writer
	done bool
}

func createArchive(path string) (*archivePlace, error) {
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
	return &archivePlace{path: path, file: file, tar: tar.NewWriter(file)}, nil
}

func (a *archivePlace) begin(f *File) (io.Writer, error) {
	return a.tar, a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: storePrefix + f.Name, Size: f.Bytes, Mode: filePerm})
}

func (a *archivePlace) end(*File) error { return a.tar.Flush() }

func (a *archivePlace) commit(manifest []byte, m *Manifest) error {
	err := a.tar.WriteHeader(&tar.Header{
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

func (a *archivePlace) close() error {
	var err error
	if !a.done {
		err = os.Remove(a.file.Name())
	}
	return errors.Join(err, a.file.Close())
}
