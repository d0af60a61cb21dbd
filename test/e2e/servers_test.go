package e2e_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

// Commands and a worker know two servers, the first of which is gone.
func TestTheFirstOfTwoServersIsGone(t *testing.T) {
	s := start(t)
	gone := harness.FreeAddr(t)
	run := func(args ...string) harness.Result {
		return harness.Run(t, append(args, "--server", gone+","+s.Addr)...)
	}
	run("lambda", "create", "greet").Must(t)
	w := s.CommandWorker("--server", gone+", "+s.URL, "--lambda", "greet", "--", "sh", "-c", `cat; echo " by $KINESIN_SERVER"`)
	id := run("schedule", "greet", "--payload", "Ada").Must(t)
	run("wait", id, "--timeout", "20s").Must(t)
	eventually(t, "the command's output", func() bool {
		return strings.Contains(w.Stdout(), "Ada by http://"+gone+","+s.URL)
	})
	w.Signal(syscall.SIGTERM)
	if code := w.Wait(soon); code != 0 || strings.Contains(w.Stderr(), "broke") {
		t.Errorf("the worker ended with %d: %s", code, w.Stderr())
	}
	harness.Run(t, "get", id, "--server", gone+","+harness.FreeAddr(t)).Refused(t, 1, "cannot reach a server at http://"+gone+",", "none of 2 servers can be reached")
}
