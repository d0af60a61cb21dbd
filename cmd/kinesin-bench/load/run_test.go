package load

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRecordCountsExactly(t *testing.T) {
	t.Parallel()
	due := time.UnixMicro(1_000_000)
	r := newRecord(3)
	for i := range r.due {
		r.due[i] = due.UnixMicro()
	}
	all := payloads(4, 16, func(i int) uint64 { return uint64(i) })
	r.start(all[0], due.Add(2*time.Millisecond))
	r.start(all[0], due.Add(9*time.Millisecond))
	r.start(all[1], due.Add(-time.Millisecond))
	r.start(all[3], due)
	r.start([]byte("short"), due)
	r.start(warmUpPayload(16), due)
	if r.started.Load() != 2 || r.duplicate.Load() != 1 || r.early.Load() != 1 || r.strange.Load() != 2 {
		t.Errorf("started %d, duplicate %d, early %d, strange %d", r.started.Load(), r.duplicate.Load(), r.early.Load(), r.strange.Load())
	}
	if late := r.lateness(); len(late) != 2 || late[0] != 2000 || late[1] != -1000 {
		t.Errorf("lateness %v", late)
	}
	select {
	case <-r.all:
		t.Error("all have started, it says, and one has not")
	default:
	}
	r.start(all[2], due)
	<-r.all
	<-r.warm
	run := run{Config: Config{Kind: Wall, Tasks: 3}, seen: r, accepted: 4}
	if o := run.report(phase{from: due, to: due.Add(time.Second), server: 3 * time.Second}); o.Lost != 1 || o.Rate != 3 || o.CPUServer != 1000 {
		t.Errorf("report %+v", o)
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i+1) * 1000
	}
	for share, want := range map[float64]float64{0: 1, .5: 50, .95: 95, .99: 99, 1: 100} {
		if got := percentile(hundred, share); got != want {
			t.Errorf("p%v is %v, want %v", share*100, got, want)
		}
	}
	if percentile(nil, .5) != 0 || percentile([]int64{7000}, .99) != 7 {
		t.Error("of none or one")
	}
}

func TestPayloadsHaveTheirNumber(t *testing.T) {
	t.Parallel()
	size := indexBytes + rand.IntN(100)
	r := newRecord(10)
	for _, p := range payloads(10, size, func(i int) uint64 { return uint64(9 - i) }) {
		if len(p) != size {
			t.Fatalf("%d bytes, want %d", len(p), size)
		}
		r.start(p, time.UnixMicro(1))
	}
	if r.started.Load() != 10 {
		t.Errorf("%d different numbers", r.started.Load())
	}
}

func TestWhatCannotBeRun(t *testing.T) {
	t.Parallel()
	good := Config{Kind: Wall, Tasks: 1, Slots: 1, PayloadBytes: 8, Batch: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		"tasks":         func(c *Config) { c.Tasks = TasksMax + 1 },
		"workers":       func(c *Config) { c.Slots = 0 },
		"payload bytes": func(c *Config) { c.PayloadBytes = 7 },
		"batch":         func(c *Config) { c.Batch = 0 },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	steady := Config{Kind: Steady, Rate: 100, Duration: 2 * time.Second, Slots: 1, PayloadBytes: 8, Batch: 1}
	if err := steady.Validate(); err != nil || steady.Tasks != 200 {
		t.Errorf("%d tasks, %v", steady.Tasks, err)
	}
}

func TestFiguresOfAGroup(t *testing.T) {
	t.Parallel()
	due := time.UnixMicro(1_000_000)
	b := brake{BrakeConfig: &BrakeConfig{}, name: "pause", seen: newRecord(5)}
	first, second := group{from: 0, to: 3}, group{from: 3, to: 5}
	for i, payload := range payloads(4, indexBytes, func(i int) uint64 { return uint64(i) }) { // the last one never starts
		b.seen.due[i] = due.UnixMicro()
		b.seen.start(payload, due.Add(time.Duration(3-i)*time.Second))
	}
	if got := b.lateness(first); !slices.Equal(got, []int64{1_000_000, 2_000_000, 3_000_000}) {
		t.Errorf("lateness %v", got)
	}
	if rate := b.rateSince(first, due); rate != 1 {
		t.Errorf("%v a second", rate)
	}
	if rate := b.rateSince(group{from: 4, to: 5}, due); rate != 0 || len(b.starts(second)) != 1 {
		t.Errorf("%v a second of none, %d starts", rate, len(b.starts(second)))
	}
	if n := between(b.starts(first), due.Add(time.Second), due.Add(3*time.Second)); n != 2 {
		t.Errorf("%d between, want those of the beginning and none of the end", n)
	}
	if m := median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("median %v", m)
	}
	b.figure("held_tasks", 3)
	var out strings.Builder
	if err := Figures(b.figures).Print(&out); err != nil || !strings.Contains(out.String(), "pause  held_tasks  3.0000") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestUnknownBrake(t *testing.T) {
	t.Parallel()
	if _, err := Brake(t.Context(), "nap", &BrakeConfig{}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}

func TestTheBoundOfIsolation(t *testing.T) {
	solo := Report{LatenessP99: 10}
	for p99, within := range map[float64]bool{10: true, 17: true, 17.1: false} {
		row := IsolationOf(Case{Name: "failing"}, 5, &Report{Tasks: 3, LatenessP99: p99, Lost: 1}, &solo)
		if row.BoundP99 != 17 || row.Within != within || row.Lost != 1 || row.Case != "failing" || row.NeighbourTasks != 5 {
			t.Errorf("p99 %v: %+v", p99, row)
		}
	}
	var out strings.Builder
	if err := (Isolations{{Case: "failing", LatenessP99: 17.05}}).Print(&out); err != nil || !strings.Contains(out.String(), "failing") || !strings.Contains(out.String(), "17.1") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestCasesOfIsolation(t *testing.T) {
	cases := Cases()
	if cases[0].Name != Solo || cases[0].Tasks != nil {
		t.Errorf("the first case is %+v", cases[0])
	}
	seen := map[string]bool{}
	for _, c := range cases[1:] {
		if n := c.Tasks(1_000_000); n < 1 || n > 1_000_000 || c.Tasks(1) != 1 || c.PayloadBytes < indexBytes || seen[c.Name] {
			t.Errorf("case %+v", c)
		}
		seen[c.Name] = true
	}
}
