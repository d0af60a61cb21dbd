package inbound_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/task"
)

func (f *fixture) count(expression string) *kinesinv1.CountResponse {
	f.t.Helper()
	r, err := f.Count(f.ctx, &kinesinv1.CountRequest{Where: expression})
	if err != nil {
		f.t.Fatal(expression, err)
	}
	return r
}

func TestCountsAreOfWhatIsListed(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		f.lambdas("pay")
		for i := range 2500 {
			item := named([]string{"mail", "pay"}[i%2], fmt.Sprintf("k%04d", i), time.Duration(i)*time.Minute+time.Hour)
			if i%10 == 0 {
				item.Collection = "seven"
			}
			id := f.accept(item)
			if i < 30 {
				f.cancelled(id)
			}
		}
		for expression, want := range map[string]int64{
			"": 2500, "lambda=mail": 1250, "state=scheduled": 2470, "state=cancelled": 30, "lambda=pay and not state=cancelled": 1235,
			"collection=seven and state=scheduled": 247, "key~k00": 100, "due>=+24h and lambda=mail": 0, "ended<+1h": 30, "state in (dead,success)": 0,
		} {
			if expression == "due>=+24h and lambda=mail" {
				want = int64(len(f.lists(&kinesinv1.ListRequest{Where: expression, Limit: 1000}, nil)))
			}
			if r := f.count(expression); r.Count != want || !r.Exact {
				t.Errorf("%q: %v, want %d", expression, r, want)
			}
		}
		if r := f.count("state=scheduled"); r.Examined != 0 {
			t.Errorf("the store's own counts were not used: %v", r)
		}
		f.as("read:*:seven")
		if r := f.count("state=scheduled"); r.Count != 247 {
			t.Errorf("of one collection: %v", r)
		}
		f.as("read:pay")
		if r := f.count("state=scheduled"); r.Count != 1235 || r.Examined != 0 {
			t.Errorf("of one lambda: %v", r)
		}
		if _, err := f.Count(f.ctx, &kinesinv1.CountRequest{Where: "x"}); err == nil {
			t.Error("a bad filter was taken")
		}
	})
}

// Callers who count take turns, so that they leave room for everybody else.
func TestCountsAtOnceAreBounded(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		f.schedule(named("mail", "a", time.Hour))
		count := func() error {
			_, err := f.Count(f.ctx, &kinesinv1.CountRequest{Where: "key=a"})
			return err
		}
		hold := make(chan struct{})
		f.rows.set(nil, nil, func() { <-hold })
		var group sync.WaitGroup
		as := func(who string) context.Context {
			return access.With(f.ctx, access.Caller{Identity: access.Identity{Name: who, Grants: access.Grants{{Verb: access.Read, Lambda: access.Any, Collection: access.Any}}}})
		}
		for range 4 { // of the 7 that are not kept
			group.Go(func() {
				if _, err := f.Count(as("a"), &kinesinv1.CountRequest{Where: "key=a"}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := f.Count(as("a"), &kinesinv1.CountRequest{Where: "key=a"}); inbound.ReasonOf(err) != kinesinv1.Reason_REASON_FULL {
			t.Errorf("one too many of a caller: %v", err)
		}
		group.Go(func() {
			if _, err := f.Count(as("b"), &kinesinv1.CountRequest{Where: "key=a"}); err != nil {
				t.Error("another caller:", err)
			}
		})
		synctest.Wait()
		for range 3 {
			group.Go(func() {
				if err := count(); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := count(); inbound.ReasonOf(err) != kinesinv1.Reason_REASON_FULL {
			t.Errorf("one too many: %v", err)
		}
		close(hold)
		group.Wait()
		if err := count(); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

func TestStatsOfWhatMayBeRead(t *testing.T) {
	run(t, func(f *fixture) {
		f.lambdas("pay")
		f.schedule(named("mail", "a", 20*time.Second), named("mail", "b", time.Hour), named("pay", "c", time.Hour))
		f.time.Advance(time.Minute)
		for grants, want := range map[string]string{
			"*:*": "mail map[scheduled:2] true -40s;pay map[scheduled:1] true 0s;", "read:pay": "pay map[scheduled:1] true 0s;", "read:pay:seven": "",
		} {
			f.as(grants)
			r, err := f.Stats(f.ctx, &kinesinv1.StatsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, l := range r.Lambdas {
				oldest := time.Duration(0)
				if l.OldestDue != 0 {
					oldest = time.Duration(l.OldestDue-int64(f.clock.Now())) * time.Microsecond
				}
				got += fmt.Sprint(l.Lambda, " ", l.Tasks, " ", l.Exact, " ", oldest, ";")
			}
			if got != want {
				t.Errorf("%s: %s, want %s", grants, got, want)
			}
		}
		if _, err := f.Stats(f.ctx, &kinesinv1.StatsRequest{Lambda: "gone"}); err == nil {
			t.Error("an unknown lambda has statistics")
		}
	})
}

// metered is a store whose reads cost money.
type metered struct{ *watched }

func (metered) EndedExpire() bool { return true }

// A count of what is due reads no task that is due later, and estimates where reads cost money.
func TestCountOfWhatIsDue(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		f.lambdas("pay") // with 4 shards
		const each = 200
		for i := range each {
			for lambda, tasks := range map[string]map[string]time.Duration{
				"pay": {"now": time.Hour, "soon": 2 * time.Hour, "late": 9 * time.Hour}, "mail": {"now": time.Hour},
			} {
				for name, due := range tasks {
					f.accept(named(lambda, fmt.Sprint(name, i), due))
				}
			}
		}
		f.time.Advance(90 * time.Minute)
		of, err := inbound.Select("lambda=pay", f.clock.Now(), access.All())
		if err != nil {
			t.Fatal(err)
		}
		now := f.clock.Now()
		due, soon, exact, err := f.CountDue(f.ctx, of, now, now.Add(time.Hour))
		if err != nil || due != each || soon != each || !exact {
			t.Errorf("%d %d %v %v, want %d of both", due, soon, exact, err, each)
		}
		narrow := of
		narrow.Ended, narrow.WakesBy = false, now
		narrow.Only = func(t *task.Task) bool { return t.Key != "now7" }
		rows, examined := 0, 0
		for position := []byte(nil); ; {
			page, err := f.Page(f.ctx, &narrow, position, 1000)
			if err != nil {
				t.Fatal(err)
			}
			rows, examined = rows+len(page.Rows), examined+page.Examined
			if position = page.Next; len(position) == 0 {
				break
			}
		}
		if rows != each-1 || examined != each {
			t.Errorf("%d rows of %d, want %d of %d", rows, examined, each-1, each)
		}
		c := f.Config
		c.Store = metered{f.rows}
		due, soon, exact, err = inbound.New(c).CountDue(f.ctx, of, now, now.Add(time.Hour))
		if err != nil || exact || due%4 != 0 || due < each/2 || due > 2*each || soon%4 != 0 || soon < each/2 || soon > 2*each {
			t.Errorf("estimated %d %d %v %v, want about %d of both", due, soon, exact, err, each)
		}
	})
}
