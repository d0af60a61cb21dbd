package cli

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{w: &out, clock: clock.Real()}
		want := func(text string) {
			t.Helper()
			if out.String() != text {
				t.Errorf("%q, want %q", out.String(), text)
			}
			out.Reset()
		}
		p.clear()
		want("")
		p.show("%d tasks", 1000)
		want("\r1000 tasks")
		time.Sleep(progressEvery - time.Millisecond)
		p.show("%d tasks", 2000)
		want("") // too soon
		time.Sleep(time.Millisecond)
		p.show("%d tasks", 3)
		want("\r3 tasks   ")
		p.clear()
		want("\r       \r")
		p.clear()
		want("")
	})
	var none *progress
	none.show("nothing")
	none.clear()
}

func TestProgressIsForTerminals(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, stderr := range []interface{ Write(p []byte) (int, error) }{w, &bytes.Buffer{}} {
		if p := (&app{stdout: w, stderr: stderr}).newProgress(); p != nil {
			t.Errorf("%T is taken for a terminal", stderr)
		}
	}
}

func TestWaitingIsShownAfterASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := waitingOn(&progress{w: &out, clock: clock.Real()}, "waiting for 2 tasks")
		time.Sleep(waitingAfter - time.Millisecond)
		stop()
		if out.Len() != 0 {
			t.Errorf("shown at once: %q", out.String())
		}
		stop = waitingOn(&progress{w: &out, clock: clock.Real()}, "waiting for 2 tasks")
		time.Sleep(waitingAfter + time.Millisecond)
		stop()
		if got := out.String(); got != "\rwaiting for 2 tasks: 1s\r                       \r" {
			t.Errorf("%q", got)
		}
	})
}
