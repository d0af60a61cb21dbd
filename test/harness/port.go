package harness

import (
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

var handedOut struct {
	sync.Mutex
	ports map[int]bool
}

// FreeAddr is a loopback address that nobody listens on, never the same twice.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	handedOut.Lock()
	defer handedOut.Unlock()
	if handedOut.ports == nil {
		handedOut.ports = map[int]bool{}
	}
	for range 100 {
		port, err := loopback.FreePort()
		if err != nil {
			tb.Fatal(err)
		}
		if !handedOut.ports[port] {
			handedOut.ports[port] = true
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	tb.Fatal("no free port")
	return ""
}
