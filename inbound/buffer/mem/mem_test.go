package mem_test

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/buffer/buffertest"
	"github.com/kinesin-io/kinesin/inbound/buffer/mem"
	"github.com/kinesin-io/kinesin/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	buffertest.RunIn(t, synctest.Test, func(*testing.T) buffer.Buffer {
		return mem.New(clock.Real(), mem.Config{Visibility: buffertest.Visibility, BodyBytesMax: 4096})
	})
}
