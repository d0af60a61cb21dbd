package mem_test

import (
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Driver { return mem.New() })
}

// The suite that compares drivers is run on two of the model, so that what it draws is known to meet every
// case.
func TestDifferentialWithItself(t *testing.T) {
	open := func() store.Driver { return mem.New() }
	storetest.Differential(t, open, open, nil)
}
