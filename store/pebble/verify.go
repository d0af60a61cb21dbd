package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Counts is what Verify found in a store.
type Counts struct {
	Tables     int   `json:"data_files"`
	TableBytes int64 `json:"data_file_bytes"` // read and compared with their checksums
	Logs       int   `json:"logs"`
	Live       int   `json:"live_tasks"`   // with a task row, or a wake-up row alone
	Ended      int   `json:"ended_tasks"`  // kept for their retention
	Wakeups    int   `json:"wake_up_rows"` // of live tasks
	Leftovers  int   `json:"remnants"`     // leftover wake-up rows; the next full scan of their partition deletes them
	Payloads   int   `json:"payload_rows"` // stored apart from their tasks
	Controls   int   `json:"control_rows"` // lambdas, worker leases and so on
	Findings   int   `json:"findings"`     // problems
}

// Verify reads a whole store that no process has open, and changes nothing. It checks the manifest, the logs
// and their marks, every block of every data file, and every row. A row must be whole and complete: a live
// task has its wake-up row, an ended one its place in the order of expiry, and each its payload. Verify calls
// found with each problem. An error says that the store could not be checked.
func Verify(ctx context.Context, dir string, c Config, found func(problem string)) (Counts, error) {
	d := newDriver(dir, c)
	if err := d.lockExisting(); err != nil {
		return Counts{}, err
	}
	v := &verifier{d: d, report: found}
	err := v.run(ctx)
	return v.counts, errors.Join(err, d.lock.Close())
}

// verifier is the state of one Verify.
type verifier struct {
	d      *Driver
	db     *pebbledb.DB
	counts Counts
	report func(problem string)
	now    task.Instant
	key    []byte
}

func (v *verifier) problem(format string, args ...any) {
	v.counts.Findings++
	v.report(fmt.Sprintf(format, args...))
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
	peeked, err := pebbledb.Peek(v.d.dir, v.d.cfg.FS)
	if err == nil && peeked.Exists {
		err = v.d.checkManifest(peeked.ManifestFilename)
	}
	if err != nil {
		v.problem("manifest: %s", firstLine(err))
	}
	if !peeked.Exists {
		v.problem("manifest: it is missing")
	}
	logs, err := v.d.inspectLogs(peeked.Exists)
	if err != nil {
		return err
	}
	for i := range logs.lost {
		v.problem("%s", logs.lost[i].String())
	}
	found, err := listDir(v.d.cfg.FS, v.d.dir)
	v.counts.Logs = len(found.logs)
	return err
}

// tables checks every block of every data file.
func (v *verifier) tables(ctx context.Context) error {
	names, err := tableNames(v.db)
	if err != nil {
		v.problem("data files: %s", firstLine(err))
		found, err := listDir(v.d.cfg.FS, v.d.dir)
		if err != nil {
			return err
		}
		names = found.tables
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

// rows checks all rows.
func (v *verifier) rows(ctx context.Context) error {
	for _, s := range []struct {
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
	} {
		var last []byte
		err := each(v.db, []byte{s.space}, []byte{s.space + 1}, func(key, value []byte) (bool, error) {
			last = append(last[:0], key...)
			s.check(key, value)
			return ctx.Err() == nil, nil
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			v.problem("%s: those behind key %x were not checked: %s", s.name, last, firstLine(err))
		}
	}
	return nil
}

// get reads the value of a key. The value of a block that cannot be read is nil, because tables reported the
// block.
func (v *verifier) get(key []byte) (value []byte, found bool) {
	content, closer, err := v.db.Get(key)
	if err != nil {
		return nil, !errors.Is(err, pebbledb.ErrNotFound)
	}
	value = bytes.Clone(content)
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
	if !t.Chain.FollowApart() {
		return
	}
	if v.key = appendIDKey(v.key[:0], payloadSpace, t.Chain.FollowID); !v.has(v.key) {
		v.problem("task %s is %s and what follows it, %d bytes, is missing", t.ID, t.State, t.Chain.FollowBytes)
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
			row = task.Task{ID: w.ID} // task reported it; Conclude takes this for a row that cannot be read
		}
	}
	switch store.Conclude(&w, &row, v.now) {
	case store.Undispatched:
		v.counts.Live++
		v.counts.Wakeups++
		v.payload(&w)
	case store.Live, store.Unclear:
		v.counts.Wakeups++
	case store.Leftover:
		v.counts.Leftovers++
	}
}

// ended checks that an index entry names a task that has ended.
func (v *verifier) ended(key, _ []byte) {
	if len(key) != expiryLen && len(key) != indexKeyLen {
		v.problem("index entry %x cannot be decoded", key)
		return
	}
	id := decodePosition(key[len(key)-positionLen:]).id
	content, found := v.get(appendIDKey(nil, taskSpace, id))
	if head, err := store.DecodeHeader(content); !found || (err == nil && !head.State.IsEnd()) {
		v.problem("index entry %x names task %s, which is not there or has not ended", key[:len(key)-idLen], id)
	}
}

func (v *verifier) control(key, value []byte) {
	v.counts.Controls++
	if _, err := decodeControl(key, value); err != nil {
		v.problem("control row %q: %v", key[1:], err)
	}
}
