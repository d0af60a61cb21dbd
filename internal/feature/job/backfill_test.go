package job_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/inboundtest"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/job"
	"github.com/kinesin-io/kinesin/task"
)

// filler has an occurrence in each second, and schedules each once.
type filler struct {
	mu    sync.Mutex
	seen  map[task.Instant]int
	who   map[string]bool
	calls int
}

func (f *filler) fill(ctx context.Context, of string, position []byte, limit int) (done inbound.Part, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	var b struct{ From, To task.Instant }
	if err := json.Unmarshal([]byte(of), &b); err != nil {
		return done, err
	}
	last := b.From - 1_000_000
	if len(position) > 0 {
		last = task.Instant(binary.BigEndian.Uint64(position))
	}
	f.who[fmt.Sprint(access.From(ctx).Name, access.From(ctx).Grants.Strings())] = true
	for last+1_000_000 < b.To && len(done.Outcomes) < limit {
		last += 1_000_000
		outcome := "scheduled"
		if f.seen[last]++; f.seen[last] > 1 {
			outcome = "backfilled"
		}
		done.Outcomes = append(done.Outcomes, outcome)
	}
	done.Examined, done.Next, done.IsLast = len(done.Outcomes), binary.BigEndian.AppendUint64(nil, uint64(last)), len(done.Outcomes) < limit
	return done, nil
}

func (f *filler) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

func newFiller() *filler { return &filler{seen: map[task.Instant]int{}, who: map[string]bool{}} }

func (f *fixture) createBackfill(s *server, seconds int, r *kinesinv1.BackfillCronRequest) *kinesinv1.Job {
	f.T.Helper()
	j, err := s.CreateBackfill(f.Ctx, fmt.Sprintf(`{"cron":"tick","from":1000000,"to":%d}`, 1_000_000*(seconds+1)), "mail", r)
	if err != nil {
		f.T.Fatal(err)
	}
	synctest.Wait()
	return j
}

func TestABackfillKeepsItsPace(t *testing.T) {
	run(t, func(f *fixture) {
		fills := newFiller()
		f.As("ops", "schedule:mail", "operate:mail")
		s := f.server(func(c *job.Config) { c.Backfills = fills.fill })
		j := f.createBackfill(s, 100, &kinesinv1.BackfillCronRequest{Pace: 10})
		f.Time.Advance(4 * time.Second)
		if n := fills.count(); n < 40 || n > 45 {
			t.Errorf("%d occurrences in 4 s at 10 a second", n)
		}
		f.control(s, j.Id, "pause")
		f.Time.Advance(2 * time.Second)
		paused := fills.count()
		f.Time.Advance(time.Minute)
		if n := fills.count(); n != paused {
			t.Errorf("%d occurrences while it was paused", n-paused)
		}
		f.control(s, j.Id, "resume")
		f.Time.Advance(20 * time.Second)
		f.wantJob(s, j.Id, "done 100 map[scheduled:100]")
		if b := f.job(s, j.Id).Backfill; b.GetCron() != "tick" || b.GetFrom() != 1_000_000 || b.GetTo() != 101_000_000 {
			t.Error(b)
		}
		if len(fills.who) != 1 || !fills.who["ops[schedule:mail operate:mail]"] {
			t.Errorf("it acts as %v", fills.who)
		}
	})
}

func TestABackfillHasThePaceOfTheRecovery(t *testing.T) {
	run(t, func(f *fixture) {
		s := f.server(func(c *job.Config) {
			c.Backfills = newFiller().fill
			c.Recovery = func(where string) (uint32, error) { return uint32(len(where)), nil }
		})
		if j := f.createBackfill(s, 1, &kinesinv1.BackfillCronRequest{}); j.Pace != uint32(len("lambda=mail")) {
			t.Error(j)
		}
		if j := f.createBackfill(s, 1, &kinesinv1.BackfillCronRequest{Pace: 5}); j.Pace != 5 {
			t.Error(j)
		}
	})
}

func TestABackfillGoesOnAtAnotherServer(t *testing.T) {
	run(t, func(f *fixture) {
		fills := newFiller()
		first := f.server(func(c *job.Config) { c.Backfills, c.Store = fills.fill, &dying{Store: f.Store, saves: 4} })
		j := f.createBackfill(first, 10_500, &kinesinv1.BackfillCronRequest{})
		f.Time.Advance(5 * time.Second)
		if n := fills.count(); n == 0 || n == 10_500 {
			t.Fatalf("%d occurrences before the server died", n)
		}
		second := f.server(func(c *job.Config) { c.Backfills = fills.fill })
		f.Time.Advance(25 * time.Second)
		if n := fills.count(); n != 10_500 || f.job(second, j.Id).State != "done" {
			t.Errorf("%d occurrences, %v", n, f.job(second, j.Id))
		}
		again := 0
		for _, n := range fills.seen {
			again += n - 1
		}
		if again > 2000 {
			t.Errorf("%d occurrences were asked for again, want those of the two batches that were not noted", again)
		}
	})
}

func TestARepeatedBackfillCall(t *testing.T) {
	run(t, func(f *fixture) {
		s := f.server(func(c *job.Config) { c.Backfills = newFiller().fill })
		id := task.NewID(inboundtest.Start, 1, 2)
		one := f.createBackfill(s, 5, &kinesinv1.BackfillCronRequest{RequestId: id[:]})
		if two := f.createBackfill(s, 5, &kinesinv1.BackfillCronRequest{RequestId: id[:]}); two.Id != one.Id {
			t.Errorf("jobs %s and %s", one.Id, two.Id)
		}
		if _, err := s.CreateBackfill(f.Ctx, `{"cron":"tock"}`, "mail", &kinesinv1.BackfillCronRequest{RequestId: id[:]}); err == nil {
			t.Error("another backfill has the id of the first")
		}
	})
}

// A grant that the maker of a backfill loses is lost for the rest of it.
func TestABackfillActsWithWhatItsMakerStillMay(t *testing.T) {
	run(t, func(f *fixture) {
		fills := newFiller()
		f.As("ops", "schedule:mail", "operate:mail")
		s := f.server(func(c *job.Config) {
			c.Backfills = fills.fill
			c.GrantsOf = func(context.Context, string) (access.Grants, error) {
				return access.ParseGrants([]string{"schedule:mail"})
			}
		})
		j := f.createBackfill(s, 5, &kinesinv1.BackfillCronRequest{})
		f.Time.Advance(10 * time.Second)
		f.wantJob(s, j.Id, "done 5 map[scheduled:5]")
		if len(fills.who) != 1 || !fills.who["ops[schedule:mail]"] {
			t.Errorf("it acts as %v", fills.who)
		}
	})
}
