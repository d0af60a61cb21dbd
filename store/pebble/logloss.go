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

// lostSuffix is what accepting a loss appends to the names of logs that it sets aside. The engine passes over
// such files.
const lostSuffix = ".lost"

// logLoss is a log that does not hold what was on disk once.
type logLoss struct {
	file   string // the log, or the file with the marks
	number uint64 // of the log; 0 when it is not known which
	why    string // what was found, and what may be gone
	keep   int64  // bytes of the log up to what is missing; -1 when there is no such file
}

func (l *logLoss) String() string { return l.file + " " + l.why }

// lostLogs compares the logs with what the marks say of them. A store without marks, of a version that kept
// none, has only what is in its newest log to go by. exists says that there is a store.
func lostLogs(files vfs.FS, dir string, marks marksRecord, marked, exists bool) (lost []logLoss, err error) {
	names, err := logNames(files, dir)
	if err != nil {
		return nil, err
	}
	if marked {
		for i, number := range marks.Logs {
			through := uint64(0)
			isLast := i == len(marks.Logs)-1
			if isLast {
				through = marks.Through
			}
			loss, err := checkLog(files, dir, names[number], number, through, isLast)
			if err != nil {
				return nil, err
			}
			if loss != nil {
				lost = append(lost, *loss)
			}
		}
		return lost, nil
	}
	if len(names) == 0 && exists {
		return []logLoss{{file: "*.log", why: "is missing: there is no log at all, and what was acknowledged last is lost", keep: -1}}, nil
	}
	if len(names) > 0 {
		newest := slices.Max(slices.Collect(maps.Keys(names)))
		loss, err := checkLog(files, dir, names[newest], newest, 0, true)
		if err != nil || loss == nil {
			return nil, err
		}
		lost = append(lost, *loss)
	}
	return lost, nil
}

// checkLog returns what is missing in a log, nil when nothing is. name is empty when there is no such log.
// One that is not the last was closed when the next one began; the last one may end in a write that a crash
// interrupted, which was not acknowledged.
func checkLog(files vfs.FS, dir, name string, number, through uint64, isLast bool) (*logLoss, error) {
	if name == "" {
		loss := &logLoss{file: fmt.Sprintf("%06d.log", number), number: number, keep: -1, why: "is missing: acknowledged writes in it are lost"}
		return loss, nil
	}
	var c logCheck
	if err := readLog(files, files.PathJoin(dir, name), number, &c); err != nil {
		return nil, fmt.Errorf("read log %s: %w", name, err)
	}
	loss := &logLoss{file: name, number: number, keep: c.sound}
	switch {
	case c.lost:
		loss.why = fmt.Sprintf("is damaged at offset %d, before writes that were on disk: what follows there is lost", c.offset)
	case c.end == 0 && through > 0:
		loss.why = "holds nothing that can be read: the acknowledged writes in it are lost"
	case c.end < through:
		loss.why = fmt.Sprintf("ends at offset %d, before writes that were on disk: %d changes of rows are lost", c.sound, through-c.end)
	case !isLast && !c.ended:
		loss.why = fmt.Sprintf("ends at offset %d, without the end that it had: what followed there is lost", c.sound)
	default:
		return nil, nil
	}
	return loss, nil
}

// checkLogs refuses a store whose logs are not all there, or, with Config.AcceptLoss, goes back to the moment
// before what is missing. It returns the marks to go on with.
func (d *Driver) checkLogs(exists bool) (marks marksRecord, marked bool, err error) {
	marks, marked, err = readMarks(d.cfg.FS, d.dir)
	var lost []logLoss
	switch {
	case errors.Is(err, store.ErrCorrupt):
		lost = append(lost, logLoss{file: marksName, why: "is damaged: it cannot be told whether acknowledged writes are lost", keep: -1})
		marked = false
	case err != nil:
		return marks, false, d.openError(err)
	case marks.New && !exists:
		return marks, marked, nil
	case marks.New: // they say nothing of the files that somebody has put here
		marks, marked = marksRecord{}, false
	}
	if marked && !exists {
		return marks, false, d.openError(fmt.Errorf("%w: the manifest is missing", store.ErrCorrupt))
	}
	if !marked && exists && len(lost) == 0 && !d.cfg.unmarked {
		if lost, err = d.marksMissing(); err != nil {
			return marks, false, err
		}
	}
	logs, err := lostLogs(d.cfg.FS, d.dir, marks, marked, exists)
	if err != nil {
		return marks, false, d.openError(err)
	}
	lost = append(lost, logs...)
	if len(lost) == 0 {
		return marks, marked, nil
	}
	if !d.cfg.AcceptLoss {
		return marks, false, d.lossError(lost)
	}
	if err := d.accept(lost); err != nil {
		return marks, false, fmt.Errorf("data directory %s: set damaged logs aside: %w", d.dir, err)
	}
	return marksRecord{}, false, nil
}

// lossError refuses to start.
func (d *Driver) lossError(lost []logLoss) error {
	texts := make([]string, len(lost))
	for i := range lost {
		texts[i] = lost[i].String()
	}
	return fmt.Errorf("data directory %s: %w: %s; nothing was changed: put the files back, restore a backup, or go on without what is lost "+
		"('kinesin serve --accept-loss', or 'kinesin data salvage')", d.dir, store.ErrCorrupt, strings.Join(texts, "; "))
}

// marksMissing looks whether a store without marks had some.
func (d *Driver) marksMissing() ([]logLoss, error) {
	db, err := d.openReadOnly(d.cfg.FS)
	if err != nil {
		return nil, nil //nolint:nilerr // opening it to write says what is wrong
	}
	_, closer, err := db.Get([]byte{metaSpace, metaMarked})
	if errors.Is(err, pebbledb.ErrNotFound) {
		return nil, db.Close()
	}
	if err != nil {
		return nil, errors.Join(d.openError(err), db.Close())
	}
	lost := logLoss{file: marksName, why: "is missing: it cannot be told whether acknowledged writes are lost", keep: -1}
	return []logLoss{lost}, errors.Join(closer.Close(), db.Close())
}

// accept goes back to the moment before the first loss: it cuts that log there, and sets those after it
// aside. So the store is as a crash at that moment would have left it, where every task has its wake-up row,
// and not one with a hole. What is set aside is kept, for whoever wants to look.
func (d *Driver) accept(lost []logLoss) error {
	names, err := logNames(d.cfg.FS, d.dir)
	if err != nil {
		return err
	}
	var first *logLoss
	for i := range lost {
		d.cfg.Logger.Error("acknowledged writes are lost, and that is accepted", slog.String("dir", d.dir),
			slog.String("file", lost[i].file), slog.String("found", lost[i].why))
		if first == nil && lost[i].number != 0 {
			first = &lost[i]
		}
	}
	if first != nil {
		for _, number := range slices.Sorted(maps.Keys(names)) {
			keep := int64(-1)
			if number == first.number {
				keep = first.keep
			}
			if number < first.number {
				continue
			}
			if err := d.setAside(names[number], keep); err != nil {
				return err
			}
		}
	}
	if err := d.cfg.FS.Remove(d.cfg.FS.PathJoin(d.dir, marksName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncEntries(d.cfg.FS, d.dir)
}

// setAside gives a log another name, and puts its first bytes in its place; none if keep is negative. A crash
// leaves the log as it was, or as it shall be.
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
	if err := syncEntries(files, d.dir); err != nil {
		return err
	}
	return files.Rename(temp, path)
}

// copyHead copies the first bytes of a file.
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
