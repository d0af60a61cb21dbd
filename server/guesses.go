package server

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Bounds of refusals of tokens. A refusal that waits slows down whoever guesses tokens.
const (
	guessesAtOnce        = 20 // of one address are answered at once, after a pause
	guessEvery           = 100 * time.Millisecond
	guessHeldFor         = 5 * time.Second // at most
	guessesHeldOfAddress = 32
	guessesHeldMax       = 512
	guessersMax          = 4096 // addresses
)

// guesser is an address whose tokens were refused.
type guesser struct {
	next time.Duration // when its next refusal has its turn, by clock.Mono
	held int
}

// guesses hold back the refusals of an address that sends tokens which are not accepted, so that guessing is
// slow. A token that is accepted is never held, whatever else comes from its address. The addresses beyond
// guessersMax share a place.
type guesses struct {
	clock clock.Clock

	mu    sync.Mutex
	of    map[netip.Prefix]*guesser
	held  int
	again time.Duration // when places may be freed again
}

func newGuesses(c clock.Clock) *guesses { return &guesses{clock: c, of: map[netip.Prefix]*guesser{}} }

// hold waits for the turn of a refusal. With too many waiting it waits for none, and closes the connection
// with the answer, so that the next guesses cost another connection.
func (g *guesses) hold(w http.ResponseWriter, r *http.Request) {
	wait, leave := g.enter(prefixOf(r.RemoteAddr))
	if leave == nil {
		w.Header().Set("Connection", "close")
		return
	}
	defer leave()
	if wait > 0 {
		_ = clock.Sleep(context.WithoutCancel(r.Context()), g.clock, wait) // a caller that goes does not make room for its next guess
	}
}

// enter returns how long the refusal of an address has to wait. nil: too many wait.
func (g *guesses) enter(from netip.Prefix) (wait time.Duration, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := clock.Mono(g.clock)
	of := g.guesserAt(from, now)
	burst := guessesAtOnce * guessEvery
	of.next = min(max(of.next, now)+guessEvery, now+burst+guessHeldFor)
	if wait = of.next - now - burst; wait <= 0 {
		return 0, func() {}
	}
	if of.held == guessesHeldOfAddress || g.held == guessesHeldMax {
		return 0, nil
	}
	of.held++
	g.held++
	return wait, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		of.held--
		g.held--
	}
}

// guesserAt returns the place of an address. It is called with mu held.
func (g *guesses) guesserAt(from netip.Prefix, now time.Duration) *guesser {
	if g.of[from] == nil && len(g.of) >= guessersMax {
		if now >= g.again {
			g.again = now + guessHeldFor
			maps.DeleteFunc(g.of, func(_ netip.Prefix, of *guesser) bool { return of.held == 0 && of.next <= now })
		}
		if len(g.of) >= guessersMax {
			from = netip.Prefix{}
		}
	}
	if g.of[from] == nil {
		g.of[from] = &guesser{}
	}
	return g.of[from]
}
