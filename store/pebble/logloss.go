package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

// lostSuffix ends the names of logs that --accept-loss sets aside. The engine ignores such files.
const lostSuffix = ".lost"

// logLoss is a log that does not hold all that was once on disk.
type logLoss struct {
	file   string // the log, or the file with the marks
	number uint64 // of the log; 0 when it is not known which
	found  string // and what may be lost
	keep   int64  // bytes of the log before what is missing; -1 when there is no such file
}

func (l *logLoss) String() string { return l.file + " " + l.found }

func marksLoss(found string) logLoss {
	return logLoss{file: marksName, found: found + ": it cannot be told whether acknowledged writes are lost", keep: -1}
}

// logState is what is known of the logs of a store.
type logState struct {
	marks  marksRecord
	marked bool // marks are valid
	lost   []logLoss
}

// inspectLogs compares the logs with the marks. exists says that there is a manifest.
func (d *Driver) inspectLogs(exists bool) (s logState, err error) {
	s.marks, s.marked, err = readMarks(d.cfg.FS, d.dir)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		s.marked, s.lost = false, append(s.lost, marksLoss("is damaged"))
	case err != nil:
		return s, err
	case s.marks.New && !exists:
		return s, nil
	case s.marks.New: // they do not describe the files that somebody has put here since
		s.marks, s.marked = marksRecord{}, false
	}
	if !s.marked && exists && len(s.lost) == 0 && !d.cfg.unmarked {
		hadMarks, err := d.hadMarks()
		if err != nil {
			return s, err
		}
		if hadMarks {
			s.lost = append(s.lost, marksLoss("is missing"))
		}
	}
	return s, d.findLosses(&s, exists)
}

// findLosses checks the logs that the marks name. Without marks it checks the newest log by itself.
func (d *Driver) findLosses(s *logState, exists bool) error {
	found, err := listDir(d.cfg.FS, d.dir)
	if err != nil {
		return err
	}
	wanted := s.marks.Logs
	if !s.marked && len(found.logs) > 0 {
		wanted = []uint64{slices.Max(slices.Collect(maps.Keys(found.logs)))}
	} else if !s.marked && exists {
		s.lost = append(s.lost, logLoss{file: "*.log", found: "is missing: there is no log, and the last acknowledged writes are lost", keep: -1})
	}
	for i, number := range wanted {
		through, isLast := uint64(0), i == len(wanted)-1
		if isLast {
			through = s.marks.Through
		}
		loss, err := d.checkLog(found.logs[number], number, through, isLast)
		if err != nil {
			return err
		}
		if loss != nil {
			s.lost = append(s.lost, *loss)
		}
	}
	return nil
}

// checkLog returns what is missing in a log, nil when nothing is. name is empty when the log is missing.
// Every log but the last has a trailer, because it was closed before the next one began. The last one may end
// in a write that a crash interrupted, which was not acknowledged.
func (d *Driver) checkLog(name string, number, through uint64, isLast bool) (*logLoss, error) {
	if name == "" {
		name = fmt.Sprintf("%06d.log", number)
		return &logLoss{file: name, number: number, keep: -1, found: "is missing: the acknowledged writes in it are lost"}, nil
	}
	var c logCheck
	if err := readLog(d.cfg.FS, d.cfg.FS.PathJoin(d.dir, name), number, &c); err != nil {
		return nil, fmt.Errorf("read log %s: %w", name, err)
	}
	loss := &logLoss{file: name, number: number, keep: c.sound}
	switch {
	case c.lost:
		loss.found = fmt.Sprintf("is damaged at offset %d, before writes that were on disk: what follows there is lost", c.offset)
	case c.end == 0 && through > 0:
		loss.found = "holds nothing that can be read: the acknowledged writes in it are lost"
	case c.end < through:
		loss.found = fmt.Sprintf("ends at offset %d, before writes that were on disk: %d changes of rows are lost", c.sound, through-c.end)
	case !isLast && !c.ended:
		loss.found = fmt.Sprintf("ends at offset %d, without its trailer: what followed there is lost", c.sound)
	default:
		return nil, nil
	}
	return loss, nil
}

// hadMarks reports whether a store without marks once had some.
func (d *Driver) hadMarks() (bool, error) {
	db, err := d.openReadOnly(d.cfg.FS)
	if err != nil {
		return false, nil //nolint:nilerr // opening it for writing reports the error
	}
	_, closer, err := db.Get([]byte{metaSpace, metaMarked})
	if errors.Is(err, pebbledb.ErrNotFound) {
		return false, db.Close()
	}
	if err != nil {
		return false, errors.Join(err, db.Close())
	}
	return true, errors.Join(closer.Close(), db.Close())
}

// checkLogs refuses a store whose logs are not complete. With Config.AcceptLoss it instead returns the store
// to the moment before what is missing.
func (d *Driver) checkLogs(exists bool) (logState, error) {
	s, err := d.inspectLogs(exists)
	switch {
	case err != nil:
		return s, err
	case s.marked && !exists && !s.marks.New:
		return s, fmt.Errorf("%w: the manifest is missing", store.ErrCorrupt)
	case len(s.lost) == 0:
		return s, nil
	case !d.cfg.AcceptLoss:
		return s, d.lossError(s.lost)
	}
	if err := d.accept(s.lost); err != nil {
		return s, fmt.Errorf("set damaged logs aside: %w", err)
	}
	return logState{}, nil
}

func (d *Driver) lossError(lost []logLoss) error {
	texts := make([]string, len(lost))
	for i := range lost {
		texts[i] = lost[i].String()
	}
	return d.refuse(fmt.Errorf("%w: %s", store.ErrCorrupt, strings.Join(texts, "; ")), "put the files back, restore a backup, "+
		"or go on without what is lost ('kinesin serve --accept-loss', or 'kinesin data salvage')")
}

// accept returns the store to the moment before the first loss: it cuts that log there and sets the newer
// ones aside. The store is then as after a crash at that moment, when each task had its wake-up row; a store
// with a hole would not be. Files that are set aside are kept for inspection.
func (d *Driver) accept(lost []logLoss) error {
	found, err := listDir(d.cfg.FS, d.dir)
	if err != nil {
		return err
	}
	for i := range lost {
		d.cfg.Logger.Error("acknowledged writes are lost; going on without them", slog.String("dir", d.dir),
			slog.String("file", lost[i].file), slog.String("found", lost[i].found))
	}
	if i := slices.IndexFunc(lost, func(l logLoss) bool { return l.number != 0 }); i >= 0 {
		first := &lost[i]
		for _, number := range slices.Sorted(maps.Keys(found.logs)) {
			if number < first.number {
				continue
			}
			keep := int64(-1)
			if number == first.number {
				keep = first.keep
			}
			if err := d.setAside(found.logs[number], keep); err != nil {
				return err
			}
		}
	}
	if err := d.cfg.FS.Remove(d.cfg.FS.PathJoin(d.dir, marksName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(d.cfg.FS, d.dir)
}

// setAside renames a log and puts its first keep bytes in its place; no file if keep is negative. A crash
// leaves the old log or the new one.
func (d *Driver) setAside(name string, keep int64) error {
	files, path := d.cfg.FS, d.cfg.FS.PathJoin(d.dir, name)
	aside, temp := path+lostSuffix, path+".kept"
	d.cfg.Logger.Error("log set aside", slog.String("file", aside), slog.Int64("kept_bytes", max(keep, 0)))
	if keep < 0 {
		return files.Rename(path, aside)
	}
	if err := copyHead(files, path, temp, keep); err != nil {
		return err
	}
	if err := files.Link(path, aside); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(files, d.dir); err != nil {
		return err
	}
	return files.Rename(temp, path)
}

// copyHead copies the first n bytes of a file.
func copyHead(files vfs.FS, from, to string, n int64) error {
	source, err := files.Open(from)
	if err != nil {
		return err
	}
	target, err := files.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return errors.Join(err, source.Close())
	}
	_, err = io.Copy(target, io.LimitReader(source, n))
	return errors.Join(err, target.Sync(), target.Close(), source.Close())
}
