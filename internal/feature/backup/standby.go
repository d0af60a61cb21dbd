package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Standby keeps the files of the newest recovery point of a place in a directory, from which a store is made when it is
// promoted. It is for one goroutine.
type Standby struct {
	dir  string
	self *os.File // locked
	held Manifest // the zero value: nothing is complete
}

// OpenExisting opens a place that has had a backup. ErrNone means that it has none.
func OpenExisting(ctx context.Context, location string) (*Place, error) {
	if !isURL(location) {
		if _, err := os.Stat(location); err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(location, pointsName)); err != nil {
			return nil, fmt.Errorf("%w: it has no recovery points", ErrNone)
		}
	}
	return OpenPlace(ctx, location)
}

// OpenStandby opens the copy in a directory, which it makes if it does not exist. Another that is open is refused.
func OpenStandby(dir string) (*Standby, error) {
	if err := os.MkdirAll(dir, dirPerm); err != nil {
		return nil, err
	}
	self, err := os.Open(dir) //nolint:gosec // the user names the directory
	if err != nil {
		return nil, err
	}
	s := &Standby{dir: dir, self: self}
	if err := lock(self); errors.Is(err, ErrPlace) {
		return nil, errors.Join(fmt.Errorf("a standby runs on %s: stop it first", dir), self.Close())
	} else if err != nil {
		return nil, errors.Join(err, self.Close())
	}
	record, err := os.Open(s.path(manifestName))
	if err == nil {
		s.held, err = readManifest(record)
		if err := errors.Join(err, record.Close()); err != nil {
			s.held = Manifest{} // all is fetched again
		}
	}
	return s, nil
}

// Close closes the copy, which stays.
func (s *Standby) Close() error { return s.self.Close() }

// Held returns the time of the recovery point that is complete; zero if there is none.
func (s *Standby) Held() time.Time { return s.held.Created }

func (s *Standby) path(name string) string { return filepath.Join(s.dir, name) }

// Fetch fetches what the newest recovery point of a place has and the copy has not. It returns what the copy then is,
// and how many bytes it fetched.
func (s *Standby) Fetch(ctx context.Context, from *Place) (Manifest, int64, error) {
	point, err := from.Find(ctx, time.Time{})
	if err != nil {
		return s.held, 0, err
	}
	m, err := from.Manifest(ctx, point)
	if err != nil {
		return s.held, 0, err
	}
	if m.Created.Equal(s.held.Created) && m.Data == s.held.Data {
		return s.held, 0, nil
	}
	had := make(map[string]*File, len(s.held.Files))
	for i := range s.held.Files {
		had[s.held.Files[i].Name] = &s.held.Files[i]
	}
	fetched := int64(0)
	for i := range m.Files {
		n, err := s.file(ctx, from, &m.Files[i], had[m.Files[i].Name])
		fetched += n
		if err != nil {
			return s.held, fetched, err
		}
	}
	return m, fetched, s.record(&m)
}

// file fetches what is new of a file.
func (s *Standby) file(ctx context.Context, from *Place, f, had *File) (int64, error) {
	path := s.path(f.Name)
	there := s.sharedPieces(f, had)
	switch {
	case had != nil && there == len(f.Pieces) && f.Bytes == had.Bytes:
		return 0, nil
	case there > 0 && there >= len(had.Pieces)-1 && f.Bytes > had.Bytes: // it grew: what it was stays in it
		return from.fetch(ctx, f, path, there)
	case had != nil: // another file with the name
		if err := s.forget(); err != nil {
			return 0, err
		}
	}
	n, err := from.fetch(ctx, f, path+unfinished, 0)
	if err != nil {
		return n, err
	}
	return n, os.Rename(path+unfinished, path)
}

// sharedPieces returns how many pieces at the beginning of a file the copy has.
func (s *Standby) sharedPieces(f, had *File) (n int) {
	if had == nil || had.PieceBytes != f.PieceBytes {
		return 0
	}
	if info, err := os.Stat(s.path(f.Name)); err != nil || info.Size() < had.Bytes {
		return 0
	}
	for n < len(f.Pieces) && n < len(had.Pieces) && f.Pieces[n] == had.Pieces[n] {
		n++
	}
	return n
}

// forget notes that nothing is complete, before a file is replaced.
func (s *Standby) forget() error {
	if err := os.Remove(s.path(manifestName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(s.dir)
}

// record notes what is complete, and removes all else.
func (s *Standby) record(m *Manifest) error {
	content, err := m.encode()
	if err != nil {
		return err
	}
	if err := syncDir(s.dir); err != nil {
		return err
	}
	path := s.path(manifestName)
	if _, err := writeFile(path+unfinished, os.O_TRUNC, bytes.NewReader(content)); err != nil {
		return err
	}
	if err := os.Rename(path+unfinished, path); err != nil {
		return err
	}
	s.held = *m
	wanted := map[string]bool{manifestName: true}
	for i := range m.Files {
		wanted[m.Files[i].Name] = true
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !wanted[e.Name()] {
			if err := os.Remove(s.path(e.Name())); err != nil {
				return err
			}
		}
	}
	return syncDir(s.dir)
}

// MoveTo moves the files of the recovery point into a directory on the same file system, and removes the copy.
func (s *Standby) MoveTo(into string) error {
	for i := range s.held.Files {
		name := s.held.Files[i].Name
		if err := os.Rename(s.path(name), filepath.Join(into, name)); err != nil {
			return err
		}
	}
	if err := syncDir(into); err != nil {
		return err
	}
	return os.RemoveAll(s.dir)
}
