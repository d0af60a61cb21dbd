package inbound

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// What was received and is not settled is kept from others, since a slow or absent store may take longer over
// it than a buffer hides it. Taken in a second time, a deliver task whose row has come and gone meanwhile
// would be sent twice. A longer visibility timeout would do as well, and would keep back for as long what a
// process leaves that dies.
const (
	// holdFor is for how long messages are hidden anew: the visibility timeout of the inbound queue.
	holdFor = 30 * time.Second
	// holdEvery leaves two more tries when one fails, and settleMax for what comes after the last.
	holdEvery = 10 * time.Second
	// holdMax is how long messages are kept from others who may fare better.
	holdMax = 10 * time.Minute
)

// hold keeps messages hidden until end is called, which returns when nothing is under way any more that hides
// them. What takes less than holdEvery costs no request.
func (c *consumer) hold(ctx context.Context, messages []buffer.Message) (end func()) {
	waiting, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range holdMax / holdEvery {
			if clock.Sleep(waiting, c.Clock, holdEvery) != nil {
				return
			}
			within, cancel := clock.Within(ctx, c.Clock, holdEvery)
			_ = c.Buffering.Buffer.Retry(within, messages, holdFor) // there is the next one, and at worst they come again
			cancel()
		}
	}()
	return func() {
		stop()
		<-ended
	}
}
