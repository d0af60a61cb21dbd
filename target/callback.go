package target

import (
	"context"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
)

// callbackKey names an attempt by its token.
type callbackKey string

// callbackContext is the key of the context value that is a *callback.
type callbackContext struct{}

// callback is how the handler of an attempt gets a token and hears of a report.
type callback struct {
	role   *Role
	worker string // whose attempt it is
}

// CallbackOf returns the token with which the receiver of the call for an attempt may report how it ended, and a
// channel with that outcome once it is recorded; done forgets them. The context is that of the handler.
func CallbackOf(ctx context.Context, t *sdk.Task[[]byte]) (token string, ended <-chan controller.Outcome, done func(), err error) {
	c, is := ctx.Value(callbackContext{}).(*callback)
	if !is {
		return "", nil, func() {}, nil
	}
	r := c.role
	if token, err = r.Token(ctx, c.worker, string(t.ID), t.Attempt); err != nil {
		return "", nil, func() {}, err
	}
	wait, key := make(chan controller.Outcome, 1), callbackKey(token)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits[key] = wait
	return token, wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waits, key)
	}, nil
}

// Ended tells the handler of an attempt, if it runs here, that the receiver has reported how it ended, and that this
// is recorded.
func (r *Role) Ended(token string, o controller.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.waits[callbackKey(token)]; wait != nil {
		select {
		case wait <- o:
		default: // it was reported before
		}
	}
}
