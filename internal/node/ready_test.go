package node

import (
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
)

// full is a store that may be out of space, or wait for its disk.
type full struct {
	store.Driver

	full    bool
	waiting time.Duration
}

func (f *full) Capabilities() store.Capabilities {
	return store.Capabilities{
		Full:   func() bool { return f.full },
		Health: func() store.Health { return store.Health{Waiting: f.waiting} },
	}
}

// TestWhyANodeIsNotReady checks every reason not to be ready.
func TestWhyANodeIsNotReady(t *testing.T) {
	d := &full{Driver: storemem.New()}
	n := &Node{scheduler: scheduler.New(scheduler.Config{Clock: clock.Real()}), store: store.New(d, store.Config{})}
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() {}, "starting"},
		{func() { n.running.Store(true) }, "reading ahead"},
		{func() { n.warm.Store(true) }, ""},
		{func() { d.full = true }, "the store is full"},
		{func() { d.full = false }, ""},
		{func() { d.waiting = unreadMax }, ""},
		{func() { d.waiting = unreadMax + time.Second }, "completed no write for 6s"},
		{func() { d.waiting = 0 }, ""},
		{func() { n.draining.Store(true) }, "stopping"},
	} {
		c.change()
		if got := n.notReady(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
