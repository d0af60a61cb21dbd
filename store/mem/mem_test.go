package mem_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Driver { return mem.New() })
}

// An index that lags by no time is as good as the driver's own.
func TestLaggingConformsWithoutLag(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Driver {
		return storetest.NewLagging(mem.New(), func() task.Instant { return 1 }, func(*task.Task) time.Duration { return 0 })
	})
}
