package hsc

import (
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// queueNames returns the queues to poll for the lambdas, those to be emptied first at the head: suspects, as
// far as the process accepts them, and then by priority, highest first. Within a priority the lambdas take
// turns at being first.
func queueNames(names []queue.Name, lambdas []*catalog.Entry, turn int, a accepted) []queue.Name {
	names = names[:0]
	if a.blamed {
		names = appendClass(names, lambdas, turn, queue.Blamed)
	}
	if a.suspects {
		names = appendClass(names, lambdas, turn, queue.Suspect)
	}
	return appendClass(names, lambdas, turn, queue.Normal)
}

func appendClass(names []queue.Name, lambdas []*catalog.Entry, turn int, class queue.Class) []queue.Name {
	for priority := range uint8(task.PrioritiesMax) {
		for i := range lambdas {
			l := lambdas[(turn+i)%len(lambdas)]
			if int(priority) < len(l.Priorities) {
				names = append(names, queue.Name{Lambda: l.Ref, Priority: priority, Class: class})
			}
		}
	}
	return names
}

// entries finds the lambdas whose tasks workers may run now: those that exist and are not being deleted.
func (s *Service) entries(found []*catalog.Entry, lambdas []string) []*catalog.Entry {
	found = found[:0]
	for _, name := range lambdas {
		if l, err := s.Catalog.Lambda(name); err == nil && !l.Deleting && l.Mode == task.Managed {
			found = append(found, l)
		}
	}
	return found
}
