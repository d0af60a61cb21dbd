package catalog_test

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
)

// TestSharedStateIsLocked is for the race detector: what stands behind one lock is used by goroutines that
// nothing else orders.
func TestSharedStateIsLocked(t *testing.T) {
	c := catalog.New(store.New(mem.New(), store.Config{}), clock.Real(), slog.New(slog.DiscardHandler), catalog.Limits{})
	var running sync.WaitGroup
	for _, use := range []func(){
		func() {
			if _, err := c.Find(t.Context(), "none"); !errors.Is(err, catalog.ErrUnknown) {
				t.Error(err)
			}
		},
	} {
		for range 2 {
			running.Go(func() {
				for range 50 {
					use()
				}
			})
		}
	}
	running.Wait()
}
