package alloctest_test

import (
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
)

// quiet is a test that notes that it failed.
type quiet struct {
	testing.TB

	failed bool
}

func (*quiet) Helper()                 {}
func (q *quiet) Errorf(string, ...any) { q.failed = true }

var kept []byte //nolint:gochecknoglobals // so that the compiler allocates

func TestWhatIsAboveTheBoundFails(t *testing.T) {
	for bytes, fails := range map[int]bool{0: false, 1 << 20: false, 1<<20 + 8192: true, 64 << 20: true} {
		q := &quiet{}
		alloctest.AtMost(q, 1<<20, func() { kept = make([]byte, bytes) })
		if q.failed != fails {
			t.Errorf("%d bytes: failed is %v", bytes, q.failed)
		}
	}
	runs := 0
	alloctest.AtMost(t, 1<<20, func() {
		if runs++; runs < 3 {
			kept = make([]byte, 2<<20) // as by another goroutine
		}
	})
}
