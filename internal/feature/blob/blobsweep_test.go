package blob_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/blob"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// world is a place for blobs and the rows of an installation, in memory.
type world struct {
	t       *testing.T
	put     map[string]time.Time
	data    map[string]string
	rows    map[task.ID]task.Task
	control []store.Control
	fail    error // of reading rows
	sweeper *blob.Sweeper
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, put: map[string]time.Time{}, data: map[string]string{}, rows: map[task.ID]task.Task{}}
	w.sweeper = &blob.Sweeper{
		Blobs: w, Rows: w, Lambdas: w, KeyedID: keyed, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
	}
	w.sweep() // makes the place its own
	return w
}

func keyed(lambda uint32, key string) task.ID { return task.IDOf([]byte{byte(lambda)}, []byte(key)) }

func (w *world) Put(_ context.Context, name string, data []byte) error {
	w.put[name], w.data[name] = time.Now(), string(data)
	return nil
}

func (w *world) Get(_ context.Context, name string, _ int64) ([]byte, error) {
	if data, is := w.data[name]; is {
		return []byte(data), nil
	}
	return nil, blobs.ErrNotFound
}

func (w *world) Delete(_ context.Context, name string) error {
	delete(w.put, name)
	delete(w.data, name)
	return nil
}

func (w *world) List(_ context.Context, each func(blobs.Entry) error) error {
	for _, name := range slices.Sorted(maps.Keys(w.put)) {
		if err := each(blobs.Entry{Name: name, Put: w.put[name]}); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) Tasks(_ context.Context, ids []task.ID) ([]task.Task, error) {
	rows := make([]task.Task, len(ids))
	for i, id := range ids {
		rows[i] = w.rows[id]
	}
	return rows, w.fail
}

func (w *world) Control(_ context.Context, _, _ string) (store.Control, error) {
	if len(w.control) == 0 {
		return store.Control{}, store.ErrNotFound
	}
	return w.control[0], nil
}

func (w *world) PutControl(_ context.Context, c store.Control) error {
	w.control = append(w.control, c)
	return nil
}

func (w *world) Find(_ context.Context, name string) (*catalog.Entry, error) {
	if name != "mail" {
		return nil, catalog.ErrUnknown
	}
	return &catalog.Entry{Lambda: task.Lambda{Name: name, Ref: 5}}, nil
}

func (w *world) sweep() int {
	w.t.Helper()
	n, err := w.sweeper.Sweep(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// blob puts a blob of a task of lambda mail with a key, and its row.
func (w *world) blob(key string, n byte, change func(*task.Task)) string {
	id, now := [16]byte{n}, clock.Real().Now()
	t := task.Task{ID: keyed(5, key), Key: key, State: task.Scheduled, Due: now, Blob: &task.Blob{ID: id, Bytes: 1}}
	if change != nil {
		change(&t)
		w.rows[t.ID] = t
	}
	name := task.BlobName(task.BlobOwner{Lambda: "mail", Key: key}, id)
	_ = w.Put(w.t.Context(), name, []byte("x"))
	return name
}

func TestSweepKeepsWhatATaskNeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		end := func(state task.State, keep time.Duration) func(*task.Task) {
			return func(t *task.Task) { t.State, t.ExpireAt = state, clock.Real().Now().Add(keep) }
		}
		kept := []string{
			w.blob("waits", 1, func(*task.Task) {}),
			w.blob("ended", 2, end(task.Dead, 25*time.Hour)),
			w.blob("unreadable", 3, func(t *task.Task) { t.State = task.Unknown }),
		}
		gone := []string{
			w.blob("over", 4, end(task.Success, 23*time.Hour)), // its row is still there
			w.blob("never", 5, nil),                            // it was never scheduled
			w.blob("waits", 6, nil),                            // of an earlier payload of that task
			w.blob("inline", 7, func(t *task.Task) { t.Blob = nil }),
		}
		for _, owner := range []task.BlobOwner{{Lambda: "deleted", Key: "k"}, {Lambda: "mail", Task: task.ID{9}}} {
			gone = append(gone, task.BlobName(owner, [16]byte{8}))
		}
		gone = append(gone, blobs.TempPrefix+"crashed")
		for _, name := range gone[4:] {
			_ = w.Put(t.Context(), name, nil)
		}
		others := []string{"readme.txt", "mail/notes/x"}
		for _, name := range others {
			_ = w.Put(t.Context(), name, nil)
		}
		if n := w.sweep(); n != 0 {
			t.Errorf("%d blobs deleted that are young", n)
		}
		time.Sleep(blob.YoungMax + time.Second)
		young := w.blob("young", 10, nil)
		if n := w.sweep(); n != len(gone) {
			t.Errorf("%d deleted, want %d", n, len(gone))
		}
		for _, name := range append(append(kept, others...), young) {
			if _, is := w.data[name]; !is {
				t.Errorf("%s is deleted", name)
			}
		}
		for _, name := range gone {
			if _, is := w.data[name]; is {
				t.Errorf("%s is kept", name)
			}
		}
	})
}

func TestSweepReadsRowsInParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range byte(250) {
			change := func(*task.Task) {}
			if n%2 == 0 {
				change = nil
			}
			w.blob("k"+string(rune('a'+n)), n+1, change)
		}
		time.Sleep(2 * blob.YoungMax)
		if n := w.sweep(); n != 125 || len(w.data) != 126 {
			t.Errorf("%d deleted, %d left", n, len(w.data))
		}
	})
}

func TestSweepDeletesNothingWhenItCannotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		name := w.blob("never", 1, nil)
		time.Sleep(2 * blob.YoungMax)
		w.fail = errors.New("the store does not answer")
		if n, err := w.sweeper.Sweep(t.Context()); n != 0 || !errors.Is(err, w.fail) || w.data[name] == "" {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

// Two installations that name the same place by mistake lose nothing.
func TestSweepLeavesAForeignPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		name := w.blob("theirs", 1, nil)
		time.Sleep(2 * blob.YoungMax)
		w.control = nil // as the rows of another installation
		for range 2 {
			if n, err := w.sweeper.Sweep(t.Context()); n != 0 || !errors.Is(err, blob.ErrForeign) || w.data[name] == "" {
				t.Errorf("got %d, %v", n, err)
			}
		}
	})
}

func TestRunSweepsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.blob("never", 1, nil)
		stop := runtest.Start(t, w.sweeper.Run)
		time.Sleep(blob.YoungMax + 2*blob.Every)
		synctest.Wait()
		stop()
		if len(w.data) != 1 {
			t.Errorf("%d blobs left", len(w.data))
		}
	})
}
