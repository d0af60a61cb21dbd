package inbound_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/task"
)

// as makes the calls of the fixture those of an identity with some grants.
func (f *fixture) as(grants ...string) {
	f.t.Helper()
	all, err := access.ParseGrants(grants)
	if err != nil {
		f.t.Fatal(err)
	}
	f.ctx = access.With(f.ctx, access.Caller{Identity: access.Identity{Name: "somebody", Grants: all}})
}

// lists returns all tasks that a request lists, page by page; between is called after each page.
func (f *fixture) lists(r *kinesinv1.ListRequest, between func()) (all []*kinesinv1.Task) {
	f.t.Helper()
	for range 1000 {
		page, err := f.List(f.ctx, r)
		if err != nil {
			f.t.Fatalf("%v: %v", r, err)
		}
		if all = append(all, page.Tasks...); len(page.Next) == 0 {
			return all
		}
		if r.Cursor = page.Next; between != nil {
			between()
		}
	}
	f.t.Fatalf("%v has no end", r)
	return nil
}

func keysOf(tasks []*kinesinv1.Task) (keys []string) {
	for _, t := range tasks {
		keys = append(keys, t.Key)
	}
	return keys
}

func (f *fixture) lambdas(names ...string) {
	f.t.Helper()
	for _, name := range names {
		if _, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: name, Shards: 4}}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// named is a task of a lambda with a key.
func named(lambda, key string, due time.Duration, change ...func(*kinesinv1.ScheduleItem)) *kinesinv1.ScheduleItem {
	item := in(due)
	item.Lambda, item.Key = lambda, key
	for _, c := range change {
		c(item)
	}
	return item
}

func TestAListIsInOrderOfDueTimesWhateverThePartition(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		f.lambdas("pay", "ship")
		var want []string
		for i := range 60 { // in no order
			n := i * 37 % 60
			key := fmt.Sprintf("k%02d", n)
			f.schedule(named([]string{"mail", "pay", "ship"}[i%3], key, time.Duration(n+1)*time.Minute))
			want = append(want, key)
		}
		slices.Sort(want)
		for _, limit := range []int32{1, 7, 60, 1000} {
			if got := keysOf(f.lists(&kinesinv1.ListRequest{Order: "due", Limit: limit}, nil)); !slices.Equal(got, want) {
				t.Errorf("%d at a time: %v", limit, got)
			}
		}
		got := keysOf(f.lists(&kinesinv1.ListRequest{Order: "due", Limit: 2, Where: "due>=+31m and lambda in (mail, pay)"}, nil))
		if len(got) != 20 || got[0] < "k30" || !slices.IsSorted(got) {
			t.Errorf("those from then on: %v", got)
		}
		if got := keysOf(f.lists(&kinesinv1.ListRequest{Order: "due", Lambda: "ship", Limit: 3}, nil)); len(got) != 20 || !slices.IsSorted(got) {
			t.Errorf("of one lambda: %v", got)
		}
	})
}

// A page of a set over many empty partitions ends, and the next one goes on.
func TestAPageReadsABoundedNumberOfPartitions(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		if _, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "wide", Shards: 1024}}); err != nil {
			t.Fatal(err)
		}
		f.schedule(named("wide", "a", time.Hour), named("wide", "b", time.Hour))
		most, before := 0, f.rows.scanned()
		got := keysOf(f.lists(&kinesinv1.ListRequest{Where: "lambda=wide"}, func() {
			now := f.rows.scanned()
			most, before = max(most, now-before), now
		}))
		if slices.Sort(got); !slices.Equal(got, []string{"a", "b"}) || most == 0 || most > 500 {
			t.Errorf("%v, with %d reads for a page", got, most)
		}
	})
}

// The last page of ended tasks may be full, and the store may know then that there are no more.
func TestAFullLastPageIsTheLast(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		var want []string
		for i := range 6 {
			want = append(want, fmt.Sprintf("k%d", i))
			r := f.schedule(named("mail", want[i], time.Hour, func(i *item) { i.Priority = "low" }))[0]
			f.endAs(r.Id, task.Dead)
		}
		for _, where := range []string{"state=dead and lambda=mail", "state in (dead, cancelled)"} {
			for limit := range int32(7) {
				got := keysOf(f.lists(&kinesinv1.ListRequest{Where: where, Limit: limit + 1}, nil))
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%s, %d at a time: %v", where, limit+1, got)
				}
			}
		}
	})
}

// However many partitions there are, such a list reads a bounded number of rows ahead.
func TestAListOfManyPartitionsInOrderOfDueTimesIsBounded(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		if _, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "wide", Shards: 1024}}); err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			f.schedule(named("wide", fmt.Sprintf("k%02d", 29-i), time.Duration(30-i)*time.Minute))
		}
		f.rows.asked = 0
		got := keysOf(f.lists(&kinesinv1.ListRequest{Order: "due", Lambda: "wide", Limit: 1000}, nil))
		if len(got) != 30 || !slices.IsSorted(got) || f.rows.asked > 25_000 {
			t.Errorf("%v of %d rows", got, f.rows.asked)
		}
	})
}

// A task that does not change while somebody turns the pages is on one of them, once.
func TestPagesHoldStill(t *testing.T) {
	for _, order := range []string{"", "due", "-ended"} {
		run(t, func(f *fixture) {
			f.as("*:*")
			f.lambdas("pay")
			var ids []string
			for i := range 80 {
				ids = append(ids, f.accept(named([]string{"mail", "pay"}[i%2], fmt.Sprintf("k%02d", i), time.Duration(i*29%80+1)*time.Minute)))
			}
			if order == "-ended" {
				for _, id := range ids[:40] {
					f.cancelled(id)
				}
			}
			n := 0
			got := keysOf(f.lists(&kinesinv1.ListRequest{Order: order, Where: "due<+300h", Limit: 3}, func() {
				n++
				f.schedule(named("mail", fmt.Sprintf("new%d", n), time.Duration(n)*time.Minute)) // comes
				if i := 40 + n; i < 80 && n%2 == 1 {
					f.cancelled(ids[i]) // goes
				}
			}))
			seen := map[string]int{}
			for _, key := range got {
				seen[key]++
			}
			for i := range 40 {
				key := fmt.Sprintf("k%02d", i)
				if seen[key] != 1 {
					t.Errorf("order %q: %s was listed %d times", order, key, seen[key])
				}
			}
		})
	}
}

// cancelled cancels a task, a second after the last.
func (f *fixture) cancelled(id string) {
	f.t.Helper()
	f.time.Advance(time.Second)
	r, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: []string{id}})
	if err != nil || r.Results[0].Problem != nil {
		f.t.Fatal(r, err)
	}
}

// The newest task comes first, whatever its lambda, its due time and its state. Pages hold still while tasks
// come, end and are moved; a list that would read more than it may is refused.
func TestTheNewestComesFirst(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		f.lambdas("pay")
		var want, ids []string
		for i := range 30 {
			key := fmt.Sprintf("k%02d", i)
			ids = append(ids, f.accept(named([]string{"mail", "pay"}[i%2], key, time.Duration(i*17%30+1)*time.Hour)))
			want = append(want, key)
			f.time.Advance(time.Second)
		}
		slices.Reverse(want)
		n := 0
		meanwhile := func() {
			if n++; n > 5 {
				return
			}
			f.schedule(in(time.Minute))
			f.cancelled(ids[n*3])
			if _, err := f.Reschedule(f.ctx, &kinesinv1.RescheduleRequest{Ids: ids[n*3+1 : n*3+2], Delay: time.Hour.Microseconds()}); err != nil {
				t.Fatal(err)
			}
		}
		for _, limit := range []int32{100, 4, 1} {
			got := keysOf(f.lists(&kinesinv1.ListRequest{Order: "-created", Limit: limit, Where: `key~"k"`}, meanwhile))
			if !slices.Equal(got, want) {
				t.Errorf("%d at a time: %v", limit, got)
			}
		}
		if got := keysOf(f.lists(&kinesinv1.ListRequest{Order: "-created", Limit: 4, Lambda: "pay", State: "scheduled"}, nil)); len(got) == 0 || got[0] != "k29" {
			t.Errorf("of one lambda: %v", got)
		}
		_, err := f.List(f.ctx, &kinesinv1.ListRequest{Order: "-created", MaxExamined: 20})
		wantError(t, "20 rows", err, kinesinv1.Reason_REASON_UNSUPPORTED, "more than 20 tasks")
	})
}

// The next pages of a list of the newest ended tasks do not read all ended tasks again. They leave out what
// has changed since the list began.
func TestPagesOfTheNewestEndReadOnce(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		var ids []string
		for i := range 20 {
			ids = append(ids, f.accept(named("mail", fmt.Sprintf("k%02d", i), time.Hour)))
			f.cancelled(ids[i])
		}
		page := func(cursor []byte, limit int32) (string, []byte) {
			r, err := f.List(f.ctx, &kinesinv1.ListRequest{Order: "-ended", Limit: limit, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(keysOf(r.Tasks)), r.Next
		}
		first, cursor := page(nil, 5)
		scans := f.rows.endedScans
		f.redrive(&kinesinv1.RedriveRequest{Ids: ids[12:13]})
		f.redrive(&kinesinv1.RedriveRequest{Ids: ids[11:12]})
		f.time.Advance(time.Second)
		f.cancelled(ids[11])
		second, cursor2 := page(cursor, 5)
		third, cursor3 := page(cursor2, 100)
		if first != "[k19 k18 k17 k16 k15]" || second != "[k14 k13 k10 k09 k08]" || third != "[k07 k06 k05 k04 k03 k02 k01 k00]" || len(cursor3) > 0 {
			t.Error(first, second, third, cursor3)
		}
		if n := f.rows.endedScans - scans; n != 0 {
			t.Errorf("%d scans for the next pages", n)
		}
		for range 8 { // other lists
			f.time.Advance(time.Second)
			page(nil, 5)
		}
		others := f.rows.endedScans
		if again, _ := page(cursor, 5); again != second || f.rows.endedScans == others {
			t.Errorf("when it is read again: %s, after %d scans", again, f.rows.endedScans-others)
		}
	})
}

// A list shows what its caller may read, whatever the filter.
func TestAListShowsWhatMayBeRead(t *testing.T) {
	run(t, func(f *fixture) {
		f.lambdas("pay")
		in7 := func(i *kinesinv1.ScheduleItem) { i.Collection = "seven" }
		ended := f.accept(named("pay", "c", time.Hour, in7))
		f.schedule(named("mail", "a", time.Hour), named("mail", "b", time.Hour, in7), named("pay", "d", time.Hour))
		f.cancelled(ended)
		for _, c := range []struct {
			grants string
			where  string
			want   string
		}{
			{"*:*", "", "[a b c d]"},
			{"read:mail", "", "[a b]"},
			{"read:pay", "", "[c d]"},
			{"read:*:seven", "", "[b c]"},
			{"read:mail:seven", `lambda=mail or not lambda=mail`, "[b]"},
			{"schedule:*", "", "[]"},
			{"read:pay", "lambda=mail", "[]"},
		} {
			f.as(c.grants)
			for _, order := range []string{"", "due", "-ended"} {
				got := keysOf(f.lists(&kinesinv1.ListRequest{Where: c.where, Order: order, Limit: 1}, nil))
				slices.Sort(got)
				want := c.want
				if order == "due" {
					want = strings.NewReplacer(" c", "", "c ", "").Replace(want)
				}
				if order == "-ended" {
					want = "[]"
					if strings.Contains(c.want, "c") {
						want = "[c]"
					}
				}
				if fmt.Sprint(got) != want {
					t.Errorf("%s with %q in order %q: %v, want %s", c.grants, c.where, order, got, want)
				}
			}
		}
	})
}

func TestListsOfSetsThatAreRefused(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		f.schedule(in(time.Hour), in(time.Hour))
		first, err := f.List(f.ctx, &kinesinv1.ListRequest{Where: "state=scheduled", Limit: 1})
		if err != nil || len(first.Next) == 0 {
			t.Fatal(first, err)
		}
		for says, r := range map[string]*kinesinv1.ListRequest{
			"unknown field": {Where: "x=1"},
			"want due, -created or -ended, or no order": {Order: "ended"},
			"max_examined -1":          {Order: "-created", MaxExamined: -1},
			"want -ended":              {Where: "state=dead", Order: "due"},
			"want due":                 {Where: "state=scheduled", Order: "-ended"},
			"limit -1":                 {Limit: -1},
			"want one of":              {State: "lost"},
			"next of the page before":  {Where: "state=enqueued", Cursor: first.Next},
			"next of the page before,": {Cursor: []byte(`{"n":1,"p":{}}`)},
		} {
			_, err := f.List(f.ctx, r)
			wantError(t, says, err, isInvalid, says)
		}
		if _, err := f.List(f.ctx, &kinesinv1.ListRequest{Lambda: "gone", Where: "state=dead"}); err == nil || !strings.Contains(err.Error(), "unknown lambda") {
			t.Error(err)
		}
	})
}

// Durations count from when the list began, on each of its pages.
func TestAFilterHoldsStillToo(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		for i := range 20 {
			f.schedule(named("mail", fmt.Sprintf("k%02d", i), time.Duration(i)*time.Minute+time.Hour))
		}
		got := keysOf(f.lists(&kinesinv1.ListRequest{Where: "due>=+70m", Order: "due", Limit: 1}, func() { f.time.Advance(time.Minute) }))
		if len(got) != 10 || got[0] != "k10" {
			t.Error(got)
		}
	})
}

// A list without an order has live tasks by when they are due, whatever their lambda and priority, and then
// ended ones, the newest end first.
func TestAListWithoutAnOrderIsByTime(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		f.lambdas("pay", "ship")
		var want []string
		priorities := []string{"high", "normal", "low"}
		for i := range 30 { // in no order
			n := i * 17 % 30
			f.schedule(named([]string{"mail", "pay", "ship"}[i%3], fmt.Sprintf("k%02d", n), time.Duration(n+1)*time.Minute,
				func(item *kinesinv1.ScheduleItem) { item.Priority = priorities[i/3%3] }))
		}
		for n := 10; n < 30; n++ {
			want = append(want, fmt.Sprintf("k%02d", n))
		}
		for n := range 10 {
			f.time.Advance(time.Second)
			key := fmt.Sprintf("k%02d", n)
			live := f.lists(&kinesinv1.ListRequest{Where: "key=" + key}, nil)
			if _, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: []string{live[0].Id}}); err != nil {
				t.Fatal(err)
			}
			want = slices.Insert(want, 20, key)
		}
		for _, limit := range []int32{1, 7, 20, 25, 100} {
			if got := keysOf(f.lists(&kinesinv1.ListRequest{Limit: limit}, nil)); !slices.Equal(got, want) {
				t.Errorf("pages of %d: %v, want %v", limit, got, want)
			}
			if got := keysOf(f.lists(&kinesinv1.ListRequest{Limit: limit, State: "cancelled"}, nil)); !slices.Equal(got, want[20:]) {
				t.Errorf("pages of %d, ended: %v, want %v", limit, got, want[20:])
			}
		}
		if page, err := f.List(f.ctx, &kinesinv1.ListRequest{Limit: 30}); err != nil || len(page.Tasks) != 30 {
			t.Errorf("a page that has room for all has %d, %v", len(page.GetTasks()), err)
		}
		if got := keysOf(f.lists(&kinesinv1.ListRequest{Lambda: "mail", Limit: 3}, nil)); len(got) != 10 || !slices.IsSorted(got[:6]) {
			t.Errorf("of one lambda: %v", got)
		}
	})
}

// Ended tasks that are too many to find the newest of them come as they are stored, and for some minutes
// lists of the same tasks do not read so far again.
func TestAListThatIsTooLongToSortIsRemembered(t *testing.T) {
	run(t, func(f *fixture) {
		f.as("*:*")
		for i := range 20 {
			f.cancelled(f.accept(named("mail", fmt.Sprintf("k%02d", i*7%20), time.Hour)))
			f.time.Advance(time.Second)
		}
		list := func() string {
			f.time.Advance(time.Second)
			return fmt.Sprint(keysOf(f.lists(&kinesinv1.ListRequest{}, nil)))
		}
		newest := list()
		f.rows.endedTimes = 10_001
		stored := list()
		if stored == newest || len(stored) != len(newest) {
			t.Errorf("too many to sort: %s, and otherwise %s", stored, newest)
		}
		if again := list(); again != stored {
			t.Errorf("it was read to sort it again: %s", again)
		}
		f.time.Advance(5 * time.Minute)
		if later := list(); later != newest {
			t.Errorf("after five minutes: %s, want %s", later, newest)
		}
	})
}
