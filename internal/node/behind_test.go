package node

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// TestWhatWaitsBehindLongTasksStartsWhenTheyEnd keeps slots busy for longer than a message in memory is
// valid.
func TestWhatWaitsBehindLongTasksStartsWhenTheyEnd(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Timeout: time.Hour})
		var mu sync.Mutex
		var free time.Time
		var starts []time.Time
		r.work(r.nodes[0], "mail", func(_ context.Context, k *sdk.Task[[]byte]) error {
			mu.Lock()
			defer mu.Unlock()
			if len(k.Args) > 0 && k.Args[0] == 'l' {
				mu.Unlock()
				time.Sleep(12 * time.Minute)
				mu.Lock()
				free = time.Now()
				return nil
			}
			starts = append(starts, time.Now())
			return nil
		}, sdk.Slots(4))
		time.Sleep(time.Second)
		for range 4 {
			r.schedule(sdk.Item{Lambda: "mail", In: time.Minute, Payload: []byte("long")})
		}
		for i := range 20 {
			r.schedule(sdk.Item{Lambda: "mail", In: 61*time.Second + time.Duration(i)*20*time.Second, Payload: []byte("short")})
		}
		r.settled(time.Hour)
		if len(starts) != 20 {
			t.Errorf("%d starts, want 20", len(starts))
		}
		for _, at := range starts {
			if late := at.Sub(free); late > time.Second {
				t.Errorf("started %v after the slots were free", late)
			}
		}
	})
}
