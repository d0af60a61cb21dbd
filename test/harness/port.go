package harness

import (
	"net"
	"strconv"
	"sync"
	"testing"
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
		port := freePort(tb)
		if !handedOut.ports[port] {
			handedOut.ports[port] = true
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	tb.Fatal("no free port")
	return ""
}

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr, isTCP := l.Addr().(*net.TCPAddr)
	if !isTCP {
		tb.Fatalf("listening at %v", l.Addr())
	}
	return addr.Port
}
