package ingest

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// The visibility timeout of received messages is extended while they are handled, since a slow store may take
// longer than it. A deliver task that another process took in a second time, after its row had come and gone,
// would be sent twice. A longer timeout would also do, and would keep back for as long what a process leaves
// that dies.
const (
	// hideFor is for how long messages are hidden anew: the visibility timeout of the inbound queue.
	hideFor = 30 * time.Second
	// hideEvery leaves two more tries when one fails, and settleMax for what follows the last.
	hideEvery = 10 * time.Second
	// hideMax is how long messages are kept from other processes, which may have more success.
	hideMax = 10 * time.Minute
)

// keepHidden keeps messages hidden until end is called, which returns when no request that hides them is in
// flight. Messages that are handled within hideEvery cost no request.
func (in *Ingest) keepHidden(ctx context.Context, messages []buffer.Message) (end func()) {
	waiting, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range hideMax / hideEvery {
			if clock.Sleep(waiting, in.Clock, hideEvery) != nil {
				return
			}
			within, cancel := clock.Within(ctx, in.Clock, hideEvery)
			_ = in.Buffer.Retry(within, messages, hideFor) // the next one follows, and at worst they come again
			cancel()
		}
	}()
	return func() {
		stop()
		<-ended
	}
}
