package gather

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Whether waiting longer than Linger brings more items is learned by trying. Callers that wait for each
// result bring none, however often they call, and would only become slower.
const (
	triesMax = 3   // waits in a row that may bring nothing, where earlier ones did
	skipMin  = 8   // sends until the next try after that; it doubles each time
	skipMax  = 128 // so a lone caller rarely waits for half of Patience
)

// patience decides when to wait longer. The gatherer's mu guards it.
type patience struct {
	on    bool          // a sender waits longer
	tries int           // waits that may still bring nothing
	skip  int           // sends until the next try
	skips int           // value of skip after the latest try
	last  time.Duration // monotonic time at which the latest wait ended
	begun bool          // last is set
}

// begin reports whether to wait longer now. Where calls are rarer than most, it is not tried.
func (p *patience) begin(now, most time.Duration) bool {
	isBusy := p.begun && now-p.last <= most
	switch {
	case !isBusy:
		return false
	case p.skip > 0:
		p.skip--
		return false
	}
	p.on = true
	return true
}

// end takes whether a wait brought more items.
func (p *patience) end(didPay bool) {
	p.on = false
	if didPay {
		p.tries, p.skips = triesMax, 0
		return
	}
	if p.tries = max(p.tries-1, 0); p.tries == 0 {
		p.skips = min(max(2*p.skips, skipMin), skipMax)
		p.skip = p.skips
	}
}

// linger waits for more items.
func (g *Gatherer[T]) linger(enough <-chan struct{}) {
	if g.pause(enough, g.Linger) && g.Patience > 0 {
		g.lingerOn(enough)
	}
}

// lingerOn waits longer where that pays. Items of the first half may come from callers that got their results
// together and call again; only items of the second half show that the wait pays.
func (g *Gatherer[T]) lingerOn(enough <-chan struct{}) {
	n, ok := g.beginPatience()
	if ok {
		more := g.pause(enough, g.Patience/2)
		half := g.pendingItems()
		didPay := half > n
		if didPay && more {
			g.pause(enough, g.Patience/2)
			didPay = g.pendingItems() > half
		}
		defer g.endPatience(didPay)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.patience.last, g.patience.begun = clock.Mono(g.Clock), true
}

// beginPatience returns how many items are pending, and whether to wait longer for others.
func (g *Gatherer[T]) beginPatience() (n int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n = len(g.pending); n == 0 || n >= g.Enough || g.closed {
		return n, false
	}
	return n, g.patience.begin(clock.Mono(g.Clock), g.Linger+g.Patience)
}

func (g *Gatherer[T]) endPatience(didPay bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.patience.end(didPay)
}

func (g *Gatherer[T]) pendingItems() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pending)
}

// pause waits for d, or until enough is closed. It returns false in the second case.
func (g *Gatherer[T]) pause(enough <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		select {
		case <-enough:
			return false
		default:
			return true
		}
	}
	timer := g.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-enough:
		return false
	case <-timer.C():
		return true
	}
}
