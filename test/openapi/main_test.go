package openapi

import (
	"os"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
