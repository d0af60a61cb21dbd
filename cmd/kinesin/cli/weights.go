package cli

import (
	"fmt"
	"strings"

	"github.com/kinesin-io/kinesin/task"
)

// weightsValue is a flag with the weights of priorities.
type weightsValue struct{ weights *map[string]int }

func (v weightsValue) String() string {
	if v.weights == nil || *v.weights == nil {
		return ""
	}
	return fmt.Sprint(*v.weights)
}

func (v weightsValue) Set(text string) error {
	weights := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		name, number, isPair := strings.Cut(strings.TrimSpace(part), "=")
		if !isPair || name == "" {
			return fmt.Errorf("%q: want PRIORITY=WEIGHT separated by commas, such as high=8,normal=3,low=1", part)
		}
		if _, twice := weights[name]; twice {
			return fmt.Errorf("priority %q is named twice", name)
		}
		var weight int
		if err := (intValue{&weight, 1, task.PriorityWeightMax}).Set(number); err != nil {
			return fmt.Errorf("weight of %s: %w", name, err)
		}
		weights[name] = weight
	}
	*v.weights = weights
	return nil
}

func (weightsValue) Type() string { return "weights" }
