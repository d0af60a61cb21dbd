package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// byHost is a membership over the lease rows whose members are hosts, as pods are.
type byHost struct {
	rows *fleet.Membership
	self string

	mu   sync.Mutex
	last []string
}

func (m *byHost) Self() string { return m.self }

func (m *byHost) Members() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows.Declared() == fleet.Leaving || len(m.rows.Members()) == 0 {
		return slices.Clone(m.last)
	}
	members := []string{m.self}
	for _, p := range m.rows.Peers() {
		if p.Alive && p.State == fleet.Ready {
			members = append(members, p.Host)
		}
	}
	slices.Sort(members)
	m.last = slices.Compact(members)
	return slices.Clone(m.last)
}

func (m *byHost) Changed() <-chan struct{} { return m.rows.Heard() }

func (m *byHost) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (*byHost) Stalled() time.Duration { return 0 }

// pod configures a node whose members have other names than their processes.
func pod(name string) func(c *Config) {
	return func(c *Config) {
		remote(c)
		c.Name = name
		c.Over = func(rows *fleet.Membership) Membership { return &byHost{rows: rows, self: name} }
	}
}

func TestMembersWithOtherNamesThanTheirProcesses(t *testing.T) {
	inTown(t, func(w *town) {
		first := w.start(pod("a"))
		first.lambda(12)
		w.advance(2 * time.Second)
		second, third := w.start(pod("b")), w.start(pod("c"))
		w.advance(5 * time.Second)
		var ids []string
		for n := range 600 {
			ids = append(ids, first.schedule(item(2*time.Second+time.Duration(n)*50*time.Millisecond))...)
		}
		for _, p := range []*sender{first, second, third} {
			share := p.scheduler.Assignment()
			if !slices.Equal(share.Members, []string{"a", "b", "c"}) || share.Warm == 0 || p.NotReady() != "" {
				t.Errorf("%+v, %s", share, p.NotReady())
			}
			if here, _ := p.members.presence(first.members.process()); !here {
				t.Error("a process is not known by its own name")
			}
		}
		w.advance(10 * time.Second)
		third.stop()
		w.advance(5 * time.Second)
		again := w.start(pod("c")) // a container that starts again in its pod
		w.advance(30 * time.Second)
		w.wantDelivered(plannedMax, ids...)
		if second.steps("send") == 0 || again.steps("send") == 0 {
			t.Errorf("%d and %d sent", second.steps("send"), again.steps("send"))
		}
	})
}

// TestAListOfMembers restarts one of three listed members, which nobody takes over from.
func TestAListOfMembers(t *testing.T) {
	listed := func(name string) func(c *Config) {
		return func(c *Config) {
			remote(c)
			c.Name, c.Shared = name, true
			c.Membership = partition.Static(name, "a", "b", "c")
		}
	}
	inTown(t, func(w *town) {
		first := w.start(listed("a"))
		first.lambda(12)
		second, third := w.start(listed("b")), w.start(listed("c"))
		w.advance(5 * time.Second)
		var ids []string
		for n := range 600 {
			i := item(2*time.Second + time.Duration(n)*50*time.Millisecond)
			if n%4 == 0 {
				i.Key = fmt.Sprint(n)
			}
			ids = append(ids, first.schedule(i)...)
		}
		w.advance(10 * time.Second)
		third.stop()
		w.advance(10 * time.Second)
		w.start(listed("c"))
		w.advance(30 * time.Second)
		w.wantDelivered(20*time.Second, ids...)
		if got := second.scheduler.Assignment(); len(got.Members) != 3 || got.Owned == 0 {
			t.Errorf("%+v", got)
		}
	})
}

// Each server tells how many tasks died on all of them, by lambda, and of no other end.
func TestEachServerTellsWhatDied(t *testing.T) {
	inRig(t, drivers{}, 2, func(c *Config) { c.Shared = true }, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", MaxAttempts: 1})
		r.lambda(admin.Lambda{Name: "calm"})
		for _, name := range []string{"mail", "calm"} {
			for _, p := range r.nodes {
				r.work(p, name, func(_ context.Context, task *sdk.Task[[]byte]) error {
					switch {
					case name == "calm":
						return nil
					case string(task.Payload) == "fatal":
						return sdk.Fatal(errors.New("no"))
					}
					return errors.New("no")
				})
			}
		}
		time.Sleep(2 * time.Second)
		for range 61 {
			r.schedule(sdk.Item{Lambda: "mail"})
		}
		r.schedule(sdk.Item{Lambda: "mail", Payload: []byte("fatal")})
		r.schedule(sdk.Item{Lambda: "calm"})
		r.settled(time.Minute)
		time.Sleep(time.Minute + time.Second) // each has stored what it has counted
		for i, p := range r.nodes {
			all, err := admin.New(r.dial(p.transport)).Lambdas.Stats(r.ctx, "")
			if err != nil || len(all) != 2 {
				r.Fatal(all, err)
			}
			for _, s := range all {
				want := int64(0)
				if s.Lambda == "mail" {
					want = 61
				}
				if s.DeadHour != want || s.DeadDay != want {
					r.Errorf("node %d: %d tasks of %s died in the hour, %d in the day, want %d", i, s.DeadHour, s.Lambda, s.DeadDay, want)
				}
			}
		}
		time.Sleep(3 * time.Hour)
		if all, err := r.admin().Lambdas.Stats(r.ctx, "mail"); err != nil || all[0].DeadHour != 0 || all[0].DeadDay != 61 {
			r.Errorf("three hours later: %+v, %v", all, err)
		}
	})
}

func TestTheNewestHandOversAreRemembered(t *testing.T) {
	var m moves
	now := task.Instant(time.Hour)
	m.add(now, &scheduler.Assignment{}) // nothing moved
	for n := range movesMax + 3 {
		now = now.Add(time.Second)
		s := &scheduler.Assignment{Gained: n + 1, Lost: 1}
		m.add(now, s)
		s.Warm = time.Duration(n+1) * time.Millisecond
		m.warm(s)
	}
	m.add(now, &scheduler.Assignment{Lost: 7})
	m.warm(&scheduler.Assignment{Lost: 7, Warm: time.Second}) // it gained none that had to be read
	all := m.newestFirst()
	if len(all) != movesMax || all[0].Lost != 7 || all[0].Warm != 0 {
		t.Fatalf("%d hand-overs, the newest %+v; want %d, and 7 given up", len(all), all[0], movesMax)
	}
	if got := all[1]; got.Gained != movesMax+3 || got.Warm != (movesMax+3)*time.Millisecond || !got.At.Equal(now.Time()) {
		t.Errorf("%+v", got)
	}
}
