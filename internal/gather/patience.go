package gather

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Whether it pays to wait longer than Linger is learnt by trying it: callers who each wait for their last
// answer bring no company, however often they call, and would only become slower.
const (
	triesMax = 3   // waits in a row that do not pay, of a Gatherer where they did
	skipMin  = 8   // sends until the next try after that, twice as many each time
	skipMax  = 128 // who calls alone waits half of Patience so seldom
)

// patience is guarded by the gatherer's mu.
type patience struct {
	on    bool          // somebody waits longer
	trust int           // waits that need not pay
	skip  int           // sends until the next try
	skips int           // of the last time
	last  time.Duration // when the latest wait ended, in monotonic time
	begun bool          // last is one
}

// begins reports whether to wait longer now, at a time at which some wait for company.
func (p *patience) begins(now, most time.Duration) bool {
	busy := p.begun && now-p.last <= most // without that who calls now and then would pay for a try
	switch {
	case !busy:
		return false
	case p.skip > 0:
		p.skip--
		return false
	}
	p.on = true
	return true
}

func (p *patience) ends(paid bool) {
	p.on = false
	if paid {
		p.trust, p.skips = triesMax, 0
		return
	}
	if p.trust = max(p.trust-1, 0); p.trust == 0 {
		p.skips = min(max(2*p.skips, skipMin), skipMax)
		p.skip = p.skips
	}
}

// wait gathers company.
func (g *Gatherer[T]) wait(full <-chan struct{}) {
	if g.pause(full, g.Linger) && g.Patience > 0 {
		g.waitLonger(full)
	}
}

// waitLonger goes on where that pays. What comes in the first half may be no more than a few who had their
// answers together and come again: only who comes in the second half as well would not have shared the send
// anyway.
func (g *Gatherer[T]) waitLonger(full <-chan struct{}) {
	n, ok := g.beginWait()
	if ok {
		more := g.pause(full, g.Patience/2)
		half := g.waiting()
		paid := half > n
		if paid && more {
			g.pause(full, g.Patience/2)
			paid = g.waiting() > half
		}
		defer g.endWait(paid)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.patience.last, g.patience.begun = clock.Mono(g.Clock), true
}

// beginWait says how many wait, and whether for longer than Linger.
func (g *Gatherer[T]) beginWait() (n int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n = len(g.pending); n == 0 || n >= g.Enough || g.closed {
		return n, false
	}
	return n, g.patience.begins(clock.Mono(g.Clock), g.Linger+g.Patience)
}

func (g *Gatherer[T]) endWait(paid bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.patience.ends(paid)
}

func (g *Gatherer[T]) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pending)
}

// pause waits for d; more says that it was not ended early.
func (g *Gatherer[T]) pause(full <-chan struct{}, d time.Duration) (more bool) {
	if d <= 0 {
		select {
		case <-full:
			return false
		default:
			return true
		}
	}
	timer := g.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-full:
		return false
	case <-timer.C():
		return true
	}
}
