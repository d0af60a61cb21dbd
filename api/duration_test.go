package api_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kinesin-io/kinesin/api"
)

func TestDurationTexts(t *testing.T) {
	for micros, want := range map[int64]string{
		0: "0s", 5: "5µs", 1500: "1.5ms", 90_000_000: "1m30s", 8_250_000: "8.25s", 3_600_000_000: "1h", 86_400_000_000: "24h",
		3_605_000_000: "1h5s", 5_400_000_000: "1h30m", -1: "-1µs", 60_000_001: "1m1µs", math.MinInt64: "-2562047788h54.775808s",
	} {
		if got := string(api.AppendDuration(nil, micros)); got != want {
			t.Errorf("%d: %s, want %s", micros, got, want)
		}
	}
}

// What is written is read as the same duration.
func TestDurationsAreReadAsTheyAreWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		micros := r.Int64N(1 << r.IntN(53))
		text := string(api.AppendDuration(nil, micros))
		if d, err := api.ParseDuration(text); err != nil || d.Microseconds() != micros {
			t.Fatalf("%d became %q, and then %v: %v", micros, text, d, err)
		}
	}
}
