package pebble

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
)

// layoutVersion is the format of keys and values. A program refuses every other one. In format 1 tasks left
// the schedule when they were dispatched, and there was an index of wake-ups.
const layoutVersion = 2

// open locks the directory and opens the store in it, without starting a goroutine.
func (d *Driver) open() error {
	if _, err := d.cfg.FS.Stat(d.cfg.FS.PathJoin(d.dir, StandbyDir)); err == nil {
		return d.refuse(ErrStandby, "'kinesin standby --promote' makes a store of it")
	}
	if err := makeDir(d.cfg.FS, d.dir); err != nil {
		return fmt.Errorf("data directory %s cannot be made: %w", d.dir, err)
	}
	if err := d.cfg.closeToOthers(d.dir); err != nil {
		return fmt.Errorf("data directory %s: %w", d.dir, err)
	}
	lock, err := lockDir(d.dir, d.cfg.FS)
	if err != nil {
		return err
	}
	d.lock = lock
	if err = d.tidy(); err == nil {
		err = d.openLocked()
	}
	if err != nil {
		return errors.Join(d.openError(err), lock.Close())
	}
	return nil
}

func (d *Driver) openLocked() error {
	if err := d.clearUnfinished(); err != nil {
		return err
	}
	peeked, err := pebbledb.Peek(d.dir, d.cfg.FS)
	if err != nil {
		return err
	}
	found, err := listDir(d.cfg.FS, d.dir)
	switch {
	case err != nil:
	case peeked.Exists:
		err = d.checkManifest(peeked.ManifestFilename)
	case len(found.logs) > 0 || len(found.tables) > 0:
		err = fmt.Errorf("%w: there are logs or data files, and no manifest that names them", store.ErrCorrupt)
	}
	if err != nil {
		return err
	}
	logs, err := d.checkLogs(peeked.Exists)
	if err != nil {
		return err
	}
	d.marks = newLogMarks(d.cfg.FS, d.dir, d.fail)
	if logs.marked || !peeked.Exists {
		logs.marks.New = !peeked.Exists
		if err := d.marks.begin(logs.marks, logs.marked); err != nil {
			return err
		}
	}
	err = d.openEngine(len(found.tables) > 0)
	if err != nil {
		err = errors.Join(err, d.marks.end(false))
		if d.db != nil {
			err = errors.Join(err, d.db.Close())
		}
	}
	return err
}

// openEngine opens the database and reads what the committer begins with. hadTables says that there were data
// files.
func (d *Driver) openEngine(hadTables bool) (err error) {
	d.space = newSpace(d.cfg.FS, d.dir, d.cfg.Logger)
	memTable := cmp.Or(d.cfg.MemTableBytes, d.space.memTableBytes())
	d.space.reserveFor(memTable)
	d.groupBytes = min(groupBytesMax, memTable/4)
	if d.db, err = d.openDB(d.options(memTable)); err != nil {
		return err
	}
	if err := d.checkLayout(hadTables); err != nil {
		return err
	}
	if err := d.beginMarks(); err != nil {
		return err
	}
	return d.loadBound()
}

// beginMarks notes in the store that it has marks of its logs, so that their absence is noticed.
func (d *Driver) beginMarks() error {
	noted, err := d.look([]byte{metaSpace, metaMarked}, nil)
	if err == nil {
		err = d.marks.opened()
	}
	if err == nil && !noted {
		err = d.db.Set([]byte{metaSpace, metaMarked}, nil, pebbledb.Sync)
	}
	return err
}

// loadBound begins fresh with the stored bound; an empty store has none.
func (d *Driver) loadBound() error {
	bound := int64(0)
	_, err := d.look([]byte{metaSpace, metaBound}, func(value []byte) error {
		if len(value) != 8 {
			return fmt.Errorf("%w: bound of ids %x", store.ErrCorrupt, value)
		}
		bound = int64(binary.BigEndian.Uint64(value))
		return nil
	})
	d.fresh, d.headers, d.seen = newFresh(bound, d.cfg.freshRows), newHeaderCache(d.cfg.headRows), newSeenHeaders(d.cfg.headRows)
	return err
}

// checkLayout refuses a store that another program or another version wrote. A new store gets the layout; one
// that had data files is not new.
func (d *Driver) checkLayout(hadTables bool) error {
	var layout []byte
	found, err := d.look([]byte{metaSpace}, func(value []byte) error {
		layout = append(layout, value...)
		return nil
	})
	switch {
	case err != nil:
		return err
	case !found && hadTables:
		return fmt.Errorf("%w: there are data files that the manifest does not name", store.ErrCorrupt)
	case !found:
		return d.initLayout()
	case len(layout) != 1 || layout[0] == 0:
		return fmt.Errorf("%w: format %q", store.ErrCorrupt, layout)
	case layout[0] > layoutVersion:
		return d.newerError(fmt.Errorf("format %d, this program knows up to %d", layout[0], layoutVersion))
	case layout[0] < layoutVersion:
		return d.refuse(fmt.Errorf("%w: it has format %d, the program reads %d, and nothing converts it", store.ErrOldForm, layout[0], layoutVersion),
			"start with another --data, and run the older version on this one until its tasks are done")
	}
	return nil
}

func (d *Driver) initLayout() error {
	foreign := false
	err := each(d.db, nil, nil, func(_, _ []byte) (bool, error) {
		foreign = true
		return false, nil
	})
	if err != nil {
		return err
	}
	if foreign {
		return fmt.Errorf("%w: it holds data but not its format, so another program wrote it", store.ErrCorrupt)
	}
	return d.db.Set([]byte{metaSpace}, []byte{layoutVersion}, pebbledb.Sync)
}
