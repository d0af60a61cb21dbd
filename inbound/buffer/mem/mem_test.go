package mem_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/buffer/buffertest"
	"github.com/kinesin-io/kinesin/inbound/buffer/mem"
	"github.com/kinesin-io/kinesin/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	buffertest.Run(t, func(*testing.T) buffer.Buffer {
		return mem.New(clock.Real(), mem.Config{Visibility: buffertest.Visibility, BodyBytesMax: 4096})
	})
}
