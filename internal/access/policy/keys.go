package policy

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// keysEvery is how often, at most, an issuer is asked for its keys, because anybody can send JWTs that name
// another key each. So a new key of an issuer may be unknown for as long.
const keysEvery = 10 * time.Second

// Why an issuer is not asked for its keys now.
var (
	errKeysKnown = errors.New("its keys were read moments ago")
	errKeysAway  = errors.New("it did not show its keys moments ago: try again")
)

// keySet verifies signatures by the keys at a URL, which it reads when it meets an unknown one, at most once
// in keysEvery.
type keySet struct{ remote *oidc.RemoteKeySet }

func newKeySet(ctx context.Context, client *http.Client, url string, c clock.Clock) keySet {
	bounded := *client
	bounded.Transport = &rarely{next: client.Transport, clock: c}
	return keySet{oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &bounded), url)}
}

// VerifySignature implements oidc.KeySet.
func (k keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.remote.VerifySignature(ctx, jwt)
	if errors.Is(err, errKeysKnown) { // another call may have fetched them since this one looked
		payload, err = k.remote.VerifySignature(ctx, jwt)
	}
	return payload, err
}

// rarely lets a request through once in keysEvery.
type rarely struct {
	next  http.RoundTripper
	clock clock.Clock

	mu    sync.Mutex    // guards the rest
	again time.Duration // in monotonic time
	asked bool
	last  error // of the last request
}

// RoundTrip implements http.RoundTripper.
func (r *rarely) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	response, err := r.next.RoundTrip(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && response.StatusCode == http.StatusOK {
		r.last = errKeysKnown
	}
	return response, err
}

// begin refuses a request that comes too soon. It takes a request for failed until it has an answer.
func (r *rarely) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := clock.Mono(r.clock)
	if r.asked && now < r.again {
		return r.last
	}
	r.asked, r.again, r.last = true, now+keysEvery, errKeysAway
	return nil
}
