package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// keysAtOnce counts how many handlers of each limit key run at once. The payload is the key.
type keysAtOnce struct {
	mu         sync.Mutex
	now, most  map[string]int
	runs, ends int
	last       map[string]time.Time // when a task of a key has ended last
	idle       time.Duration        // the longest time from that to the next start of the key
}

func newKeysAtOnce() *keysAtOnce {
	return &keysAtOnce{now: map[string]int{}, most: map[string]int{}, last: map[string]time.Time{}}
}

func (a *keysAtOnce) begin(key string) (run int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ended := a.last[key]; !ended.IsZero() && a.now[key] == 0 {
		a.idle = max(a.idle, time.Since(ended))
	}
	a.now[key]++
	a.runs++
	a.most[key] = max(a.most[key], a.now[key])
	return a.runs
}

func (a *keysAtOnce) end(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now[key]--
	a.ends++
	a.last[key] = time.Now()
}

// lasting runs for a time. Every tenth fails at first.
func (a *keysAtOnce) lasting(d time.Duration) sdk.Handler {
	return func(ctx context.Context, t *sdk.Task[[]byte]) error {
		key := string(t.Payload)
		run := a.begin(key)
		defer a.end(key)
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
		if run%10 == 0 && t.Attempt == 1 {
			return errors.New("once")
		}
		return nil
	}
}

// mostOf returns how many tasks of a key ran at once at most.
func (a *keysAtOnce) mostOf(key string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most[key]
}

// wantAtOnce wants that no key ran more often at once than it may, and that each came to that.
func (a *keysAtOnce) wantAtOnce(t *testing.T, keys, most int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.most) != keys {
		t.Errorf("%d keys have run, want %d", len(a.most), keys)
	}
	for key, n := range a.most {
		if n != most {
			t.Errorf("%d of %s ran at once, want %d", n, key, most)
		}
	}
}

// scheduleKeys schedules tasks of limit keys, some with a key, some later.
func (r *rig) scheduleKeys(lambda string, keys ...string) {
	r.Helper()
	items := make([]sdk.Item, len(keys))
	for i, key := range keys {
		items[i] = sdk.Item{Lambda: lambda, LimitKey: key, Payload: []byte(key)}
		if i%5 == 0 {
			items[i].In = 3 * time.Second
		}
		if i%7 == 0 {
			items[i].Key = fmt.Sprint(lambda, i)
		}
	}
	results, err := r.client.ScheduleMany(r.ctx, items)
	if err != nil {
		r.Fatal(err)
	}
	for i := range results {
		if results[i].Err != nil {
			r.Fatal(results[i].Err)
		}
		r.book.accepted(results[i].ID)
	}
}

func keyTimes(key string, count int) []string {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = key
	}
	return keys
}

// TestNoMoreOfAKeyRunAtOnce has many tasks of one key due before those of others, on one node and on several:
// no key runs more often than it may, each runs as often as it may, and the others do not wait for the first.
func TestNoMoreOfAKeyRunAtOnce(t *testing.T) {
	const most, big, small, lasts = 3, 300, 30, 200 * time.Millisecond
	for name, c := range map[string]struct {
		nodes  int
		config func(*Config)
		within time.Duration // all have run
	}{
		"alone":         {1, nil, 40 * time.Second},
		"three, shared": {3, func(c *Config) { remote(c); c.Shared = true }, 150 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, drivers{}, c.nodes, c.config, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", Shards: 4, LimitKeyConcurrency: most, BackoffMin: time.Second, BackoffMax: 2 * time.Second})
				time.Sleep(5 * time.Second)
				a := newKeysAtOnce()
				for _, p := range r.nodes {
					r.work(p, "mail", a.lasting(lasts), sdk.Slots(200))
				}
				keys := keyTimes("big", big)
				for i := range 5 {
					keys = append(keys, keyTimes(fmt.Sprint("small", i), small)...)
				}
				r.scheduleKeys("mail", keys...)
				began := time.Now()
				r.settled(5 * time.Minute)
				took := time.Since(began)
				a.wantAtOnce(t, 6, most)
				if took > c.within {
					t.Errorf("all had run after %v, want at most %v", took, c.within)
				}
				t.Logf("%d runs in %v", a.runs, took)
			})
		})
	}
}

// TestAFreedSlotOfAKeyIsUsedAtOnce has tasks of one key run one after the other: the next starts within 20
// ms.
func TestAFreedSlotOfAKeyIsUsedAtOnce(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", LimitKeyConcurrency: 1})
		time.Sleep(2 * time.Second)
		a := newKeysAtOnce()
		r.work(r.nodes[0], "mail", func(_ context.Context, t *sdk.Task[[]byte]) error {
			a.begin(string(t.Payload))
			defer a.end(string(t.Payload))
			time.Sleep(10 * time.Millisecond)
			return nil
		}, sdk.Slots(10))
		items := make([]sdk.Item, 100)
		for i := range items {
			items[i] = sdk.Item{Lambda: "mail", LimitKey: "acme", Payload: []byte("acme")}
		}
		results, err := r.client.ScheduleMany(r.ctx, items)
		if err != nil {
			t.Fatal(err)
		}
		for i := range results {
			r.book.accepted(results[i].ID)
		}
		r.settled(time.Minute)
		a.wantAtOnce(t, 1, 1)
		t.Logf("idle at most %v", a.idle)
		if a.idle > 20*time.Millisecond {
			t.Errorf("the next task of the key started %v after one had ended, want at most 20 ms", a.idle)
		}
	})
}

// TestLimitsOfKeysAreSetWhileTasksRun sets and takes away a limit while tasks wait and run.
func TestLimitsOfKeysAreSetWhileTasksRun(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		a := newKeysAtOnce()
		r.work(r.nodes[0], "mail", a.lasting(time.Second), sdk.Slots(20))
		limit := func(atOnce int, reset ...string) {
			if _, err := r.admin().Lambdas.Update(r.ctx, admin.Lambda{Name: "mail", LimitKeyConcurrency: atOnce}, admin.LambdaUpdateOptions{Reset: reset}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			a.mu.Lock()
			defer a.mu.Unlock()
			clear(a.most)
		}
		r.scheduleKeys("mail", keyTimes("big", 20)...) // all of them run, or are on their queue
		time.Sleep(100 * time.Millisecond)
		limit(2)
		items := make([]sdk.Item, 200)
		for i := range items {
			items[i] = sdk.Item{Lambda: "mail", LimitKey: "big", Payload: []byte("big")}
		}
		if _, err := r.client.ScheduleMany(r.ctx, items); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		a.wantAtOnce(t, 1, 2)
		limit(0, "limit_key_concurrency")
		time.Sleep(5 * time.Second)
		if n := a.mostOf("big"); n != 20 {
			t.Errorf("%d ran at once after the limit was taken away, want all 20 slots", n)
		}
	})
}

// TestAKeyWithFreeSlotsIsNotWhatATaskWaitsFor has tasks of a key wait for a quota of their lambda, and then
// for the limit of the key: they say which of the two it is.
func TestAKeyWithFreeSlotsIsNotWhatATaskWaitsFor(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", LimitKeyConcurrency: 3})
		concurrency := func(n int, reset ...string) {
			if _, err := r.admin().Quotas.Set(r.ctx, admin.Quota{Lambda: "mail", Concurrency: n}, admin.QuotaSetOptions{Reset: reset}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		wants := func(id sdk.ID, reason, text string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			info, err := r.client.Get(r.ctx, id)
			if err != nil || info.WaitsFor.Reason != reason || text != "" && info.WaitsFor.Text != text {
				t.Errorf("waits for %+v, want %q %q: %v", info.WaitsFor, reason, text, err)
			}
		}
		concurrency(1)
		stays := make(chan struct{})
		r.work(r.nodes[0], "mail", func(context.Context, *sdk.Task[[]byte]) error {
			<-stays
			return nil
		}, sdk.Slots(10))
		time.Sleep(2 * time.Second)
		for range 3 {
			r.schedule(sdk.Item{Lambda: "mail", LimitKey: "acme"})
			time.Sleep(time.Second)
		}
		last := r.schedule(sdk.Item{Lambda: "mail", LimitKey: "acme"})
		wants(last, "quota", "")
		concurrency(0, "concurrency")
		wants(last, "key", "key acme: 3 of 3 run")
		close(stays)
		r.settled(time.Minute)
	})
}

// TestTheRateOfAKey starts the tasks of each key at its rate, one key no later than another.
func TestTheRateOfAKey(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", LimitKeyRate: 10})
		time.Sleep(2 * time.Second)
		a := newKeysAtOnce()
		r.work(r.nodes[0], "mail", a.lasting(time.Millisecond), sdk.Slots(200))
		began := time.Now()
		var items []sdk.Item
		for _, key := range append(keyTimes("big", 100), keyTimes("small", 20)...) {
			items = append(items, sdk.Item{Lambda: "mail", LimitKey: key, Payload: []byte(key), MaxAttempts: 2, BackoffMin: time.Second, BackoffMax: time.Second})
		}
		results, err := r.client.ScheduleMany(r.ctx, items)
		if err != nil {
			t.Fatal(err)
		}
		for i := range results {
			r.book.accepted(results[i].ID)
		}
		r.settled(time.Minute)
		if took := time.Since(began); took < 9*time.Second || took > 14*time.Second {
			t.Errorf("100 tasks of a key and some retries took %v at 10 a second", took)
		}
	})
}
