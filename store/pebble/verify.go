package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Counts is what was found in a store.
type Counts struct {
	Tables     int   `json:"data_files"`
	TableBytes int64 `json:"data_file_bytes"` // read and compared with their checksums
	Logs       int   `json:"logs"`
	Live       int   `json:"live_tasks"`   // with a task row, or a wake-up row alone
	Ended      int   `json:"ended_tasks"`  // kept for their retention
	Wakeups    int   `json:"wake_up_rows"` // of live tasks
	Remnants   int   `json:"remnants"`     // wake-up rows that nobody needs; the next pass over their partition deletes them
	Payloads   int   `json:"payload_rows"` // stored apart from their tasks
	Controls   int   `json:"control_rows"` // lambdas, worker leases and so on
	Findings   int   `json:"findings"`     // what is wrong
}

// Verify reads all of a store that no process has open, and changes nothing: its manifest and logs, the marks
// of these, every block of every data file, and every row, which must be whole and have what belongs to it: a
// live task its wake-up row, an ended one its place in the order of expiry, and each its payload. found is
// called with each thing that is wrong. An error says that the store could not be looked at.
func Verify(ctx context.Context, dir string, c Config, found func(problem string)) (Counts, error) {
	d := newDriver(dir, c)
	if err := d.lockExisting(); err != nil {
		return Counts{}, err
	}
	v := &verifier{d: d, tell: found}
	err := v.run(ctx)
	return v.counts, errors.Join(err, d.lock.Close())
}

// lockExisting keeps others out of a directory that holds a store.
func (d *Driver) lockExisting() error {
	if _, err := d.cfg.FS.Stat(d.dir); err != nil {
		return fmt.Errorf("data directory %s: %w", d.dir, err)
	}
	names, err := d.cfg.FS.List(d.dir)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d.dir, err)
	}
	if !holdsStore(names) {
		return fmt.Errorf("data directory %s holds no store", d.dir)
	}
	if d.lock, err = lockDir(d.dir, d.cfg.FS); err != nil {
		return err
	}
	return nil
}

// verifier carries one Verify.
type verifier struct {
	d      *Driver
	db     *pebbledb.DB
	counts Counts
	tell   func(problem string)
	now    task.Instant
	key    []byte
}

func (v *verifier) problem(format string, args ...any) {
	v.counts.Findings++
	v.tell(fmt.Sprintf(format, args...))
}

func (v *verifier) run(ctx context.Context) error {
	v.now = task.InstantOf(time.Now())
	if err := v.files(); err != nil {
		return err
	}
	db, err := v.d.openReadOnly(v.d.cfg.FS)
	if err != nil {
		v.problem("the store cannot be opened, so its data files and rows were not checked: %s", firstLine(err))
		return nil
	}
	v.db = db
	err = v.tables(ctx)
	if err == nil {
		err = v.rows(ctx)
	}
	return errors.Join(err, db.Close())
}

// files checks the manifest and the logs.
func (v *verifier) files() error {
	d := v.d
	found, err := pebbledb.Peek(d.dir, d.cfg.FS)
	if err == nil && found.Exists {
		err = d.checkManifest(found.ManifestFilename)
	}
	if err != nil {
		v.problem("manifest: %s", firstLine(err))
	}
	marks, marked, err := readMarks(d.cfg.FS, d.dir)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		v.problem("%s is damaged: it cannot be told whether acknowledged writes are lost", marksName)
		marked = false
	case err != nil:
		return err
	case !marked && found.Exists:
		missing, err := d.marksMissing()
		if err != nil {
			return err
		}
		for i := range missing {
			v.problem("%s", missing[i].String())
		}
	}
	if !found.Exists {
		v.problem("manifest: it is missing")
	}
	lost, err := lostLogs(d.cfg.FS, d.dir, marks, marked, found.Exists)
	if err != nil {
		return err
	}
	for i := range lost {
		v.problem("%s", lost[i].String())
	}
	names, err := logNames(d.cfg.FS, d.dir)
	v.counts.Logs = len(names)
	return err
}

// tables reads every block of every data file.
func (v *verifier) tables(ctx context.Context) error {
	names, err := tableNames(v.db)
	if err != nil {
		v.problem("data files: %s", firstLine(err))
		if names, err = tablesIn(v.d.cfg.FS, v.d.dir); err != nil {
			return err
		}
	}
	for _, name := range names {
		err := checkTable(v.d.cfg.FS, v.d.cfg.FS.PathJoin(v.d.dir, name), func(n int) error {
			v.counts.TableBytes += int64(n)
			return ctx.Err()
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist):
			v.problem("%s is missing: the rows in it are lost", name)
		case err != nil:
			v.problem("%s is damaged: %s", name, firstLine(err))
		}
		v.counts.Tables++
	}
	return nil
}

// rows checks all rows, space by space.
func (v *verifier) rows(ctx context.Context) error {
	spaces := []struct {
		space byte
		name  string
		check func(key, value []byte)
	}{
		{taskSpace, "task rows", v.task},
		{wakeSpace, "wake-up rows", v.wakeup},
		{expirySpace, "order of expiry", v.ended},
		{deadSpace, "list of dead letters", v.ended},
		{payloadSpace, "payload rows", func(_, _ []byte) { v.counts.Payloads++ }},
		{controlSpace, "control rows", v.control},
	}
	for _, s := range spaces {
		var last []byte
		err := eachOf(v.db, []byte{s.space}, []byte{s.space + 1}, func(key []byte, value func() ([]byte, error)) (bool, error) {
			last = append(last[:0], key...)
			content, err := value()
			if err != nil {
				return false, err
			}
			s.check(key, content)
			return ctx.Err() == nil, nil
		}, func(err error) error { return err })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			v.problem("%s: those behind key %x were not checked: %s", s.name, last, firstLine(err))
		}
	}
	return nil
}

// get reads the value of a key, valid until the next call of anything.
func (v *verifier) get(key []byte) (value []byte, found bool) {
	content, closer, err := v.db.Get(key)
	if errors.Is(err, pebbledb.ErrNotFound) {
		return nil, false
	}
	if err != nil {
		return nil, true // unreadable, which was said of the block
	}
	value = append([]byte(nil), content...)
	_ = closer.Close()
	return value, true
}

func (v *verifier) has(key []byte) bool {
	_, found := v.get(key)
	return found
}

func (v *verifier) task(key, value []byte) {
	t, err := store.DecodeTask(value)
	if err != nil || len(key) != 1+idLen || task.ID(key[1:]) != t.ID {
		v.problem("task row %x cannot be decoded: %v", key[1:], err)
		return
	}
	if !t.State.IsEnd() {
		v.counts.Live++
		if v.key = wakeKey(v.key[:0], &t); !v.has(v.key) {
			v.problem("task %s is %s and has no wake-up row at %s: nothing would wake it", t.ID, t.State, t.WakeRow.At.Time().UTC().Format(time.RFC3339Nano))
		}
		v.payload(&t)
		return
	}
	v.counts.Ended++
	if v.key = appendExpiryKey(v.key[:0], position{t.ExpireAt, t.ID}); !v.has(v.key) {
		v.problem("task %s has ended and is not in the order of expiry: it would be kept for ever", t.ID)
	}
	if v.key = appendIndexKey(v.key[:0], deadSpace, t.Partition, position{t.Ended, t.ID}); t.State == task.Dead && !v.has(v.key) {
		v.problem("task %s is a dead letter and not in their list", t.ID)
	}
}

func wakeKey(dst []byte, t *task.Task) []byte {
	return appendIndexKey(dst, wakeSpace, t.Partition, position{t.WakeRow.At, t.ID})
}

// payload checks that the payload of a live task is there.
func (v *verifier) payload(t *task.Task) {
	if v.key = appendIDKey(v.key[:0], payloadSpace, t.PayloadID()); t.PayloadStoredApart() && !v.has(v.key) {
		v.problem("task %s is %s and its payload of %d bytes is missing", t.ID, t.State, t.PayloadSize)
	}
}

func (v *verifier) wakeup(key, value []byte) {
	w, err := store.DecodeWakeup(value)
	if err != nil || len(key) != indexKeyLen || decodePosition(key[len(key)-positionLen:]).id != w.ID {
		v.problem("wake-up row %x cannot be decoded: %v", key[1:], err)
		return
	}
	var row task.Task
	v.key = appendIDKey(v.key[:0], taskSpace, w.ID)
	if content, found := v.get(v.key); found {
		if row, err = store.DecodeTask(content); err != nil {
			row.ID = w.ID // said of the task row; Conclude takes it for one that cannot be read
		}
	}
	switch store.Conclude(&w, &row, v.now) {
	case store.Undispatched:
		v.counts.Live++
		v.counts.Wakeups++
		v.payload(&w)
	case store.Live, store.Unclear:
		v.counts.Wakeups++
	case store.Remnant:
		v.counts.Remnants++
	}
}

// ended checks that what an index names is a task that has ended.
func (v *verifier) ended(key, _ []byte) {
	if len(key) != expiryLen && len(key) != indexKeyLen {
		v.problem("index entry %x cannot be decoded", key)
		return
	}
	id := decodePosition(key[len(key)-positionLen:]).id
	content, found := v.get(appendIDKey(nil, taskSpace, id))
	if head, err := headerOf(content, nil); !found || (err == nil && !head.State.IsEnd()) {
		v.problem("index entry %x names task %s, which is not there or has not ended", key[:len(key)-idLen], id)
	}
}

func (v *verifier) control(key, value []byte) {
	v.counts.Controls++
	if _, err := decodeControl(key, value); err != nil {
		v.problem("control row %q: %v", key[1:], err)
	}
}
