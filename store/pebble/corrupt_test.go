package pebble_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// TestCorruptFilesAreNoticed damages one file at a time: it flips bytes, cuts the file short, and
// removes it. Then opening or reading must fail with ErrCorrupt, or all data must be right. The test leaves
// out damage in the last logTail bytes of a log that was not closed, because that looks like a write that a
// crash interrupted.
func TestCorruptFilesAreNoticed(t *testing.T) {
	files, want := filledStore(t)
	names, err := files.List("data")
	if err != nil {
		t.Fatal(err)
	}
	newest := newestLog(names)
	if n := len(readFile(t, files, newest)); n < 2*logTail {
		t.Fatalf("the log has only %d bytes", n)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	noticed := map[string]int{}
	for _, name := range names {
		kind := fileKind(name)
		content := readFile(t, files, name)
		if kind == "" || len(content) == 0 || (kind == "log" && name != newest) {
			continue
		}
		sound := content
		if kind == "log" {
			sound = content[:len(content)-logTail]
		}
		for range 24 {
			noticed[kind+" flipped"] += damage(t, files, want, name, flipped(rng, content, len(sound)))
		}
		if kind != "log" {
			noticed[kind+" cut"] += damage(t, files, want, name, content[:rng.IntN(len(content))])
			noticed[kind+" removed"] += damage(t, files, want, name, nil)
		}
	}
	t.Logf("noticed: %v", noticed)
	for _, how := range []string{"sst flipped", "sst cut", "sst removed", "MANIFEST flipped", "log flipped", "acknowledged removed"} {
		if noticed[how] == 0 {
			t.Errorf("%s: never noticed", how)
		}
	}
}

// logTail is two blocks of a log: a damaged block is noticed by what the next one says was synced before it.
const logTail = 2 * 32 << 10

// newestLog returns the log that may end in an interrupted write.
func newestLog(names []string) string {
	slices.Sort(names)
	newest := ""
	for _, name := range names {
		if fileKind(name) == "log" {
			newest = name
		}
	}
	return newest
}

// fileKind is empty for files without data of ours.
func fileKind(name string) string {
	for _, kind := range []string{"sst", "log", "MANIFEST", "acknowledged"} {
		if strings.Contains(name, kind) && !strings.HasPrefix(name, "marker") {
			return kind
		}
	}
	return ""
}

// filledStore is one with data files and a log, and all its rows.
func filledStore(t *testing.T) (*vfs.MemFS, []task.Task) {
	t.Helper()
	files := vfs.NewCrashableMem()
	var want []task.Task
	for round := range 2 {
		d := openOn(t, files, pebble.Config{})
		for batch := range 10 {
			const tasks = 50
			var ops []store.Op
			for i := range uint64(tasks) {
				row := crashTask(round, (uint64(batch)*tasks+i)*stepsOfTask)
				row.Payload = fmt.Appendf(nil, "payload %d %d %d %0200d", round, batch, i, i)
				row.PayloadSize = uint32(len(row.Payload))
				want = append(want, row)
				ops = append(ops, store.FirstWithRow(row)...)
			}
			if results, err := d.Apply(t.Context(), ops); err != nil || errors.Join(results...) != nil {
				t.Fatal(results, err)
			}
		}
		if round == 0 { // its rows go to data files; those of the next round stay in the log
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		survivor := files.CrashClone(vfs.CrashCloneCfg{})
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		files = survivor
	}
	return files, want
}

// flipped changes some of the first n bytes.
func flipped(rng *rand.Rand, content []byte, n int) []byte {
	content = bytes.Clone(content)
	for range 1 + rng.IntN(3) {
		content[rng.IntN(n)] ^= byte(1 + rng.IntN(255))
	}
	return content
}

func readFile(t *testing.T, files vfs.FS, name string) []byte {
	t.Helper()
	file, err := files.Open("data/" + name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return content
}

// damage opens a copy in which one file has other content, none for removed, and reports 1 if that was
// noticed.
func damage(t *testing.T, files *vfs.MemFS, want []task.Task, name string, content []byte) int {
	t.Helper()
	clone := vfs.NewMem()
	if ok, err := vfs.Clone(files, clone, "data", "data"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := clone.Remove("data/" + name); err != nil {
		t.Fatal(err)
	}
	if content != nil {
		file, err := clone.Create("data/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.Write(content)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	d, err := pebble.Open("data", pebble.Config{FS: clone, MemTableBytes: 1 << 20, Fatal: func(error) {}})
	if err == nil {
		err = errors.Join(readAll(t, d, want, name), ignore(d.Close()))
	}
	switch {
	case err == nil:
		return 0
	case !errors.Is(err, store.ErrCorrupt):
		t.Errorf("%s: %v, want ErrCorrupt", name, err)
	}
	return 1
}

// ignore ignores the error of closing a damaged store.
func ignore(error) error { return nil }

// readAll reads every row, by id and by the index, and fails the test if one is wrong.
func readAll(t *testing.T, d *pebble.Driver, want []task.Task, name string) error {
	t.Helper()
	ids := make([]task.ID, len(want))
	for i := range want {
		ids[i] = want[i].ID
	}
	rows, err := d.Tasks(t.Context(), ids)
	if err != nil {
		return err
	}
	for i := range rows {
		if rows[i].State == task.Unknown && rows[i].ID == want[i].ID { // one alone says what is wrong with it
			if _, err := d.Tasks(t.Context(), ids[i:i+1]); err != nil {
				return err
			}
		}
		if !reflect.DeepEqual(rows[i], want[i]) {
			t.Errorf("%s damaged: read %+v, want %+v", name, rows[i], want[i])
			return nil
		}
	}
	woken, err := d.ScanSchedule(t.Context(), crashPart, store.WakeKey{}, 1<<62, len(want)+1)
	if err == nil && len(woken) != len(want) {
		t.Errorf("%s damaged: %d wake-up rows, want %d", name, len(woken), len(want))
	}
	return err
}

// TestDamageWithinABlockOfTheLogIsNoticed has a log shorter than a block: nothing but the chunks behind the
// damage can say that something was lost, and nothing says where they begin.
func TestDamageWithinABlockOfTheLogIsNoticed(t *testing.T) {
	files := vfs.NewCrashableMem()
	d := openOn(t, files, pebble.Config{})
	var want []task.Task
	for n := range uint64(60) {
		row := crashTask(1, n*stepsOfTask)
		if results, err := d.Apply(t.Context(), store.FirstWithRow(row)); err != nil || errors.Join(results...) != nil {
			t.Fatal(results, err)
		}
		want = append(want, row)
	}
	survivor := files.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := survivor.List("data")
	if err != nil {
		t.Fatal(err)
	}
	newest := newestLog(names)
	content := readFile(t, survivor, newest)
	if len(content) >= 32<<10 {
		t.Fatalf("the log has %d bytes, more than a block", len(content))
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 24 {
		at := len(content)/4 + rng.IntN(len(content)/2)
		if damage(t, survivor, want, newest, slices.Concat(content[:at], []byte("garbagegarbage"), content[at+14:])) == 0 {
			t.Errorf("damage at %d of %d bytes is not noticed", at, len(content))
		}
	}
}
