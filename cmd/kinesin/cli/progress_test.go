package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// testLine runs a test with a line, and a function that checks what was written since it was called last.
func testLine(t *testing.T, f func(t *testing.T, l *waitLine, want func(text string))) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &waitLine{w: &out, clock: clock.Real()}
		f(t, l, func(text string) {
			t.Helper()
			synctest.Wait()
			l.mu.Lock() // it writes under its lock
			defer l.mu.Unlock()
			if out.String() != text {
				t.Errorf("%q, want %q", out.String(), text)
			}
			out.Reset()
		})
	})
}

func TestWaitingIsShownAfterASecond(t *testing.T) {
	testLine(t, func(t *testing.T, l *waitLine, want func(string)) {
		t.Helper()
		stop := l.begin("waiting for 2 tasks")
		time.Sleep(waitingAfter - time.Millisecond)
		stop()
		want("")
		stop = l.begin("waiting for 2 tasks")
		time.Sleep(waitingAfter)
		want("\rwaiting for 2 tasks: 1s")
		time.Sleep(waitingAfter)
		want("\rwaiting for 2 tasks: 2s")
		stop()
		want("\r                       \r")
	})
}

func TestALineHasTheWordsOfTheInnerWait(t *testing.T) {
	testLine(t, func(t *testing.T, l *waitLine, want func(string)) {
		t.Helper()
		stop := l.begin("server")
		inner := l.begin("counting")
		time.Sleep(waitingAfter)
		want("\rcounting: 1s")
		l.say("%d tasks", 3)
		time.Sleep(waitingAfter)
		want("\r3 tasks: 2s ")
		inner()
		want("\r           \r")
		time.Sleep(waitingAfter)
		want("\rserver: 3s")
		stop()
		want("\r          \r")
		time.Sleep(waitingAfter)
		want("")
	})
}

func TestOutputRemovesTheLine(t *testing.T) {
	testLine(t, func(t *testing.T, l *waitLine, want func(string)) {
		t.Helper()
		stop := l.begin("server")
		defer stop()
		time.Sleep(waitingAfter)
		want("\rserver: 1s")
		var out bytes.Buffer
		if _, err := (&visible{w: &out, before: l.hide}).Write([]byte("a note\n")); err != nil {
			t.Fatal(err)
		}
		want("\r          \r")
		time.Sleep(waitingAfter)
		want("\rserver: 2s")
		if _, err := (&visible{w: &out, before: l.end}).Write([]byte("a resu")); err != nil {
			t.Fatal(err)
		}
		want("\r          \r")
		time.Sleep(waitingAfter)
		want("")
	})
}

func TestALineDoesNotWrap(t *testing.T) {
	testLine(t, func(t *testing.T, l *waitLine, want func(string)) {
		t.Helper()
		stop := l.begin(strings.Repeat("x", 200))
		defer stop()
		time.Sleep(waitingAfter)
		want("\r" + strings.Repeat("x", lineColumnsMax-4) + ": 1s")
	})
}

func TestNothingIsShownWithoutATerminal(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, stderr := range []io.Writer{w, &bytes.Buffer{}} {
		a := &app{stdout: w, stderr: stderr, line: &waitLine{w: stderr, clock: clock.Real()}}
		a.waiting("waiting")()
		if a.line.began != 0 {
			t.Errorf("%T is taken for a terminal", stderr)
		}
	}
}
