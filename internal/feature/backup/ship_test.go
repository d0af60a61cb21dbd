package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/blobplace"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/backup"
	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/store"
)

// source is a store with made-up files.
type source struct {
	files  map[string][]byte
	opened []string
	writes uint64
	busy   int // snapshots that are refused
}

func newSource() *source {
	return &source{files: map[string][]byte{"000001.sst": noise(1, 9<<20), "000002.log": noise(2, 3<<20)}}
}

// noise is content of a length that is different for each seed.
func noise(seed, length int) []byte {
	line := fmt.Appendf(nil, "%d of %d;", seed, length)
	return bytes.Repeat(line, length/len(line)+1)[:length]
}

func (s *source) write(name string, content []byte) {
	s.files[name] = content
	s.writes++
}

func (s *source) Writes() uint64 { return s.writes }

func (s *source) Snapshot(context.Context) (store.Snapshot, error) {
	if s.busy > 0 {
		s.busy--
		return nil, store.ErrBusy
	}
	return s, nil
}

func (s *source) Files() (list []store.SnapshotFile) {
	for name, content := range s.files {
		list = append(list, store.SnapshotFile{Name: name, Bytes: int64(len(content)), Immutable: strings.HasSuffix(name, ".sst")})
	}
	return list
}

func (s *source) Open(name string) (io.ReadCloser, error) {
	s.opened = append(s.opened, name)
	return io.NopCloser(bytes.NewReader(s.files[name])), nil
}

func (*source) Close() error { return nil }

// rig is a store that is backed up into a directory.
type rig struct {
	*testing.T
	*source

	dir, data string
	sent      int64
	failed    int
	pointed   []time.Time
	log       bytes.Buffer
	fault     func(part, call, name string) error // nil: there is none
	after     bool                                // the fault comes after the call was done
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return &rig{T: t, source: newSource(), dir: filepath.Join(t.TempDir(), "place"), data: t.TempDir()}
}

// faulty is a part of a place that fails.
type faulty struct {
	blobplace.Place

	r    *rig
	part string
}

func (f faulty) try(call, name string, do func() error) error {
	var err error
	if f.r.fault != nil {
		err = f.r.fault(f.part, call, name)
	}
	if err != nil && !f.r.after {
		return err
	}
	return errors.Join(do(), err)
}

func (f faulty) Put(ctx context.Context, name string, data []byte) error {
	return f.try("put", name, func() error { return f.Place.Put(ctx, name, data) })
}

func (f faulty) List(ctx context.Context, each func(blobs.Entry) error) error {
	return f.try("list", "", func() error {
		return f.Place.List(ctx, func(e blobs.Entry) error {
			if f.r.fault == nil || f.r.fault(f.part, "entry", e.Name) == nil {
				return each(e)
			}
			return nil // not seen
		})
	})
}

func (r *rig) place() *backup.Place {
	r.Helper()
	p, err := backup.OpenPlace(r.Context(), r.dir)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(p.Close)
	p.Wrap(func(part string, of blobplace.Place) blobplace.Place { return faulty{of, r, part} })
	return p
}

// start starts a server's shipper on the data directory.
func (r *rig) start() (*backup.Shipper, error) {
	r.Helper()
	i, err := backup.ReadIdentity(r.data)
	if err != nil {
		return nil, err
	}
	return backup.NewShipper(r.Context(), backup.Config{
		Place: r.place(), Source: r.source, Identity: i, Claim: backup.Claim{Data: i.Data, Host: "there", Dir: r.data},
		Clock: clock.Real(), Log: slog.New(slog.NewTextHandler(&r.log, nil)), Every: 10 * time.Second, Keep: time.Hour,
		Pointed: func(at time.Time) { r.pointed = append(r.pointed, at) }, Sent: func(n int64) { r.sent += n }, Failed: func() { r.failed++ },
	})
}

func (r *rig) mustStart() *backup.Shipper {
	r.Helper()
	s, err := r.start()
	if err != nil {
		r.Fatal(err)
	}
	return s
}

func (r *rig) tick(s *backup.Shipper) {
	r.Helper()
	r.sent = 0
	if err := s.Tick(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// wantNewest extracts the newest recovery point.
func (r *rig) wantNewest(want map[string][]byte) {
	r.Helper()
	_, found, err := extract(r.T, r.dir)
	if err != nil || len(found) != len(want) {
		r.Fatalf("%d files, %v; want %d", len(found), err, len(want))
	}
	for name, content := range want {
		if found[name] != string(content) {
			r.Errorf("%s is another", name)
		}
	}
}

func (r *rig) points() []backup.Point {
	r.Helper()
	all, err := r.place().Points(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return all
}

const mib = 1 << 20

func TestOnlyWhatIsNewIsSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.mustStart()
	r.tick(s)
	if r.wantNewest(r.files); r.sent < 12*mib {
		t.Errorf("sent %d bytes of 12 MiB", r.sent)
	}
	r.tick(s)
	if len(r.points()) != 1 || r.sent != 0 || len(r.pointed) != 2 {
		t.Errorf("nothing was written: %d points, %d bytes, %d times all is there", len(r.points()), r.sent, len(r.pointed))
	}
	grown := slices.Concat(r.files["000002.log"], noise(3, 100<<10))
	r.write("000002.log", grown)
	r.write("000003.sst", noise(3, 1*mib))
	r.opened, r.busy = nil, 1
	r.tick(s)
	if r.wantNewest(r.files); r.sent < 1*mib || r.sent > 2*mib || slices.Contains(r.opened, "000001.sst") {
		t.Errorf("sent %d bytes and read %v after 1.1 MiB were written", r.sent, r.opened)
	}
	r.write("000002.log", slices.Concat(grown, noise(4, 1000)))
	r.opened = nil
	r.tick(r.mustStart()) // of the next process
	if r.wantNewest(r.files); r.sent > 1*mib || slices.Contains(r.opened, "000001.sst") {
		t.Errorf("sent %d bytes and read %v after a restart", r.sent, r.opened)
	}
}

// TestAPlaceThatFails lets each call fail in turn, before it is done and after. The recovery point of before stays, and
// the next one has all.
func TestAPlaceThatFails(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for _, after := range []bool{false, true} {
		for failing := 1; ; failing++ {
			r := newRig(t)
			r.files = map[string][]byte{"000001.sst": noise(1, 1000), "000002.log": noise(2, mib)}
			s := r.mustStart()
			r.tick(s)
			before := map[string][]byte{"000001.sst": r.files["000001.sst"], "000002.log": r.files["000002.log"]}
			r.write("000002.log", slices.Concat(before["000002.log"], noise(3, 5)))
			r.write("000003.log", noise(3, 2*mib+1))
			calls := 0
			r.after = after
			r.fault = func(_, call, _ string) error {
				if call == "entry" {
					return nil
				}
				if calls++; calls == failing {
					return down
				}
				return nil
			}
			err := s.Tick(t.Context())
			r.fault = nil
			if err == nil {
				if calls >= failing {
					t.Errorf("call %d failed, and nobody noticed", failing)
				}
				break
			}
			if !errors.Is(err, down) {
				t.Fatalf("call %d: %v", failing, err)
			}
			if len(r.points()) == 1 {
				r.wantNewest(before)
			} else {
				r.wantNewest(r.files) // the call that failed was done
			}
			r.tick(s)
			r.wantNewest(r.files)
		}
	}
}

// TestWhatIsSentBeforeAFailureIsNotSentAgain cuts a recovery point in its middle.
func TestWhatIsSentBeforeAFailureIsNotSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.mustStart()
	r.fault = func(part, call, _ string) error {
		if part == "points" && call == "put" {
			return errors.New("down")
		}
		return nil
	}
	if err := s.Tick(t.Context()); err == nil || r.sent < 12*mib {
		t.Fatalf("%v, sent %d bytes", err, r.sent)
	}
	r.fault = nil
	r.tick(s)
	if r.wantNewest(r.files); r.sent > 1*mib {
		t.Errorf("sent %d bytes again", r.sent)
	}
}

// TestPiecesThatAreHarmed removes, cuts and changes a piece: what has it is not restored, and the next process puts it
// again if it can tell.
func TestPiecesThatAreHarmed(t *testing.T) {
	t.Parallel()
	for what, harm := range map[string]func(path string) error{
		"removed": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 10) },
		"longer":  func(path string) error { return os.Truncate(path, 30*mib) },
		"changed": func(path string) error { return os.WriteFile(path, noise(9, 1*mib), 0o600) },
	} {
		r := newRig(t)
		r.tick(r.mustStart())
		for _, path := range pieces(t, r.dir) {
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := extract(t, r.dir); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", what, err)
		}
		if what == "changed" {
			continue
		}
		r.tick(r.mustStart())
		r.wantNewest(r.files)
	}
}

// TestABackupWhoseBaseIsPruned lets a writer rely on a recovery point that another removes, with its pieces.
func TestABackupWhoseBaseIsPruned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tick(r.mustStart())
	r.write("000002.log", noise(5, 2*mib))
	late := r.mustStart()
	r.fault = func(part, call, _ string) error {
		if part != "points" || call != "put" {
			return nil
		}
		r.fault = nil // meanwhile another adds a point, and prunes
		own := r.files
		r.files = map[string][]byte{"000009.log": noise(9, 100)}
		r.tick(r.mustStart())
		r.files = own
		points, gone, err := r.place().Prune(t.Context(), time.Now().Add(48*time.Hour), time.Hour)
		if points != 1 || gone == 0 || err != nil {
			t.Errorf("pruned %d points, %d pieces, %v", points, gone, err)
		}
		return nil
	}
	if err := late.Tick(t.Context()); err == nil {
		t.Error("a recovery point was put whose pieces may be gone")
	}
	r.wantNewest(map[string][]byte{"000009.log": noise(9, 100)})
	r.tick(late)
	r.wantNewest(r.files)
}

// TestAStaleList hides the newest recovery point from who prunes, and from who puts the next.
func TestAStaleList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.mustStart()
	r.tick(s)
	r.write("000003.sst", noise(3, 2*mib))
	r.tick(s)
	known := r.points()
	stale := func(part, call, name string) error {
		if part == "points" && call == "entry" && name != known[0].Name() {
			return errors.New("not seen")
		}
		return nil
	}
	r.fault = stale
	if _, gone, err := r.place().Prune(t.Context(), time.Now().Add(time.Hour), time.Minute); gone != 0 || err != nil {
		t.Errorf("pruned %d pieces, %v", gone, err)
	}
	r.write("000004.sst", noise(4, 10))
	if err := s.Tick(t.Context()); err == nil {
		t.Error("a recovery point whose base is not seen")
	}
	r.fault = nil
	if got := r.points(); !slices.Equal(got, known) {
		t.Errorf("%v, want %v", got, known)
	}
	r.tick(s)
	r.wantNewest(r.files)
}

// TestAPrunePassesByWhatIsYoung prunes while a recovery point is being put whose pieces no point names yet.
func TestAPrunePassesByWhatIsYoung(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.files = map[string][]byte{"000001.sst": noise(1, 10)}
	s := r.mustStart()
	r.tick(s)
	r.write("000002.log", noise(2, 10))
	r.fault = func(part, call, _ string) error {
		if part == "points" && call == "put" {
			if _, gone, err := r.place().Prune(t.Context(), time.Now(), time.Hour); gone != 0 || err != nil {
				t.Errorf("pruned %d pieces, %v", gone, err)
			}
		}
		return nil
	}
	r.tick(s)
	r.wantNewest(r.files)
}

func TestWhichPointsGo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 30, 0, 0, time.UTC)
	at := func(claim int, clockTime string) backup.Point {
		created, err := time.Parse("02 15:04", clockTime)
		if err != nil {
			t.Fatal(err)
		}
		return backup.Point{Claim: claim, Created: created.AddDate(2026, 10, 0)}
	}
	all := []backup.Point{
		at(1, "28 09:10"), at(1, "29 12:20"), // older than a day
		at(1, "29 13:00"), at(1, "29 13:59"), at(1, "30 09:15"), at(2, "30 09:20"), at(2, "30 09:30"),
		at(2, "30 11:00"), at(2, "30 11:29"), at(2, "30 11:31"), at(2, "30 11:40"), at(2, "30 12:29"),
	}
	want := []time.Time{all[0].Created, all[1].Created, all[2].Created, all[5].Created, all[7].Created}
	if got := backup.Outdated(all, now, 24*time.Hour); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := backup.Outdated(all[:1], now, time.Hour); len(got) != 0 {
		t.Errorf("the newest went: %v", got)
	}
}

func TestPointsByTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.mustStart()
	var firsts []time.Time
	for n := range 3 {
		r.write("000002.log", noise(n, 10))
		r.tick(s)
		all := r.points()
		firsts = append(firsts, all[len(all)-1].Created)
	}
	for n, at := range firsts {
		into := t.TempDir()
		_, err := backup.Extract(t.Context(), r.dir, at, into)
		content, readErr := os.ReadFile(filepath.Join(into, "000002.log"))
		if err := errors.Join(err, readErr); err != nil || !bytes.Equal(content, noise(n, 10)) {
			t.Errorf("point %d: %q, %v", n, content, err)
		}
	}
	_, err := backup.Extract(t.Context(), r.dir, firsts[0].Add(-time.Second), t.TempDir())
	if !errors.Is(err, backup.ErrNone) || !strings.Contains(err.Error(), firsts[0].Format(time.RFC3339Nano)) || !strings.Contains(err.Error(), firsts[2].Format(time.RFC3339Nano)) {
		t.Errorf("%v, want ErrNone with the oldest and the newest", err)
	}
}

// TestClaims gives a place to one data directory at a time.
func TestClaims(t *testing.T) {
	t.Parallel()
	first := newRig(t)
	s := first.mustStart()
	first.tick(s)
	first.tick(first.mustStart()) // a restart goes on

	second := newRig(t)
	second.dir = first.dir
	if _, err := second.start(); !errors.Is(err, backup.ErrClaimed) || !strings.Contains(err.Error(), first.data) || !strings.Contains(err.Error(), "--promote") {
		t.Errorf("another server got the place: %v", err)
	}
	if left, err := os.ReadDir(second.data); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}

	mine, before, err := second.place().TakeOver(t.Context(), backup.Claim{Data: "new", Host: "elsewhere", Dir: "/new"})
	if err != nil || mine.Number != 2 || before.Number != 1 {
		t.Fatal(mine, before, err)
	}
	answered := func() bool {
		t.Helper()
		is, err := second.place().Answered(t.Context(), before.Number)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	first.write("000002.log", noise(7, 10))
	if err := s.Tick(t.Context()); !errors.Is(err, backup.ErrClaimed) || !strings.Contains(err.Error(), "elsewhere") || answered() {
		t.Errorf("the server that was replaced goes on: %v", err)
	}
	if err := s.Last(t.Context()); err != nil || !answered() {
		t.Errorf("no answer: %v", err)
	}
	first.wantNewest(first.files)
	if _, err := first.start(); !errors.Is(err, backup.ErrClaimed) || !strings.Contains(err.Error(), "claim 2 of /new") || !strings.Contains(err.Error(), "backup.json") {
		t.Errorf("it starts again: %v", err)
	}
}

func TestOneOfSeveralTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	numbers := make([]int, 8)
	var all sync.WaitGroup
	for n := range numbers {
		place := r.place()
		all.Go(func() {
			if c, _, err := place.TakeOver(t.Context(), backup.Claim{Data: fmt.Sprint(n)}); err == nil {
				numbers[n] = c.Number
			} else if !errors.Is(err, blobplace.ErrExists) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(numbers)
	if got := slices.Compact(slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n == 0 })); len(got) == 0 || got[0] != 1 || got[len(got)-1] != len(got) {
		t.Errorf("claims %v", numbers)
	}
}

// TestAPlaceThatIsAway keeps a server running through outages of its place, and starting.
func TestAPlaceThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		away := func(string, string, string) error { return errors.New("away") }
		r.fault = away
		if _, err := r.start(); err == nil {
			t.Error("a first start whose place is away: nobody would notice a wrong name")
		}
		r.fault = nil
		run := func(s *backup.Shipper, d time.Duration) error {
			ctx, end := clock.Within(t.Context(), clock.Real(), d)
			defer end()
			return s.Run(ctx)
		}
		s := r.mustStart()
		if err := run(s, 5*time.Second); err != nil {
			t.Error(err)
		}
		r.fault = away
		if err := run(s, 55*time.Second); err != nil {
			t.Error(err)
		}
		if r.failed != 6 || strings.Count(r.log.String(), "no recovery point") != 1 {
			t.Errorf("%d failures, log:\n%s", r.failed, &r.log)
		}
		s = r.mustStart() // it had the place before
		if err := run(s, 5*time.Second); err != nil {
			t.Error(err)
		}
		r.fault = nil
		r.write("000002.log", noise(8, 10))
		if err := run(s, time.Minute); err != nil {
			t.Error(err)
		}
		r.wantNewest(r.files)
		if strings.Count(r.log.String(), "backups work again") != 1 {
			t.Errorf("log:\n%s", &r.log)
		}
		if _, _, err := r.place().TakeOver(t.Context(), backup.Claim{Data: "new"}); err != nil {
			t.Fatal(err)
		}
		if err := run(s, time.Minute); !errors.Is(err, backup.ErrClaimed) {
			t.Errorf("it ended with %v", err)
		}
	})
}
