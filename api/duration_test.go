package api_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

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

func TestDurationsThatAreRead(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "3d": 72 * time.Hour, "2w": 336 * time.Hour, "1w2d12h": 228 * time.Hour,
		"1.5d": 36 * time.Hour, ".5h": 30 * time.Minute, "1.d": 24 * time.Hour, "250ms": 250 * time.Millisecond, "10us": 10 * time.Microsecond,
		"10µs": 10 * time.Microsecond, "10μs": 10 * time.Microsecond, "1000ns": time.Microsecond, "0": 0, "0s": 0, "+5s": 5 * time.Second, "87600h": 87600 * time.Hour,
	} {
		if got, err := api.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
		if got, err := api.ParseSignedDuration("-" + strings.TrimPrefix(text, "+")); err != nil || got != -want {
			t.Errorf("-%q: %v, %v, want %v", text, got, err, -want)
		}
	}
	for text, says := range map[string]string{
		"": "no duration", "5": "no duration", "s": "no duration", "d": "no duration", "1x": "no duration", "1 s": "no duration", "1md": "no duration", "--5s": "no duration",
		"+-5s": "no duration", "1h-5m": "no duration", "1d-5m": "no duration", "5s ": "no duration", "3D": "no duration", "1e3s": "no duration", "1e3d": "no duration",
		"1.2.3d": "no duration", "NaNd": "no duration", "soon": "no duration",
		"99999999h": "up to 292 years", "-9999999999999999999999d": "up to 292 years",
	} {
		if got, err := api.ParseSignedDuration(text); err == nil || !strings.Contains(err.Error(), says) || !strings.HasSuffix(err.Error(), api.DurationWant) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got, err := api.ParseDuration("-5s"); err == nil || !strings.Contains(err.Error(), "is below zero: want") {
		t.Errorf("below zero: %v, %v", got, err)
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("1w2d12h")
	f.Add("-90s")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := api.ParseSignedDuration(text)
		if err != nil {
			return
		}
		written := string(api.AppendDuration(nil, d.Microseconds()))
		if again, err := api.ParseSignedDuration(written); err != nil || again != d.Truncate(time.Microsecond) {
			t.Errorf("%q is %v, written %q, read %v, %v", text, d, written, again, err)
		}
	})
}
