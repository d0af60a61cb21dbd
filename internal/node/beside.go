package node

import (
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/hsc"
	processes "github.com/kinesin-io/kinesin/internal/process"
)

// beside sees processes of this machine, where it may.
func (c Config) beside() hsc.WatchProcess {
	if c.LeasesOnly || c.Stepped {
		return nil
	}
	return func(p *kinesinv1.Process) hsc.Process {
		id := processes.ID{PID: int(p.GetPid()), StartedTicks: p.GetStartedTicks()}
		if copy(id.Place[:], p.GetPlace()) != len(p.GetPlace()) || len(p.GetPlace()) != len(id.Place) {
			return nil
		}
		if watched, err := processes.Watch(id); err == nil {
			return watched
		}
		return nil // its lease tells
	}
}
