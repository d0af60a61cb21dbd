package pebble

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

// The engine replays the logs that it finds. It does not know which logs there were, nor where the newest one
// ended, so a store whose log is missing or cut would start without acknowledged tasks and without an error.
// logMarks keeps both in a file beside the logs:
//
//   - The numbers of the logs whose writes are not all in data files. A log is added once its name is on disk
//     and before its first write, and taken off before it is deleted or reused. So a log that is in the file
//     but not in the directory was taken away.
//   - How far the newest log reaches, as a sequence number. It is written after each sync and before what was
//     synced is acknowledged, so that the end of the log is known whenever the process is killed. Only the
//     sync of the file is left to a goroutine that no write waits for, for up to markAfter: when the power
//     fails, only the marks inside the log protect what was acknowledged since.
//
// The file has marksSlots slots of one block each. A slot that is synced is never written again before another
// one is: while one is being synced, the writes that do not wait for that go to the next one, and the slot
// before both is valid. So a crash tears at most two slots, whatever relies on a record waits for its sync,
// and the third slot holds.
const (
	marksName      = "acknowledged"
	marksTempName  = marksName + ".new"
	marksSlots     = 3
	marksSlotBytes = 4096
	markAfter      = 100 * time.Millisecond
)

// marksLogsMax bounds the logs in a record, so that it fits into a slot. The engine has a handful.
const marksLogsMax = 64

// marksRecord is the content of a slot.
type marksRecord struct {
	Generation uint64   `json:"generation"`    // the higher one counts
	New        bool     `json:"new,omitempty"` // the store is being created: nothing in it was ever acknowledged
	Logs       []uint64 `json:"logs"`          // oldest first
	Through    uint64   `json:"through"`       // the newest log has all writes before this sequence number; 0: not known
}

type logMarks struct {
	files vfs.FS
	dir   string
	fail  func(error)

	current atomic.Uint64 // number of the newest log
	due     *time.Timer   // fires when the file has to be synced

	mu      sync.Mutex // held while the file is synced; taken before noted
	opening bool       // the engine replays: when it creates a log, all others are in data files

	noted    sync.Mutex  // never held during a sync, because the goroutine that answers callers takes it
	file     vfs.File    // nil until begin
	record   marksRecord // of the slot that is written next, or was written and is not synced
	slot     []byte      // for encoding it
	unsynced bool        // note has written it
	armed    bool        // due runs
}

func newLogMarks(files vfs.FS, dir string, fail func(error)) *logMarks {
	m := &logMarks{files: files, dir: dir, fail: fail, due: time.NewTimer(markAfter), opening: true}
	m.due.Stop()
	return m
}

// readMarks returns the record of a directory. found is false when there is no file; the error is
// store.ErrCorrupt when no slot is valid.
func readMarks(files vfs.FS, dir string) (r marksRecord, found bool, err error) {
	content, err := readFile(files, files.PathJoin(dir, marksName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	for slot := range slices.Chunk(content, marksSlotBytes) {
		if one, ok := decodeMarks(slot); ok && (!found || one.Generation > r.Generation) {
			r, found = one, true
		}
	}
	if !found {
		return r, true, fmt.Errorf("%w: neither slot is valid", store.ErrCorrupt)
	}
	return r, true, nil
}

// encodeMarks makes a slot of dst: a checksum, a space and one line of JSON, so that a person can read it.
func encodeMarks(dst []byte, r *marksRecord) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	dst = fmt.Appendf(dst[:0], "%08x %s", crc32.Checksum(line, castagnoli), line)
	return append(dst, marksPadding[len(dst):]...), nil
}

var marksPadding = bytes.Repeat([]byte{'\n'}, marksSlotBytes)

func decodeMarks(slot []byte) (r marksRecord, ok bool) {
	sum, line, _ := bytes.Cut(bytes.TrimRight(slot, "\n"), []byte{' '})
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || uint32(want) != crc32.Checksum(line, castagnoli) {
		return r, false
	}
	return r, json.Unmarshal(line, &r) == nil
}

// begin opens the file that holds r, or creates one. Before it nothing is written.
func (m *logMarks) begin(r marksRecord, found bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := m.files.PathJoin(m.dir, marksName)
	if !found {
		if err := m.create(path, &r); err != nil {
			return err
		}
	}
	file, err := m.files.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	m.noted.Lock()
	defer m.noted.Unlock()
	m.file, m.record = file, r
	m.record.Generation++ // the slot that holds r stays as it is
	return err
}

// opened notes that the engine has replayed the logs and that the store is ready for its first write.
func (m *logMarks) opened() error {
	m.mu.Lock()
	if m.opening = false; m.file == nil {
		logs := m.record.Logs
		m.mu.Unlock()
		return m.begin(marksRecord{Logs: logs}, false)
	}
	defer m.mu.Unlock()
	return m.change(func(r *marksRecord) (changed bool) {
		changed, r.New = r.New, false
		return changed
	})
}

// create writes all slots to a file with another name and renames it, so that a crash leaves no file or a
// whole one.
func (m *logMarks) create(path string, r *marksRecord) error {
	slot, err := encodeMarks(nil, r)
	if err != nil {
		return err
	}
	temp := m.files.PathJoin(m.dir, marksTempName)
	file, err := m.files.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(bytes.Repeat(slot, marksSlots))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := m.files.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(m.files, m.dir)
}

// change edits the record and, if edit says so, makes it the newest one on disk. The caller holds mu. A
// failure ends the store, as a failure of the log does.
func (m *logMarks) change(edit func(*marksRecord) (changed bool)) error {
	m.noted.Lock()
	file := m.file
	if changed := edit(&m.record); !changed || file == nil {
		m.noted.Unlock()
		return nil
	}
	err := m.put()
	m.record.Generation++ // what is noted during the sync goes to the next slot
	m.unsynced = false
	m.noted.Unlock()
	if err != nil {
		return err
	}
	return m.check(file.SyncData())
}

// put writes the record to its slot. The caller holds noted.
func (m *logMarks) put() (err error) {
	if m.slot, err = encodeMarks(m.slot, &m.record); err == nil {
		_, err = m.file.WriteAt(m.slot, int64(m.record.Generation%marksSlots)*marksSlotBytes)
	}
	return m.check(err)
}

func (m *logMarks) check(err error) error {
	if err != nil {
		err = fmt.Errorf("write %s: %w", marksName, err)
		m.fail(err)
	}
	return err
}

// created adds a log whose name is on disk and that has no writes yet.
func (m *logMarks) created(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.change(func(r *marksRecord) bool {
		m.current.Store(number)
		if m.opening {
			r.Logs = r.Logs[:0]
		}
		r.Logs = append(r.Logs, number)
		r.Logs = slices.Delete(r.Logs, 0, max(0, len(r.Logs)-marksLogsMax))
		r.Through = 0
		return true
	})
}

// forget takes a log off before its file goes; it ignores other files.
func (m *logMarks) forget(name string) error {
	number, isLog := logNumber(name)
	if !isLog {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.change(func(r *marksRecord) bool {
		had := len(r.Logs)
		r.Logs = slices.DeleteFunc(r.Logs, func(n uint64) bool { return n == number })
		return len(r.Logs) < had
	})
}

// note writes that a log is on disk up to a sequence number, without a sync.
func (m *logMarks) note(log, through uint64) {
	m.noted.Lock()
	defer m.noted.Unlock()
	if log != m.current.Load() || through <= m.record.Through || m.file == nil {
		return // a log that is not the newest one has a trailer
	}
	m.record.Through = through
	if m.put() == nil {
		m.unsynced = true
		m.arm()
	}
}

// flushed notes that some logs may not be needed any more.
func (m *logMarks) flushed() {
	m.noted.Lock()
	defer m.noted.Unlock()
	m.arm()
}

func (m *logMarks) arm() {
	if !m.armed {
		m.armed = true
		m.due.Reset(markAfter)
	}
}

// mark syncs what was noted, and takes off logs that are not needed any more. live returns the number of logs
// with writes that are in no data file.
func (m *logMarks) mark(live func() int) {
	m.noted.Lock()
	m.armed = false
	m.noted.Unlock()

	newest := m.current.Load()
	n := live() // takes locks of the engine, under which it calls created
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.change(func(r *marksRecord) bool {
		old := len(r.Logs) - max(n, 1)
		if old <= 0 || newest != m.current.Load() {
			return m.unsynced
		}
		r.Logs = slices.Delete(r.Logs, 0, old)
		return true
	})
}

// end closes the file. With clean all writes are in data files, and no log is needed.
func (m *logMarks) end(clean bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due.Stop()
	if m.file == nil {
		return nil
	}
	var err error
	if clean {
		err = m.change(func(r *marksRecord) bool {
			r.Logs, r.Through = nil, 0
			return true
		})
	}
	m.noted.Lock()
	defer m.noted.Unlock()
	err = errors.Join(err, m.file.Close())
	m.file = nil
	return err
}
