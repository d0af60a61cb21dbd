package catalog_test

import (
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func grow(c *catalog.Catalog, count uint16) func(*task.Lambda) error {
	return func(l *task.Lambda) error { return l.Grow(count, c.GrownFrom()) }
}

// TestShardsGrow has the history of a lambda survive its row, other changes, and the processes that know it.
func TestShardsGrow(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	s := store.New(mem.New(), store.Config{Clock: c})
	here, there := catalog.New(s, c, slog.New(slog.DiscardHandler), catalog.Limits{}), catalog.New(s, c, slog.New(slog.DiscardHandler), catalog.Limits{})
	made, _, err := here.Create(t.Context(), task.Lambda{Name: "mail", Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.Update(t.Context(), "mail", grow(here, 8)); err != nil {
		t.Fatal(err)
	}
	now := c.Now()
	grown, err := there.Update(t.Context(), "mail", func(l *task.Lambda) error { l.MaxAttempts = 3; return nil })
	want := []task.ShardCount{{Count: 2}, {Count: 8, From: now.Add(catalog.GrownAfter)}}
	if err != nil || grown.Shards != 8 || !reflect.DeepEqual(grown.ShardHistory, want) || len(made.ShardHistory) > 0 {
		t.Fatalf("%+v, %v", grown, err)
	}
	if n := len(there.Partitions()); n != 24 {
		t.Errorf("%d partitions, want those of 8 shards before they are in force", n)
	}
	if early := task.NewID(now.Add(catalog.IDAheadMax), 1, 2); grown.ShardsFor(early) != 2 {
		t.Error("an id that is as far ahead as may be is placed by a count that others may not know")
	}
	if late := task.NewID(now.Add(catalog.GrownAfter), 1, 2); grown.ShardsFor(late) != 8 {
		t.Error("the new count is not in force")
	}
	again, err := there.Update(t.Context(), "mail", grow(there, 8))
	if err != nil || again.Version != grown.Version {
		t.Errorf("the same count again: %+v, %v", again, err)
	}
	if _, err := there.Update(t.Context(), "mail", grow(there, 7)); !errors.Is(err, task.ErrShrink) {
		t.Errorf("fewer: %v, want ErrShrink", err)
	}
}

// TestWhatAShardCountMustOutlast is the sum of what ADR 20 goes by.
func TestWhatAShardCountMustOutlast(t *testing.T) {
	const clocks = 2 * 2 * time.Second // of two servers, each as far off that of AWS as one may be that starts
	if least := catalog.IDAheadMax + catalog.FreshFor + clocks + 10*time.Second; catalog.GrownAfter < least+30*time.Second {
		t.Errorf("a new count is in force after %v: want half a minute more than %v for a process that stands still", catalog.GrownAfter, least)
	}
}

// TestALambdaThatGrewIsTheSame creates lambdas again that have more shards by now.
func TestALambdaThatGrewIsTheSame(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	s := store.New(mem.New(), store.Config{Clock: c})
	lambdas := catalog.New(s, c, slog.New(slog.DiscardHandler), catalog.Limits{ShardsDefault: 4})
	made, _, err := lambdas.Create(t.Context(), task.Lambda{Name: "mail"})
	if err != nil || made.Shards != 4 {
		t.Fatalf("%+v, %v; want the default of this catalog", made, err)
	}
	for _, count := range []uint16{8, 9} {
		if _, err := lambdas.Update(t.Context(), "mail", grow(lambdas, count)); err != nil {
			t.Fatal(err)
		}
	}
	for shards, want := range map[uint16]error{0: nil, 4: nil, 8: nil, 9: nil, 1: catalog.ErrExists, 5: catalog.ErrExists, 16: catalog.ErrExists} {
		got, duplicate, err := lambdas.Create(t.Context(), task.Lambda{Name: "mail", Shards: shards})
		if !duplicate || got.Shards != 9 || !errors.Is(err, want) {
			t.Errorf("with %d shards: %+v %v, %v, want %v", shards, got, duplicate, err, want)
		}
	}
	if _, _, err := lambdas.Create(t.Context(), task.Lambda{Name: "mail", MaxAttempts: 3}); !errors.Is(err, catalog.ErrExists) {
		t.Errorf("with other attempts: %v, want ErrExists", err)
	}
}

// TestRegistrationsAndShards has registrations ask for more shards, for fewer, and for those that there were
// before a call had them grow.
func TestRegistrationsAndShards(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	s := store.New(mem.New(), store.Config{Clock: c})
	lambdas := catalog.New(s, c, slog.New(slog.DiscardHandler), catalog.Limits{ShardsDefault: 4})
	for _, step := range []struct {
		value string
		want  uint16
		err   error
	}{
		{`{"format":2}`, 4, nil},
		{`{"format":2,"shards":6}`, 6, nil},
		{`{"format":2,"shards":5}`, 6, catalog.ErrFixed},
		{`{"format":2,"max_attempts":3}`, 6, nil},
		{`{"format":2,"shards":4,"max_attempts":2}`, 6, nil},
		{`{"format":2,"shards":8,"max_attempts":2}`, 8, nil},
	} {
		_, _, err := lambdas.Register(t.Context(), registration(t, step.value))
		have, _ := lambdas.Lambda("mail")
		if !errors.Is(err, step.err) || have.Shards != step.want {
			t.Errorf("%s: %d shards, %v; want %d, %v", step.value, have.Shards, err, step.want, step.err)
		}
	}
}
