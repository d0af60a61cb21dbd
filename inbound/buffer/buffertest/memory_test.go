package buffertest_test

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/buffer/buffertest"
	"github.com/kinesin-io/kinesin/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	buffertest.RunIn(t, synctest.Test, func(*testing.T) buffer.Buffer {
		b := buffertest.NewMemory(clock.Real())
		b.Visibility, b.BytesMax = buffertest.Visibility, 4096
		return b
	})
}
