package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// waitingAfter is how long a command lasts before its line is shown, and how often it is brought up to date.
const waitingAfter = time.Second

// lineColumnsMax bounds the line: one that wraps could not be removed.
const lineColumnsMax = 79

// waitLine shows what a command waits for and for how long, in one line of a terminal that it writes again
// and again. Output of the command to that terminal removes it first.
type waitLine struct {
	w     io.Writer // stderr
	clock clock.Clock

	mu    sync.Mutex
	text  string
	began time.Duration // monotonic
	runs  bool
	over  bool // results have gone to the terminal: they tell that the command goes on
	width int  // of what is shown
}

// waiting shows on a terminal what the command waits for and for how long, from waitingAfter on, until stop
// is called; what it shows is gone by then. Within another wait it gives that one's line other words. With
// -o json nothing is shown.
func (a *app) waiting(format string, args ...any) (stop func()) {
	if !isTerminal(a.stderr) || a.json() {
		return func() {}
	}
	return a.line.begin(fmt.Sprintf(format, args...))
}

func (l *waitLine) begin(text string) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	outer, nested := l.text, l.runs
	l.text, l.began, l.runs = text, clock.Mono(l.clock), true
	if nested {
		return func() {
			l.say("%s", outer)
			l.hide()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for clock.Sleep(ctx, l.clock, waitingAfter) == nil {
			l.show()
		}
	}()
	return func() {
		cancel()
		<-ended
		l.hide()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.runs = false
	}
}

// say gives the line other words, such as how far the command is. Without a line it does nothing.
func (l *waitLine) say(format string, args ...any) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = fmt.Sprintf(format, args...)
}

// end removes the line for good: what else is on the terminal is not to be disturbed.
func (l *waitLine) end() {
	l.hide()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// show writes the line. The text holds ASCII only.
func (l *waitLine) show() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	took := fmt.Sprintf(": %ds", int((clock.Mono(l.clock)-l.began)/time.Second))
	text := l.text[:min(len(l.text), lineColumnsMax-len(took))] + took
	fmt.Fprintf(l.w, "\r%-*s", l.width, text) // spaces over the rest of the text before
	l.width = len(text)
}

// hide removes the line until it is brought up to date.
func (l *waitLine) hide() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.width == 0 {
		return
	}
	fmt.Fprintf(l.w, "\r%*s\r", l.width, "")
	l.width = 0
}

func isTerminal(f any) bool {
	file, is := f.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}
