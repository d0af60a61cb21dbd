package hsc

import (
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// queueNames lists the queues to poll for the lambdas, those to be emptied first at the head: suspects,
// unless the process runs a blamed one whose quarantine is over, which they must not get into trouble; then
// class by class, highest first. Within a class the lambdas take turns at being first.
func queueNames(names []queue.Name, lambdas []*catalog.Entry, turn int, takes taking) []queue.Name {
	names = names[:0]
	if takes.blamed {
		names = appendClass(names, lambdas, turn, queue.Blamed)
	}
	if takes.suspects {
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

// entries finds the lambdas that may be served now, leaving out what does not exist or is being deleted.
func (s *Service) entries(found []*catalog.Entry, lambdas []string) []*catalog.Entry {
	found = found[:0]
	for _, name := range lambdas {
		if l, err := s.Catalog.Lambda(name); err == nil && !l.Deleting && l.Mode == task.Managed {
			found = append(found, l)
		}
	}
	return found
}
