package cost

import (
	"flag"
	"os"
	"testing"
)

// testsAtOnce is how many tests run at a time. Most of the time they wait, each at a site of its own.
const testsAtOnce = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", testsAtOnce); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
