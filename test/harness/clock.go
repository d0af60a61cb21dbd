package harness

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// clockSetMax is how long after Set a process may see the clock as it was.
const clockSetMax = 100 * time.Millisecond

// Clock is the wall clock of a process, which can be set while it runs. Its other clocks go as always.
type Clock struct {
	tb      testing.TB
	program string
	file    string
}

// NewClock makes a clock that is right until Set is called. It skips the test on machines where there can be
// none.
func NewClock(tb testing.TB) *Clock {
	tb.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		tb.Skip("the clock of a process can be set on linux/amd64 only")
	}
	return &Clock{tb: tb, program: Clockshift(tb), file: filepath.Join(tb.TempDir(), "offset")}
}

// Set makes the clock wrong by an offset, and returns when the process sees it.
func (c *Clock) Set(offset time.Duration) {
	c.tb.Helper()
	if err := os.WriteFile(c.file, []byte(offset.String()), 0o600); err != nil {
		c.tb.Fatal(err)
	}
	time.Sleep(clockSetMax)
}

// shifted is a command with this clock. The process that is started is then the parent of the program, and
// takes it along when it is killed.
func (c *Clock) shifted(command Command) Command {
	command.Args = append([]string{"-control", c.file, "0s", command.Path}, command.Args...)
	command.Path = c.program
	return command
}
