package load

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

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
