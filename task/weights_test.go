package task_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

func TestWeightsOf(t *testing.T) {
	priorities := []string{"high", "normal", "low"}
	for _, c := range []struct {
		given map[string]uint32
		want  []uint16
		word  string // of the error; empty: it is fine
	}{
		{nil, nil, ""},
		{map[string]uint32{"high": 8, "normal": 3, "low": 1}, []uint16{8, 3, 1}, ""},
		{map[string]uint32{"normal": 1000}, []uint16{1, 1000, 1}, ""},
		{map[string]uint32{"high": 0}, nil, `invalid weight of priority "high" 0: want 1 to 1000`},
		{map[string]uint32{"high": 1001}, nil, `invalid weight of priority "high" 1001: want 1 to 1000`},
		{map[string]uint32{"high": 65537}, nil, `want 1 to 1000`},
		{map[string]uint32{"urgent": 2}, nil, `invalid priority weights: "urgent" is no priority of the lambda, which has high, normal, low`},
		{map[string]uint32{"": 2}, nil, `"" is no priority`},
	} {
		got, err := task.WeightsOf(priorities, c.given)
		if c.word == "" {
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v: %v, %v; want %v", c.given, got, err, c.want)
			}
			continue
		}
		if !errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), c.word) || got != nil {
			t.Errorf("%v: %v, %v; want %q", c.given, got, err, c.word)
		}
	}
}

func TestPrioritiesBefore(t *testing.T) {
	strict := valid()
	weighted := valid()
	weighted.PriorityWeights = []uint16{8, 3, 1}
	for priority := range uint8(3) {
		if n := strict.PrioritiesBefore(priority); n != priority+1 {
			t.Errorf("strict: %d before %d", n, priority)
		}
		if n := weighted.PrioritiesBefore(priority); n != 3 {
			t.Errorf("weighted: %d before %d", n, priority)
		}
	}
}
