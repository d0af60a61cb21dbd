package pebble_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// variedStore holds rows of all kinds, and is closed: waiting, moved, dead and successful tasks, payloads
// apart, a control row.
func variedStore(t *testing.T) *vfs.MemFS {
	t.Helper()
	files := vfs.NewMem()
	d := openOn(t, files, pebble.Config{})
	for n := range variedTasks {
		for step := range min(n%(stepsOfTask+1), stepsOfTask) {
			applyOK(t, d, stepOps(2, uint64(n*stepsOfTask+step)))
		}
	}
	apart := crashTask(4, 0)
	apart.Payload, apart.PayloadSize = nil, 1000
	applyOK(t, d, append([]store.Op{{Kind: store.PutPayload, Payload: make([]byte, 1000), Task: task.Task{ID: apart.ID}}}, store.First(apart)...))
	applyOK(t, d, []store.Op{{Kind: store.PutControl, Control: store.Control{Kind: "kind", Name: "name", Version: 1, Value: []byte("value")}}})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return files
}

const variedTasks = 70

// verify returns what is wrong with a store.
func verify(t *testing.T, files vfs.FS) (pebble.Counts, []string) {
	t.Helper()
	var problems []string
	counts, err := pebble.Verify(t.Context(), "data", pebble.Config{FS: files}, func(p string) { problems = append(problems, p) })
	if err != nil {
		t.Fatal(err)
	}
	if counts.Findings != len(problems) {
		t.Errorf("%d findings are counted, %d told", counts.Findings, len(problems))
	}
	return counts, problems
}

func TestVerifySound(t *testing.T) {
	files := variedStore(t)
	before := files.String()
	counts, problems := verify(t, files)
	if len(problems) > 0 {
		t.Errorf("a sound store: %q", problems)
	}
	if counts.Live+counts.Ended != variedTasks-variedTasks/(stepsOfTask+1)+1 || counts.Ended == 0 || counts.Payloads != 1 || counts.Controls != 1 ||
		counts.Tables == 0 || counts.TableBytes == 0 {
		t.Errorf("counted %+v", counts)
	}
	if after := files.String(); after != before {
		t.Errorf("the check changed the directory from\n%s\nto\n%s", before, after)
	}
	if counts, problems := verify(t, crashedStore(t, 5, true)); len(problems) > 0 || counts.Live != 5 {
		t.Errorf("a store that was killed: %+v, %q", counts, problems)
	}
}

func TestVerifyNeedsTheDirectoryForItself(t *testing.T) {
	files := vfs.NewMem()
	d := openOn(t, files, pebble.Config{})
	_, err := pebble.Verify(t.Context(), "data", pebble.Config{FS: files}, func(string) {})
	if !errors.Is(err, store.ErrInUse) {
		t.Errorf("of an open store: %v, want ErrInUse", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"nowhere", "/"} {
		if _, err := pebble.Verify(t.Context(), dir, pebble.Config{FS: files}, func(string) {}); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("of %s: %v", dir, err)
		}
	}
}

// changed sets keys of the store without the driver, and deletes those without a value.
func changed(t *testing.T, rows map[string][]byte) *vfs.MemFS {
	t.Helper()
	files := variedStore(t)
	db, err := pebbledb.Open("data", &pebbledb.Options{FS: files, FormatMajorVersion: pebbledb.FormatNewest, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range rows {
		if value == nil {
			err = db.Delete([]byte(key), pebbledb.Sync)
		} else {
			err = db.Set([]byte(key), value, pebbledb.Sync)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return files
}

// keyOf finds the first key of a space, for which pick holds.
func keyOf(t *testing.T, space byte, pick func(key, value []byte) bool) string {
	t.Helper()
	db, err := pebbledb.Open("data", &pebbledb.Options{FS: variedStore(t), FormatMajorVersion: pebbledb.FormatNewest, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	it, err := db.NewIter(&pebbledb.IterOptions{LowerBound: []byte{space}, UpperBound: []byte{space + 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = it.Close() }()
	for valid := it.First(); valid; valid = it.Next() {
		if pick == nil || pick(it.Key(), it.Value()) {
			return string(it.Key())
		}
	}
	t.Fatalf("no such key in %c", space)
	return ""
}

// liveRow picks wake-up rows of tasks that have a task row and live.
func liveRow(t *testing.T) string {
	t.Helper()
	var live [16]byte
	keyOf(t, 't', func(key, value []byte) bool {
		row, err := store.DecodeTask(value)
		copy(live[:], key[1:])
		return err == nil && !row.State.IsEnd()
	})
	return keyOf(t, 's', func(key, _ []byte) bool { return bytes.HasSuffix(key, live[:]) })
}

// Verify finds each row that breaks a rule of the store, with the task's id, and Salvage rebuilds what
// follows from other rows.
func TestVerifyFindsBrokenRows(t *testing.T) {
	cases := map[string]struct {
		key   string
		value []byte
		want  string
		stays bool // a salvage cannot mend it
	}{
		"no wake-up row":         {liveRow(t), nil, "has no wake-up row", false},
		"no payload":             {keyOf(t, 'p', nil), nil, "its payload of 1000 bytes is missing", true},
		"no place in the expiry": {keyOf(t, 'x', nil), nil, "not in the order of expiry", false},
		"no dead letter":         {keyOf(t, 'd', nil), nil, "not in their list", false},
		"a stray expiry":         {"x" + strings.Repeat("a", 24), []byte("12345678"), "is not there or has not ended", false},
		"a task row of garbage":  {"t" + strings.Repeat("a", 16), []byte("garbage"), "cannot be decoded", false},
		"a wake-up of garbage":   {"s" + strings.Repeat("a", 31), []byte("garbage"), "cannot be decoded", false},
		"a control of garbage":   {"kkind", []byte{0xff}, "control row", false},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			files := changed(t, map[string][]byte{c.key: c.value})
			_, problems := verify(t, files)
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
				t.Errorf("found %q, want %q", problems, c.want)
			}
			salvaged(t, files)
			if _, problems := verify(t, files); len(problems) > 0 != c.stays {
				t.Errorf("after a salvage: %q", problems)
			}
		})
	}
}

// salvaged replaces the store by its salvage, and returns the losses.
func salvaged(t *testing.T, files *vfs.MemFS) (pebble.Salvaged, []string) {
	t.Helper()
	var losses []string
	report, err := pebble.Salvage(t.Context(), "data", "out", pebble.Config{FS: files, MemTableBytes: 1 << 20}, func(l string) { losses = append(losses, l) })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(files.RemoveAll("data"), files.Rename("out", "data")); err != nil {
		t.Fatal(err)
	}
	return report, losses
}

func TestSalvageOfASoundStoreIsThatStore(t *testing.T) {
	files := variedStore(t)
	before, _ := verify(t, files)
	report, losses := salvaged(t, files)
	after, problems := verify(t, files)
	before.TableBytes, before.Tables, before.Logs, after.TableBytes, after.Tables, after.Logs = 0, 0, 0, 0, 0, 0
	if before != after || len(problems)+len(losses) > 0 || report.Woken != 0 {
		t.Errorf("of %+v it made %+v; %q, %q", before, after, problems, losses)
	}
	d := openOn(t, files, pebble.Config{})
	for n := range variedTasks {
		want := lifeOf(t, 2, uint64(n*stepsOfTask))[n%(stepsOfTask+1)]
		if got := rowsOf(t, d, 2, uint64(n*stepsOfTask)); got != want {
			t.Errorf("task %d: %s, want %s", n, got, want)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// Salvage copies everything but a damaged block, and reports the loss.
func TestSalvageLeavesOutOnlyTheDamagedBlock(t *testing.T) {
	d, files, table := tableStore(t, pebble.Config{})
	applyOK(t, d, store.FirstWithRow(markTask(tableTasks))) // in the log alone
	pebble.Mark(d)
	crashed := vfs.NewMem()
	if ok, err := vfs.Clone(files, crashed, "data", "data"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	flipInPlace(t, crashed, table)
	if _, problems := verify(t, crashed); len(problems) == 0 || !strings.Contains(problems[0], table) {
		t.Errorf("found %q, want %s", problems, table)
	}
	report, losses := salvaged(t, crashed)
	if len(losses) != 1 || !strings.Contains(losses[0], table) {
		t.Errorf("lost %q, want one block of %s", losses, table)
	}
	if rows := report.Tasks + report.Wakeups; rows < 2*tableTasks-tableTasks/10 || rows > 2*(tableTasks+1)-1 || report.Tasks == 0 {
		t.Errorf("%+v of %d tasks", report, tableTasks+1)
	}
	if _, problems := verify(t, crashed); len(problems) > 0 {
		t.Errorf("what was salvaged: %q", problems)
	}
	d = openOn(t, crashed, pebble.Config{})
	last := markTask(tableTasks)
	if rows, err := d.Tasks(t.Context(), []task.ID{last.ID}); err != nil || rows[0].ID != last.ID {
		t.Errorf("the task in the log: %v, %v", rows, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// Salvage copies the writes before and behind the damage of a log. Accepting the loss would keep only those
// before it.
func TestSalvageReadsBehindDamageInALog(t *testing.T) {
	const tasks = 20
	files := crashedStore(t, tasks, true)
	logs := logFiles(t, files)
	newest := logs[len(logs)-1]
	content := readFile(t, files, newest)
	size := len(bytes.TrimRight(content, "\x00"))
	content[size/2] ^= 1
	files = rewritten(t, files, newest, content)
	refused(t, files, newest)
	report, losses := salvaged(t, files)
	if len(losses) == 0 || report.Tasks < tasks-2 || report.Tasks >= tasks {
		t.Errorf("%+v, lost %q; want all but one or two of %d tasks", report, losses, tasks)
	}
	if _, problems := verify(t, files); len(problems) > 0 {
		t.Errorf("what was salvaged: %q", problems)
	}
}

// Salvage reads all files in the directory when there is no manifest and no marks.
func TestSalvageWithoutAManifest(t *testing.T) {
	files := variedStore(t)
	names, err := files.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") || name == "acknowledged" {
			if err := files.Remove("data/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, problems := verify(t, files); len(problems) == 0 {
		t.Error("nothing is found without a manifest")
	}
	report, losses := salvaged(t, files)
	if report.Tasks == 0 || report.Controls != 1 || len(losses) == 0 {
		t.Errorf("%+v, lost %q", report, losses)
	}
	if _, problems := verify(t, files); len(problems) > 0 {
		t.Errorf("what was salvaged: %q", problems)
	}
}

func TestSalvageNeedsAnEmptyDirectory(t *testing.T) {
	files := variedStore(t)
	for _, out := range []string{"data", "/"} {
		if _, err := pebble.Salvage(t.Context(), "data", out, pebble.Config{FS: files}, func(string) {}); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("into %s: %v", out, err)
		}
	}
}

// A missing data file, and one with a broken end, lose their own rows and no others.
func TestVerifyAndSalvageWithoutADataFile(t *testing.T) {
	harm := map[string]func(files *vfs.MemFS, name string) *vfs.MemFS{
		"gone": func(files *vfs.MemFS, name string) *vfs.MemFS {
			if err := files.Remove("data/" + name); err != nil {
				t.Fatal(err)
			}
			return files
		},
		"cut": func(files *vfs.MemFS, name string) *vfs.MemFS {
			content := readFile(t, files, name)
			return rewritten(t, files, name, content[:len(content)-100])
		},
	}
	for what, change := range harm {
		t.Run(what, func(t *testing.T) {
			d, files, table := tableStore(t, pebble.Config{})
			applyOK(t, d, store.FirstWithRow(markTask(tableTasks)))
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			files = change(files, table)
			if _, problems := verify(t, files); len(problems) == 0 || !strings.Contains(strings.Join(problems, "\n"), strings.TrimSuffix(table, ".sst")) {
				t.Errorf("found %q, want %s", problems, table)
			}
			report, losses := salvaged(t, files)
			name := strings.TrimSuffix(table, ".sst")
			if len(losses) != 1 || !strings.Contains(losses[0], name) || report.Tasks == 0 || report.Tasks > tableTasks {
				t.Errorf("%+v, lost %q; want the rows of %s", report, losses, table)
			}
		})
	}
}
