package httptarget

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Sign is sign.
var Sign = sign

// Allows is Guard.allows.
func (g *Guard) Allows(to netip.AddrPort) bool { return g.allows(to) }

// Bounds of windows.
const (
	HostsMax    = hostsMax
	WindowFirst = int(windowFirst)
)

// Verdicts.
const (
	Unknown    = unknown
	Good       = good
	Overloaded = overloaded
)

type (
	// Instant is task.Instant.
	Instant = task.Instant
	// Windows is windows.
	Windows = windows
	// Window is window.
	Window = window
)

// NewWindows is newWindows.
func NewWindows() *Windows { return newWindows() }

// Get is get.
func (ws *windows) Get(host string) *Window { return ws.get(host) }

// Len returns how many hosts have a window.
func (ws *windows) Len() int { return len(ws.of) }

// ErrBusy is errBusy.
var ErrBusy = errBusy

// Enter is enter, with a minute as the longest wait.
func (w *window) Enter(ctx context.Context) error { return w.enter(ctx, clock.Real(), time.Minute) }

// EnterAll enters n times.
func (w *window) EnterAll(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := w.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Leave is leave.
func (w *window) Leave(v verdict, began, now Instant) { w.leave(v, began, now) }

// Size returns how many calls the host gets at a time.
func (w *window) Size() int { return int(w.size) }
