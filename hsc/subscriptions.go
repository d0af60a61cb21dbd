package hsc

import (
	"slices"

	"github.com/kinesin-io/kinesin/internal/catalog"
)

// change replaces the slot groups of each lambda that a stream serves.
func (s *subscriptions) change(st *stream, edit func([]subscription, *slotGroup) []subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range st.groups {
		for _, lambda := range g.lambdas {
			if s.byLambda[lambda] = edit(s.byLambda[lambda], g); len(s.byLambda[lambda]) == 0 {
				delete(s.byLambda, lambda)
			}
		}
	}
}

// of returns the slot groups that serve a lambda, which may be nil.
func (s *subscriptions) of(l *catalog.Entry) []subscription {
	if l == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byLambda[l.Name]
}

func (s *subscriptions) add(st *stream) {
	s.change(st, func(groups []subscription, g *slotGroup) []subscription {
		return append(slices.Clip(groups), subscription{st, g})
	})
}

func (s *subscriptions) remove(st *stream) {
	s.change(st, func(groups []subscription, _ *slotGroup) []subscription {
		return slices.DeleteFunc(slices.Clone(groups), func(s subscription) bool { return s.stream == st })
	})
}
