package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const start = task.Instant(1_700_000_000_000_000)

// rows lets a test do something between what a catalog reads and what it does with it.
type rows struct {
	*store.Store

	mu         sync.Mutex
	afterRead  func() // once, after the reading of all rows
	beforeRead func() // every time
	beforePut  func() // every time
	fails      error
}

func (r *rows) Controls(ctx context.Context, kind string) ([]store.Control, error) {
	r.mu.Lock()
	after, err := r.afterRead, r.fails
	r.afterRead = nil
	if r.beforeRead != nil {
		r.beforeRead()
	}
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	found, err := r.Store.Controls(ctx, kind)
	if after != nil {
		after()
	}
	return found, err
}

func (r *rows) PutControl(ctx context.Context, c store.Control) error {
	r.mu.Lock()
	before, err := r.beforePut, r.fails
	r.mu.Unlock()
	if before != nil {
		before()
	}
	if err != nil {
		return err
	}
	return r.Store.PutControl(ctx, c)
}

// fixture is one store and the catalogs of two processes.
type fixture struct {
	*catalog.Catalog

	t     *testing.T
	ctx   context.Context //nolint:containedctx // of the test
	time  *clock.Virtual
	rows  *rows
	other *catalog.Catalog
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	v := clock.NewVirtual(start, 1)
	r := &rows{Store: store.New(mem.New(), store.Config{Clock: v.Process(0)})}
	return &fixture{
		Catalog: catalog.New(r, v.Process(0), discard, catalog.Limits{}), t: t, ctx: t.Context(), time: v, rows: r,
		other: catalog.New(r.Store, v.Process(0), discard, catalog.Limits{}),
	}
}

var discard = slog.New(slog.DiscardHandler)

func (f *fixture) create(l task.Lambda) *catalog.Entry {
	f.t.Helper()
	entry, duplicate, err := f.Create(f.ctx, l)
	if err != nil || duplicate {
		f.t.Fatalf("create %s: duplicate %v, %v", l.Name, duplicate, err)
	}
	return entry
}

func TestCreateFillsDefaults(t *testing.T) {
	f := newFixture(t)
	made := f.create(task.Lambda{Name: "mail"})
	want := task.Lambda{Name: "mail"}.WithDefaults()
	if made.Ref == 0 || made.Created != start || made.Version != 1 || made.MaxAttempts != want.MaxAttempts || len(made.Priorities) != 3 {
		t.Errorf("%+v", made)
	}
	for what, find := range map[string]func() *catalog.Entry{
		"by name":      func() *catalog.Entry { e, _ := f.Lambda("mail"); return e },
		"by reference": func() *catalog.Entry { return f.ByRef(made.Ref) },
		"of all":       func() *catalog.Entry { return f.All()[0] },
	} {
		if got := find(); got == nil || got.Ref != made.Ref {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := len(f.Partitions()); got != 3 {
		t.Errorf("%d partitions", got)
	}
}

func TestCreateAgain(t *testing.T) {
	f := newFixture(t)
	first := f.create(task.Lambda{Name: "mail", MaxAttempts: 4})
	same, duplicate, err := f.Create(f.ctx, task.Lambda{Name: "mail", MaxAttempts: 4})
	if err != nil || !duplicate || same.Ref != first.Ref {
		t.Errorf("the same again: %+v, duplicate %v, %v", same, duplicate, err)
	}
	for _, other := range []task.Lambda{
		{Name: "mail"},
		{Name: "mail", MaxAttempts: 4, Priorities: []string{"only"}},
		{Name: "mail", MaxAttempts: 4, Shards: 2},
		{Name: "mail", MaxAttempts: 4, Timeout: time.Second},
		{Name: "mail", MaxAttempts: 4, Mode: task.Deliver},
	} {
		_, _, err := f.Create(f.ctx, other)
		if !errors.Is(err, catalog.ErrExists) || !strings.Contains(err.Error(), "max attempts 4") {
			t.Errorf("%+v: %v; want a refusal that tells the settings there are", other, err)
		}
	}
}

func TestCreateRefusesWhatIsNotAllowed(t *testing.T) {
	f := newFixture(t)
	for _, l := range []task.Lambda{
		{},
		{Name: "a b"},
		{Name: strings.Repeat("x", 65)},
		{Name: "x", Shards: task.ShardsMax + 1},
		{Name: "x", Priorities: []string{"a", "a"}},
		{Name: "x", BackoffMin: time.Minute, BackoffMax: time.Second},
	} {
		if _, _, err := f.Create(f.ctx, l); !errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), "want") && !strings.Contains(err.Error(), "twice") {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if rows, err := f.rows.Store.Controls(f.ctx, catalog.Kind); err != nil || len(rows) != 0 {
		t.Errorf("%d rows written, %v", len(rows), err)
	}
}

func TestCreatesAtTheSameTimeAgree(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		theirs task.Lambda
		err    error
	}{{task.Lambda{Name: "same"}, nil}, {task.Lambda{Name: "other", Shards: 3}, catalog.ErrExists}} {
		f.rows.beforePut = sync.OnceFunc(func() {
			if _, _, err := f.other.Create(f.ctx, c.theirs); err != nil {
				t.Error(err)
			}
		})
		ours, duplicate, err := f.Create(f.ctx, task.Lambda{Name: c.theirs.Name})
		theirs, findErr := f.other.Lambda(c.theirs.Name)
		if findErr != nil {
			t.Fatal(findErr)
		}
		if !duplicate || !errors.Is(err, c.err) || ours == nil || ours.Ref != theirs.Ref {
			t.Errorf("%s: %+v, duplicate %v, %v; theirs is %+v", c.theirs.Name, ours, duplicate, err, theirs)
		}
	}
}

func TestManyCreatesOfOneProcess(t *testing.T) {
	f := newFixture(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			entry, _, err := f.Create(f.ctx, task.Lambda{Name: "mail"})
			if err != nil || entry.Name != "mail" {
				t.Errorf("%+v, %v", entry, err)
			}
			if _, err := f.Lambda("mail"); err != nil {
				t.Errorf("created, but %v", err)
			}
		})
	}
	all.Wait()
	if n := len(f.All()); n != 1 {
		t.Errorf("%d lambdas", n)
	}
}

// A slow read that began before a lambda was created must not make it unknown again, and finds what others created.
func TestAnOldReadDoesNotTakeALambdaBack(t *testing.T) {
	for where, create := range map[string]func(f *fixture, l task.Lambda){
		"here": func(f *fixture, l task.Lambda) { f.create(l) },
		"by another process": func(f *fixture, l task.Lambda) {
			if _, _, err := f.other.Create(f.ctx, l); err != nil {
				f.t.Fatal(err)
			}
			if err := f.Refresh(f.ctx); err != nil {
				f.t.Fatal(err)
			}
		},
	} {
		t.Run(where, func(t *testing.T) {
			f := newFixture(t)
			if err := f.Refresh(f.ctx); err != nil { // so that creating one here reads none
				t.Fatal(err)
			}
			if _, _, err := f.other.Create(f.ctx, task.Lambda{Name: "before"}); err != nil {
				t.Fatal(err)
			}
			f.rows.afterRead = func() { create(f, task.Lambda{Name: "mail"}) }
			if err := f.Refresh(f.ctx); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"before", "mail"} {
				if _, err := f.Lambda(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A create costs one write, however many lambdas there are; only what is too old to be acted on is read again.
func TestCreateReadsOnlyWhatIsTooOld(t *testing.T) {
	f := newFixture(t)
	if err := f.Refresh(f.ctx); err != nil {
		t.Fatal(err)
	}
	reads := 0
	f.rows.beforeRead = func() { reads++ }
	f.create(task.Lambda{Name: "mail"})
	f.create(task.Lambda{Name: "first"})
	if all := f.All(); reads != 0 || len(all) != 2 || all[0].Name != "first" || len(f.Partitions()) != len(all[0].Partitions())+len(all[1].Partitions()) {
		t.Errorf("%d reads; know %v", reads, all)
	}
	if _, _, err := f.other.Create(f.ctx, task.Lambda{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	if _, duplicate, err := f.Create(f.ctx, task.Lambda{Name: "other"}); err != nil || !duplicate || reads != 1 {
		t.Errorf("what another process created: duplicate %v, %v, %d reads", duplicate, err, reads)
	}
	f.time.Advance(catalog.FreshFor + time.Second)
	f.create(task.Lambda{Name: "later"})
	f.rows.beforePut = func() { f.time.Advance(catalog.FreshFor + time.Second) }
	f.create(task.Lambda{Name: "last"})
	if reads != 3 || len(f.All()) != 5 {
		t.Errorf("%d reads; know %v", reads, f.All())
	}
}

func TestUpdate(t *testing.T) {
	f := newFixture(t)
	made := f.create(task.Lambda{Name: "mail"})
	changed, err := f.Update(f.ctx, "mail", func(l *task.Lambda) error { l.MaxAttempts = 7; return nil })
	if err != nil || changed.Version != 2 || changed.MaxAttempts != 7 || changed.Ref != made.Ref || made.MaxAttempts == 7 {
		t.Errorf("%+v, %v; before %+v", changed, err, made)
	}
	refusal := errors.New("no")
	for what, c := range map[string]struct {
		name   string
		change func(*task.Lambda) error
		want   error
	}{
		"unknown":     {"nobody", func(*task.Lambda) error { return nil }, catalog.ErrUnknown},
		"refused":     {"mail", func(*task.Lambda) error { return refusal }, refusal},
		"not allowed": {"mail", func(l *task.Lambda) error { l.Timeout = -1; return nil }, task.ErrInvalid},
	} {
		if _, err := f.Update(f.ctx, c.name, c.change); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now, _ := f.Lambda("mail"); now.Version != 2 {
		t.Errorf("a refused update made version %d", now.Version)
	}
}

func TestUpdatesAtTheSameTimeAllCount(t *testing.T) {
	f := newFixture(t)
	f.create(task.Lambda{Name: "mail", MaxAttempts: 1})
	more := func(l *task.Lambda) error { l.MaxAttempts++; return nil }
	times := 3
	f.rows.beforePut = func() {
		if times--; times >= 0 {
			if _, err := f.other.Update(f.ctx, "mail", more); err != nil {
				t.Error(err)
			}
		}
	}
	got, err := f.Update(f.ctx, "mail", more)
	if err != nil || got.MaxAttempts != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	times = 1000
	if _, err := f.Update(f.ctx, "mail", more); !errors.Is(err, catalog.ErrChanged) {
		t.Errorf("others never stop: %v", err)
	}
}

func TestRemove(t *testing.T) {
	f := newFixture(t)
	seen := f.create(task.Lambda{Name: "mail"})
	now, err := f.Update(f.ctx, "mail", func(l *task.Lambda) error { l.Deleting = true; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(f.ctx, seen); !errors.Is(err, catalog.ErrChanged) {
		t.Errorf("removed what had changed: %v", err)
	}
	if _, _, err := f.Create(f.ctx, task.Lambda{Name: "mail"}); !errors.Is(err, catalog.ErrDeleting) {
		t.Errorf("created while it is deleted: %v", err)
	}
	if err := f.Remove(f.ctx, now); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Lambda("mail"); !errors.Is(err, catalog.ErrUnknown) || f.ByRef(now.Ref) != nil {
		t.Errorf("still there: %v", err)
	}
	if again := f.create(task.Lambda{Name: "mail"}); again.Ref == now.Ref {
		t.Error("the new lambda has the reference of the old one, and with it its tasks")
	}
}

// TestRemoveWhatAnotherRemoved has two delete a lambda, and one of its name be made before the second comes
// to it: with the same version, which is no sign that it is the same.
func TestRemoveWhatAnotherRemoved(t *testing.T) {
	f := newFixture(t)
	begin := func(l *task.Lambda) error { l.Deleting = true; return nil }
	f.create(task.Lambda{Name: "mail"})
	first, err := f.Update(f.ctx, "mail", begin)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.other.Update(f.ctx, "mail", begin)
	if err != nil || second.Version != first.Version {
		t.Fatalf("version %d after one that changed nothing, want %d; %v", second.Version, first.Version, err)
	}
	if err := f.Remove(f.ctx, first); err != nil {
		t.Fatal(err)
	}
	if err := f.other.Remove(f.ctx, second); err != nil {
		t.Errorf("removed by another: %v", err)
	}
	f.create(task.Lambda{Name: "mail"})
	again, err := f.Update(f.ctx, "mail", func(l *task.Lambda) error { l.MaxAttempts = 3; return nil })
	if err != nil || again.Version != second.Version {
		t.Fatalf("%+v, %v", again, err)
	}
	if err := f.other.Remove(f.ctx, second); err != nil {
		t.Errorf("removed by another, and made again: %v", err)
	}
	if l, err := f.other.Lambda("mail"); err != nil || l.Ref != again.Ref {
		t.Errorf("the new one: %+v, %v", l, err)
	}
}

func TestLambdaSaysWhatIsWrongWithAName(t *testing.T) {
	f := newFixture(t)
	if _, err := f.Lambda("nobody"); !errors.Is(err, catalog.ErrUnknown) || !strings.Contains(err.Error(), "`kinesin lambda list`") {
		t.Errorf("%v", err)
	}
	if _, err := f.Lambda("a b"); !errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), "a-z") {
		t.Errorf("%v", err)
	}
}

func TestFieldsOfANewerVersionAreKept(t *testing.T) {
	f := newFixture(t)
	f.create(task.Lambda{Name: "mail"})
	row, err := f.rows.Control(f.ctx, catalog.Kind, "mail")
	if err != nil {
		t.Fatal(err)
	}
	row.Version++
	row.Value = append([]byte(`{"quota":{"per_second":12},`), row.Value[1:]...)
	if err := f.rows.Store.PutControl(f.ctx, row); err != nil {
		t.Fatal(err)
	}
	changed, err := f.Update(f.ctx, "mail", func(l *task.Lambda) error { l.MaxAttempts = 7; return nil })
	if err != nil || changed.MaxAttempts != 7 {
		t.Fatalf("%+v, %v", changed, err)
	}
	row, err = f.rows.Control(f.ctx, catalog.Kind, "mail")
	if err != nil {
		t.Fatal(err)
	}
	var now struct {
		Quota       map[string]int `json:"quota"`
		MaxAttempts int            `json:"max_attempts"`
	}
	if err := json.Unmarshal(row.Value, &now); err != nil || now.Quota["per_second"] != 12 || now.MaxAttempts != 7 {
		t.Errorf("%s, %v", row.Value, err)
	}
}

func TestARowThatCannotBeReadIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.create(task.Lambda{Name: "mail"})
	for name, value := range map[string]string{"torn": `{"ref":`, "newer": `{"ref":9,"mode":"teleport"}`, "empty": `{}`} {
		if err := f.rows.Store.PutControl(f.ctx, store.Control{Kind: catalog.Kind, Name: name, Version: 1, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Refresh(f.ctx); err != nil || len(f.All()) != 1 {
		t.Errorf("%d lambdas, %v", len(f.All()), err)
	}
	if _, _, err := f.Create(f.ctx, task.Lambda{Name: "newer"}); !errors.Is(err, catalog.ErrChanged) {
		t.Errorf("created over a row of a newer version: %v", err)
	}
	row, err := f.rows.Control(f.ctx, catalog.Kind, "newer")
	if err != nil || row.Version != 1 {
		t.Errorf("version %d, %v", row.Version, err)
	}
}

func TestAStoreThatFailsLeavesWhatIsKnown(t *testing.T) {
	f := newFixture(t)
	f.create(task.Lambda{Name: "mail"})
	f.rows.fails = errors.New("out of order")
	if err := f.Refresh(f.ctx); !errors.Is(err, f.rows.fails) {
		t.Errorf("refresh: %v", err)
	}
	if _, err := f.Lambda("mail"); err != nil {
		t.Error(err)
	}
	if _, _, err := f.Create(f.ctx, task.Lambda{Name: "other"}); !errors.Is(err, f.rows.fails) {
		t.Errorf("create: %v", err)
	}
}

func TestRunFollowsOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.time.Settle(synctest.Wait)
		cancel := runtest.Start(t, f.Run)
		synctest.Wait()

		changed := f.Changed()
		if _, _, err := f.other.Create(f.ctx, task.Lambda{Name: "mail"}); err != nil {
			t.Fatal(err)
		}
		f.time.Advance(catalog.RefreshEvery)
		select {
		case <-changed:
		default:
			t.Error("not told of a new lambda")
		}
		if _, err := f.Lambda("mail"); err != nil {
			t.Error(err)
		}
		changed = f.Changed()
		f.time.Advance(10 * catalog.RefreshEvery)
		select {
		case <-changed:
			t.Error("told of a change that was not")
		default:
		}
		cancel()
	})
}

func TestFindLooksForWhatAnotherProcessCreated(t *testing.T) {
	f := newFixture(t)
	if _, _, err := f.other.Create(f.ctx, task.Lambda{Name: "mail"}); err != nil {
		t.Fatal(err)
	}
	f.time.Advance(time.Second)
	if _, err := f.Lambda("mail"); !errors.Is(err, catalog.ErrUnknown) {
		t.Fatalf("known already: %v", err)
	}
	l, err := f.Find(f.ctx, "mail")
	if err != nil || l.Name != "mail" {
		t.Fatalf("%+v, %v", l, err)
	}
	if _, _, err := f.other.Create(f.ctx, task.Lambda{Name: "post"}); err != nil {
		t.Fatal(err)
	}
	f.time.Advance(time.Second)
	post, err := f.other.Lambda("post")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.FindRef(f.ctx, post.Ref); err != nil || got == nil || got.Name != "post" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := f.FindRef(f.ctx, post.Ref+1); err != nil || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := f.Find(f.ctx, "no name"); !errors.Is(err, task.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
	reads := 0
	f.rows.beforeRead = func() { reads++ }
	f.time.Advance(time.Second)
	for range 50 { // somebody asks again and again for what is not there
		if _, err := f.Find(f.ctx, "other"); !errors.Is(err, catalog.ErrUnknown) {
			t.Error(err)
		}
		f.time.Advance(10 * time.Millisecond)
	}
	if reads == 0 || reads > 6 {
		t.Errorf("%d reads of the store in half a second: want one each 100 ms at most", reads)
	}
}

// A lambda is created right after a read that everybody does now and then, and asked for at once.
func TestFindLooksAlsoRightAfterARefresh(t *testing.T) {
	f := newFixture(t)
	if err := f.Refresh(f.ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.other.Create(f.ctx, task.Lambda{Name: "mail"}); err != nil {
		t.Fatal(err)
	}
	f.time.Advance(time.Millisecond)
	if _, err := f.Find(f.ctx, "mail"); err != nil {
		t.Error(err)
	}
}

func TestWhatWasReadIsFreshForAWhile(t *testing.T) {
	f := newFixture(t)
	if err := f.Refresh(f.ctx); err != nil {
		t.Fatal(err)
	}
	since := f.Since()
	f.time.Advance(catalog.FreshFor)
	if !f.IsFresh(since) {
		t.Error("too old, though it was read FreshFor ago")
	}
	f.time.Advance(time.Millisecond)
	if f.IsFresh(since) {
		t.Error("still fresh")
	}
	if err := f.Refresh(f.ctx); err != nil || !f.IsFresh(f.Since()) {
		t.Errorf("not fresh after a read, %v", err)
	}
}
