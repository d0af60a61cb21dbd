package task

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// WeightsOf returns the weights of a lambda's priorities in their order, from what is given by name: a
// priority that is not named has PriorityWeightFloor. Nothing given is strict, which is nil. It refuses, with
// ErrInvalid, a name that is no priority of the lambda, and a weight that is not 1 to PriorityWeightMax.
func WeightsOf(priorities []string, given map[string]uint32) ([]uint16, error) {
	if len(given) == 0 {
		return nil, nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(priorities, name) {
			errs = append(errs, fmt.Errorf("%w priority weights: %.80q is no priority of the lambda, which has %s", ErrInvalid, name, strings.Join(priorities, ", ")))
		}
		errs = append(errs, checkWeight(name, given[name]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	weights := make([]uint16, len(priorities))
	for i, name := range priorities {
		weights[i] = PriorityWeightFloor
		if weight, named := given[name]; named {
			weights[i] = uint16(weight)
		}
	}
	return weights, nil
}

func checkWeight(priority string, weight uint32) error {
	return between(fmt.Sprintf("weight of priority %.80q", priority), int64(weight), 1, PriorityWeightMax)
}

// checkWeights refuses weights that are not one for each priority.
func (l *Lambda) checkWeights() error {
	if l.PriorityWeights == nil {
		return nil
	}
	if len(l.PriorityWeights) != len(l.Priorities) {
		return fmt.Errorf("%w priority weights: want %d, one for each priority, have %d", ErrInvalid, len(l.Priorities), len(l.PriorityWeights))
	}
	var errs []error
	for i, weight := range l.PriorityWeights {
		errs = append(errs, checkWeight(l.Priorities[i], uint32(weight)))
	}
	return errors.Join(errs...)
}

// NamedWeights returns the weight of each priority by its name; nil if the order is strict.
func (l *Lambda) NamedWeights() map[string]uint32 {
	if l.PriorityWeights == nil {
		return nil
	}
	named := make(map[string]uint32, len(l.PriorityWeights))
	for i, weight := range l.PriorityWeights {
		named[l.Priorities[i]] = uint32(weight)
	}
	return named
}

// PrioritiesBefore returns how many of the lambda's priorities, from the highest on, have tasks that one of
// this priority must not overtake: its own and all higher ones; with weights all, since each has its turns.
func (l *Lambda) PrioritiesBefore(priority uint8) uint8 {
	if l.PriorityWeights != nil {
		return uint8(len(l.Priorities))
	}
	return priority + 1
}
