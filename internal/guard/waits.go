package guard

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
)

// waitedIDsMax bounds the ids that the calls of one identity from one address wait for, to a quarter of what
// a process keeps.
const waitedIDsMax = 25_000

// waitAgainAfter is when a caller that waits for too many may try again.
const waitAgainAfter = time.Second

// waiter is whoever waits.
type waiter struct{ identity, host string }

// waits counts the ids that each caller waits for.
type waits struct {
	mu  sync.Mutex
	ids map[waiter]int
}

// begin counts a call that waits, and returns what ends it; or a refusal.
func (w *waits) begin(c access.Caller, ids int) (end func(), err error) {
	key := waiter{c.Name, c.Host()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if have := w.ids[key]; have+ids > waitedIDsMax {
		return nil, api.Errorf(kinesinv1.Reason_REASON_FULL,
			"%s waits for %d tasks from this address already, and may for %d: wait for fewer, or read them now and then", c.Name, have, waitedIDsMax).After(waitAgainAfter)
	}
	if w.ids == nil {
		w.ids = map[waiter]int{}
	}
	w.ids[key] += ids
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ids[key] -= ids; w.ids[key] == 0 {
			delete(w.ids, key)
		}
	}, nil
}
