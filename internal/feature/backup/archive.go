package backup

import (
	"archive/tar"
	"context"
	"errors"
	"os"
	"path/filepath"
)

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
