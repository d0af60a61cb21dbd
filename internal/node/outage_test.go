package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// lasts is a handler that takes as long as its payload says, unless it is told to stop.
func lasts(ctx context.Context, t *sdk.Task[[]byte]) error {
	d, err := time.ParseDuration(string(t.Payload))
	if err != nil {
		return sdk.Fatal(err)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *rig) lasting(d, in time.Duration) {
	r.Helper()
	r.schedule(sdk.Item{Lambda: "mail", In: in, Payload: []byte(d.String())})
}

// lost returns how many attempts were taken from their workers.
func (r *rig) lost() (n int) {
	r.Helper()
	for _, id := range r.book.all() {
		info, err := r.client.Get(r.ctx, id)
		if err != nil {
			r.Fatal(err)
		}
		n += info.WorkerLost
	}
	return n
}

// TestAnOutageOfTheStore takes the store away under load: tasks of seconds, tasks of minutes, and tasks that
// become due meanwhile. Whatever its length, no task is lost and none runs twice at once; while leases
// outlast the outage, no worker loses an attempt.
func TestAnOutageOfTheStore(t *testing.T) {
	for _, c := range []struct {
		name          string
		lease         time.Duration
		away          time.Duration
		reads, writes bool
		spared        bool // workers outlast it, with all they run
		within        time.Duration
	}{
		{name: "shorter than three heartbeats", lease: 15 * time.Second, away: 8 * time.Second, reads: true, writes: true, spared: true, within: 20 * time.Second},
		{name: "minutes, with leases that outlast it", lease: 20 * time.Minute, away: 5 * time.Minute, reads: true, writes: true, spared: true, within: 20 * time.Second},
		{name: "minutes, with default leases", lease: 15 * time.Second, away: 3 * time.Minute, reads: true, writes: true, within: time.Minute},
		{name: "of writes only", lease: 15 * time.Second, away: 3 * time.Minute, writes: true, within: time.Minute},
		{name: "of reads only", lease: 15 * time.Second, away: 3 * time.Minute, reads: true, within: time.Minute},
		{name: "with the shortest leases", lease: 3 * time.Second, away: 40 * time.Second, reads: true, writes: true, within: time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			var away *storetest.Away
			over := func(d store.Driver) store.Driver { away = storetest.NewAway(d); return away }
			inRig(t, drivers{over: over}, 2, remote, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", Timeout: time.Hour, Shards: 2, BackoffMin: time.Second, BackoffMax: 2 * time.Second})
				for i := range 4 {
					r.work(r.nodes[i%2], "mail", lasts, sdk.Slots(100), sdk.Lease(c.lease))
				}
				for i := range 100 {
					r.lasting(10*time.Minute, 0)
					r.lasting(time.Duration(i)*100*time.Millisecond, 20*time.Second)
					r.lasting(10*time.Millisecond, time.Duration(i)*time.Second)
				}
				time.Sleep(25 * time.Second)
				away.Set(c.reads, c.writes)
				time.Sleep(c.away)
				away.Set(false, false)
				back := time.Now()
				time.Sleep(c.within)
				running := r.book.running()
				if running < 100 {
					t.Errorf("%d tasks run %v after the outage, want the 100 long ones at least", running, c.within)
				}
				r.settled(30 * time.Minute)
				most := 2
				if c.spared {
					most = 1
				}
				r.book.check(t, most)
				if n := r.lost(); c.spared && n+r.book.deaths > 0 {
					t.Errorf("%d attempts were taken over, %d processes ended", n, r.book.deaths)
				}
				// the server's instants are whole microseconds, rounded down, and the test's are not
				if first, least := r.book.takeover(back), quietBeats(c.lease)-time.Microsecond; !c.spared && first <= least {
					t.Errorf("a task was taken over %v after the outage, want more than %v", first, least)
				}
				if calls, most := away.Calls(), int64(2000+c.away/time.Second*450); calls > most {
					t.Errorf("the store was asked %d times in %v while it was away, want %d at most", calls, c.away, most)
				}
				t.Logf("away for %v: %d processes ended, %d attempts taken over, %d calls meanwhile", c.away, r.book.deaths, r.lost(), away.Calls())
			})
		})
	}
}

// quietBeats is how long workers with such a lease have after an outage to renew it.
func quietBeats(lease time.Duration) time.Duration { return 3*lease/4 + task.ClockBound }

// running returns how many executions are under way.
func (l *ledger) running() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.runs {
		if all[len(all)-1].over.IsZero() {
			n++
		}
	}
	return n
}

// takeover returns how long after the instant the first task started for a second time.
func (l *ledger) takeover(since time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := time.Duration(1<<63 - 1)
	for _, all := range l.runs {
		for _, run := range all[1:] {
			if run.began.After(since) {
				first = min(first, run.began.Sub(since))
			}
		}
	}
	return first
}

func TestHowLongAnOutageLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := outage{clock: clock.Real()}
		away := fmt.Errorf("read: %w", store.ErrUnreachable)
		for _, step := range []struct {
			err  error
			want time.Duration // a second later
		}{
			{nil, 0},
			{away, time.Second},
			{away, 2 * time.Second},
			{context.Canceled, 3 * time.Second},
			{queue.ErrUnreachable, 4 * time.Second},
			{store.ErrNotFound, 0},
			{store.ErrUnknown, time.Second},
			{errors.Join(queue.ErrFull), 0},
			{context.DeadlineExceeded, time.Second},
			{nil, 0},
		} {
			o.note(step.err)
			time.Sleep(time.Second)
			if got := o.lasts(); got != step.want {
				t.Errorf("after %v: %v, want %v", step.err, got, step.want)
			}
		}
	})
}

// One of several servers over a store stays ready in an outage, and its answer says what is away.
func TestReadinessSaysWhatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{storeOutage: outage{clock: clock.Real()}, queueOutage: outage{clock: clock.Real()}}
		n.queueOutage.note(queue.ErrUnreachable)
		time.Sleep(unreadMax)
		if got := n.ready(); got != "ready" {
			t.Errorf("a short outage: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := n.ready(); got != "ready, but the queue has not answered for 7s" {
			t.Errorf("%q", got)
		}
		n.storeOutage.note(store.ErrUnreachable)
		time.Sleep(unreadMax + time.Second)
		if got := n.ready(); got != "ready, but the store has not answered for 6s" {
			t.Errorf("%q", got)
		}
	})
}
