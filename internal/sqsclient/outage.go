package sqsclient

import (
	"context"
	"errors"
	"sync"
)

// errStale ends polls that began before an outage was over.
var errStale = errors.New("the service answers again")

// outage notices when SQS answers again after a request that got no answer. A poll whose connection died
// looks like one of an empty queue until it times out, so polls are then repeated, and nobody backs off any
// longer.
type outage struct {
	mu         sync.Mutex      // guards all below
	unanswered bool            // the latest request got no answer
	ctx        context.Context //nolint:containedctx // ends with errStale when SQS answers again
	end        context.CancelCauseFunc
}

func (o *outage) begin(parent context.Context) { o.ctx, o.end = context.WithCancelCause(parent) }

func (o *outage) current() context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ctx
}

// note takes the result of every request.
func (o *outage) note(parent context.Context, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if isUnanswered(err) {
		o.unanswered = true
		return
	}
	if o.unanswered {
		o.unanswered = false
		o.end(errStale)
		o.begin(parent)
	}
}
