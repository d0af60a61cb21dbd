package chain_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// keyedWorld is a world whose parent is followed by a task with a key.
type keyedWorld struct {
	*world

	took int
	life uint64
}

func newKeyedWorld(t *testing.T) *keyedWorld {
	t.Helper()
	w := &keyedWorld{world: newWorld(t, false), life: uint64(start + 6e5)}
	row := w.parent
	if _, err := chain.Attach(&row, &kinesinv1.Followups{Then: []*kinesinv1.ScheduleItem{{Lambda: "l1", LambdaRef: 1, Key: "k", Payload: []byte("keyed")}}}, 700); err != nil {
		t.Fatal(err)
	}
	w.apply([]store.Op{{Kind: store.ReplaceTask, Task: row, From: row.Seq}})
	w.parent = row
	return w
}

func (w *keyedWorld) keeper(d store.Driver) *chain.Keeper {
	k := w.world.keeper(d, map[task.ID]int{})
	return chain.New(chain.Config{Store: k.Store, Clock: w.clock, Log: slog.New(slog.DiscardHandler), Lambda: k.Lambda}).Taking(w.take)
}

// take gives a task its key, as the intake would.
func (w *keyedWorld) take(_ context.Context, t task.Task, _ *intake.Keyed) (holder *task.Task, err error) {
	rows, err := w.mem.Tasks(context.Background(), []task.ID{t.ID})
	if err != nil {
		return nil, err
	}
	row := &rows[0]
	if !row.ID.IsZero() && !row.State.IsEnd() {
		return row, nil
	}
	w.took++
	w.life += 10
	t.Seq, t.Life = w.life, w.life
	ops := store.FirstWithRow(t)
	if !row.ID.IsZero() {
		ops = store.AsNext(ops, row)
	}
	w.apply(ops)
	return nil, nil //nolint:nilnil // it has the key
}

func (w *keyedWorld) holder() task.Task { return w.row(task.KeyedID(1, "k")) }

func (w *world) row(id task.ID) task.Task {
	w.Helper()
	rows, err := w.mem.Tasks(context.Background(), []task.ID{id})
	if err != nil {
		w.Fatal(err)
	}
	return rows[0]
}

// endHolder ends the task that has the key.
func (w *keyedWorld) endHolder() {
	w.Helper()
	have := w.holder()
	ended, _, err := have.Apply(task.Event{Kind: task.Cancel}, task.Instant(w.life+5), task.Policy{Retention: time.Hour})
	if err != nil {
		w.Fatal(err)
	}
	w.apply(store.Change(ended, false, false))
}

// other has another task take the key.
func (w *keyedWorld) other() {
	w.Helper()
	t := task.Task{ID: task.KeyedID(1, "k"), Key: "k", Partition: task.Partition{Lambda: 1}, State: task.Scheduled, Due: start + 9e8, Wake: start + 9e8}
	if _, err := w.take(context.Background(), t, nil); err != nil {
		w.Fatal(err)
	}
}

func (w *keyedWorld) dieBefore(at int) store.Driver {
	return &faulty{Driver: w.mem, fault: diedBefore, at: at}
}

// A process that dies after it gave a follow-up its key does not have it start twice, also if it has ended
// meanwhile and another task had the key since and ended too.
func TestAKeyIsTakenOnce(t *testing.T) {
	for _, usedSince := range []bool{false, true} {
		w := newKeyedWorld(t)
		_, _ = w.keeper(w.dieBefore(2)).Apply(t.Context(), w.end(task.OutcomeSuccess))
		first := w.holder()
		parent := w.row(w.parent.ID)
		if w.took != 1 || !first.IsFollowup(&parent, task.Then, 0) {
			t.Fatalf("the key was taken %d times, by %+v", w.took, first.Chain)
		}
		w.endHolder()
		if usedSince {
			w.other()
			w.endHolder()
		}
		before := w.took
		w.fullScan()
		if w.took != before {
			t.Errorf("used since %v: the follow-up was created twice", usedSince)
		}
		if _, parent := w.rows(); parent {
			t.Error("the parent keeps its wake-up row")
		}
	}
}

func (w *keyedWorld) fullScan() { w.scan(w.keeper(w.mem)) }

// A process that dies before a follow-up has its key loses nothing: the next one gives it the key, or notes
// which task holds it.
func TestAKeyIsNotLost(t *testing.T) {
	for _, held := range []bool{false, true} {
		w := newKeyedWorld(t)
		if held {
			w.life = uint64(start) // it has the key since before the end
			w.other()
			w.took = 0
		}
		k := chain.New(chain.Config{
			Store: store.New(w.mem, store.Config{Clock: w.clock}), Clock: w.clock, Log: slog.New(slog.DiscardHandler), Lambda: w.keeper(w.mem).Lambda,
		}).Taking(func(context.Context, task.Task, *intake.Keyed) (*task.Task, error) { return nil, store.ErrUnknown })
		_, _ = k.Apply(t.Context(), w.end(task.OutcomeSuccess))
		w.fullScan()
		parent, holder := w.row(w.parent.ID), w.holder()
		link := parent.Chain.HolderOf(task.Then, 0)
		if isFollowup := holder.IsFollowup(&parent, task.Then, 0); isFollowup == held || held != (link.ID == holder.ID) || w.took == 0 != held {
			t.Errorf("held %v: the key was taken %d times, by the follow-up: %v, and the chain notes %v", held, w.took, isFollowup, link)
		}
		if _, parent := w.rows(); parent {
			t.Error("the parent keeps its wake-up row")
		}
	}
}

// Two tasks that have ended, and each of which is followed by a task with the key of the other, do not wait
// for each other.
func TestKeysThatFollowEachOther(t *testing.T) {
	w := newKeyedWorld(t)
	calls := 0
	rows := chain.New(chain.Config{Store: store.New(w.mem, store.Config{Clock: w.clock}), Clock: w.clock, Log: slog.New(slog.DiscardHandler), Lambda: w.keeper(w.mem).Lambda})
	k := rows.Taking(func(ctx context.Context, _ task.Task, _ *intake.Keyed) (*task.Task, error) {
		calls++
		parent := w.row(w.parent.ID)
		return nil, rows.Complete(ctx, &parent) // the row that has the key is one whose own follow-up waits
	})
	_, _ = k.Apply(t.Context(), w.end(task.OutcomeSuccess))
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

// A Keeper does not rest from the end of a task on until its follow-up with a key is there, although the task row and
// the scheduler say that nothing is to be done: else time that is virtual would move on meanwhile.
func TestAKeeperRestsWhenTheKeyIsTaken(t *testing.T) {
	w := newKeyedWorld(t)
	c := chain.Config{Store: w.world.keeper(w.mem, nil).Store, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}
	c.Lambda = func(_ context.Context, ref uint32) (*task.Lambda, error) { l := lambdaOf(ref); return &l, nil }
	rested := 0
	c.Rested = func() { rested++ }
	var k *chain.Keeper
	k = chain.New(c).Taking(func(ctx context.Context, one task.Task, with *intake.Keyed) (*task.Task, error) {
		if _, rests := k.Rests(); rests || rested > 0 {
			t.Error("it rests while a follow-up takes its key")
		}
		return w.take(ctx, one, with)
	})
	if _, err := k.Apply(t.Context(), w.end(task.OutcomeSuccess)); err != nil {
		t.Fatal(err)
	}
	if _, rests := k.Rests(); !rests || rested != 1 || w.took != 1 {
		t.Errorf("rests %v, told %d times, %d keys taken; want true, once, one", rests, rested, w.took)
	}
}
