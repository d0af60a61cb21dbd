//go:build linux

package process_test

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/process"
)

// child runs a program until the test ends, and returns its ID.
func child(t *testing.T) (*exec.Cmd, process.ID) {
	t.Helper()
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, process.ID{Place: self.Place, PID: cmd.Process.Pid, StartedTicks: process.StartedTicks(t, cmd.Process.Pid)}
}

func hasEnded(w *process.Watched, within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if w.HasEnded() {
			return true
		}
	}
	return w.HasEnded()
}

func TestAProcessThatIsKilledHasEnded(t *testing.T) {
	cmd, id := child(t)
	w, err := process.Watch(id)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if w.HasEnded() {
		t.Fatal("it runs")
	}
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if hasEnded(w, 50*time.Millisecond) {
			t.Fatalf("%v ended it", s)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !hasEnded(w, 5*time.Second) { // though nobody has asked after it yet
		t.Fatal("it is killed and has not ended")
	}
	_ = cmd.Wait()
	if !w.HasEnded() {
		t.Error("it was reaped and has not ended")
	}
	if _, err := process.Watch(id); !errors.Is(err, process.ErrElsewhere) {
		t.Errorf("a watch on a process that is gone: %v", err)
	}
}

// A process with another number, start or place is never watched: the one that is meant could be alive.
func TestAnotherProcessIsElsewhere(t *testing.T) {
	_, id := child(t)
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	later, moved, none := id, id, id
	later.StartedTicks++
	moved.Place[0] ^= 1
	none.PID = 0
	for name, id := range map[string]process.ID{"another start": later, "another place": moved, "no number": none, "this one": self} {
		if w, err := process.Watch(id); !errors.Is(err, process.ErrElsewhere) {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
}

func TestAClosedWatchKnowsNothing(t *testing.T) {
	cmd, id := child(t)
	w, err := process.Watch(id)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	_ = cmd.Process.Kill()
	if hasEnded(w, 20*time.Millisecond) {
		t.Error("a closed watch says that it has ended")
	}
}
