package dispatcher

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// depthFresh is how long a cached depth is used.
	depthFresh = time.Second
	// depthsMax bounds the cached depths.
	depthsMax = 4096
)

// depthCache holds the depths of queues where asking for one is a request to a service.
type depthCache struct {
	clock clock.Clock

	mu sync.Mutex // guards of
	of map[queue.Name]cachedDepth
}

type cachedDepth struct {
	visible int // with what was sent since
	at      task.Instant
}

// countSent adds what was sent to the cached depths: until the service is asked again, it is all that is
// known of what was put on its queues.
func (c *depthCache) countSent(messages []queue.Message, results []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range messages {
		if len(c.of) == 0 || results[i] != nil {
			continue
		}
		name := queue.NameFor(&messages[i].Task)
		if last, ok := c.of[name]; ok {
			last.visible++
			c.of[name] = last
		}
	}
}

// get returns the depth of a queue that was asked for a moment ago, with what was sent since.
func (c *depthCache) get(name queue.Name) (visible int, known bool) {
	c.mu.Lock()
	last, ok := c.of[name]
	c.mu.Unlock()
	return last.visible, ok && clock.Steady(c.clock).Sub(last.at) < depthFresh
}

func (c *depthCache) put(name queue.Name, visible int, asked task.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of) >= depthsMax {
		clear(c.of) // also of lambdas that are gone; asking again costs little
	}
	c.of[name] = cachedDepth{visible: visible, at: asked}
}
