package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// progressEvery is the least time between two updates of a progress line.
const progressEvery = 200 * time.Millisecond

// waitingAfter is how long a call lasts before it is shown, and how often that is brought up to date.
const waitingAfter = time.Second

// progress shows how far a command is, in one line of a terminal that it writes again and again. A nil
// progress shows nothing.
type progress struct {
	w     io.Writer
	clock clock.Clock
	last  time.Duration // monotonic; when it was written
	width int           // of what is shown
}

// newProgress returns a progress line on stderr if that is a terminal. It returns nil if results go to a
// terminal too, because they would run into the line.
func (a *app) newProgress() *progress {
	if !isTerminal(a.stderr) || isTerminal(a.stdout) {
		return nil
	}
	return &progress{w: a.stderr, clock: clock.Real()}
}

// waiting shows on a terminal what a call waits for and for how long, from waitingAfter on, until stop is
// called; what it shows is gone by then, so results may go to the same terminal.
func (a *app) waiting(format string, args ...any) (stop func()) {
	if !isTerminal(a.stderr) || a.json() {
		return func() {}
	}
	return waitingOn(&progress{w: a.stderr, clock: clock.Real()}, fmt.Sprintf(format, args...))
}

func waitingOn(p *progress, text string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended, began := make(chan struct{}), clock.Mono(p.clock)
	go func() {
		defer close(ended)
		defer p.clear()
		for clock.Sleep(ctx, p.clock, waitingAfter) == nil {
			p.show("%s: %ds", text, int((clock.Mono(p.clock)-began)/time.Second))
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func isTerminal(w io.Writer) bool {
	file, is := w.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// show replaces the line, unless it did so a moment ago. The text holds ASCII only.
func (p *progress) show(format string, args ...any) {
	if p == nil {
		return
	}
	now := clock.Mono(p.clock)
	if p.width > 0 && now-p.last < progressEvery {
		return
	}
	p.last = now
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(p.w, "\r%-*s", p.width, text) // spaces over the rest of the text before
	p.width = len(text)
}

// clear removes the line.
func (p *progress) clear() {
	if p == nil || p.width == 0 {
		return
	}
	fmt.Fprintf(p.w, "\r%*s\r", p.width, "")
	p.width = 0
}
