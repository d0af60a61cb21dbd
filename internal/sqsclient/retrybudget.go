package sqsclient

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// The retry budget of a client: retryTokensMax at once, and one more every retryTokensEvery.
const (
	retryTokensMax   = 200
	retryTokensEvery = 20 * time.Millisecond
)

// retryBudget bounds the retries of a client, so that a service in trouble does not get twice the load.
type retryBudget struct {
	mu     sync.Mutex
	tokens int
	filled task.Instant
}

// take reports whether one more retry is allowed.
func (b *retryBudget) take(now task.Instant) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if gained := int(now.Sub(b.filled) / retryTokensEvery); gained > 0 {
		b.tokens = min(retryTokensMax, b.tokens+min(gained, retryTokensMax))
		b.filled = now
	}
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}
