package blobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// putTriesMax is how often a Put makes the folders of a file again that a Delete removed meanwhile.
const putTriesMax = 5

// Dir keeps blobs as files in a directory, which programs on several machines may share by a network file
// system. Only the user of the program can read them. It is safe for concurrent use.
type Dir struct {
	root *os.Root
	path string

	// fault, if set, is called before each step of a Put, and fails it: for tests.
	fault func(step string) error
}

// OpenDir opens a directory, and makes it if it does not exist.
func OpenDir(dir string) (*Dir, error) {
	if err := os.MkdirAll(filepath.Join(dir, path.Clean(TempPrefix)), 0o700); err != nil {
		return nil, fmt.Errorf("open the blobs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the blobs: %w", err)
	}
	return &Dir{root: root, path: dir}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Put keeps a blob, and replaces one with the same name. When it returns nil the blob is durable, and other
// programs see all of it; after an error they see none, or all.
func (d *Dir) Put(ctx context.Context, name string, data []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	temp := TempPrefix + rand.Text()
	err := d.write(ctx, temp, data)
	if err == nil {
		err = d.publish(temp, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("put blob %s: %w", name, err), d.forget(temp))
	}
	return nil
}

func (d *Dir) write(ctx context.Context, temp string, data []byte) error {
	if err := errors.Join(ctx.Err(), d.step("create")); err != nil {
		return err
	}
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = d.step("write")
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = d.step("sync")
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// publish gives a file its name, and makes the name durable with all folders above it.
func (d *Dir) publish(temp, name string) error {
	folder := path.Dir(name)
	if err := d.step("rename"); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := d.root.MkdirAll(folder, 0o700)
		if err == nil {
			err = d.root.Rename(temp, name)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || try == putTriesMax {
			return err
		}
	}
	for ; ; folder = path.Dir(folder) {
		if err := errors.Join(d.step("sync folder"), d.syncFolder(folder)); err != nil {
			return err
		}
		if folder == "." {
			return nil
		}
	}
}

func (d *Dir) syncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil // it has no such call; names are durable with the file system's journal
	}
	f, err := d.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *Dir) forget(temp string) error {
	if err := d.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d *Dir) step(name string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(name)
}

// Get reads a blob. It returns ErrNotFound, or ErrTooLarge for one of more than bytesMax bytes.
func (d *Dir) Get(ctx context.Context, name string, bytesMax int64) ([]byte, error) {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s in %s", ErrNotFound, name, d.path)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	if info.Size() > bytesMax {
		return nil, fmt.Errorf("%w: %s has %d bytes, want at most %d", ErrTooLarge, name, info.Size(), bytesMax)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	return data, nil
}

// Delete deletes a blob, and the folders that it leaves empty. One that is not there is no error.
func (d *Dir) Delete(ctx context.Context, name string) error {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	if err := d.forget(name); err != nil {
		return fmt.Errorf("delete blob %s: %w", name, err)
	}
	d.tidy(name)
	return nil
}

// tidy removes the folders above a file that are empty.
func (d *Dir) tidy(name string) {
	for folder := path.Dir(name); folder != "." && folder+"/" != TempPrefix; folder = path.Dir(folder) {
		if d.root.Remove(folder) != nil {
			return // it has others
		}
	}
}

// List calls each with every blob, in the order of names, until it returns an error, and with the files that
// begin with TempPrefix.
func (d *Dir) List(ctx context.Context, each func(Entry) error) error {
	err := fs.WalkDir(d.root.FS(), ".", func(name string, f fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if f.IsDir() {
			return nil
		}
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return each(Entry{Name: name, Bytes: info.Size(), Put: info.ModTime()})
	})
	if err != nil {
		return fmt.Errorf("list the blobs in %s: %w", d.path, err)
	}
	return nil
}

func checkName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.HasSuffix(name, "/") {
		return fmt.Errorf("blob name %q: want a path whose parts are neither empty nor dots", name)
	}
	return nil
}
