package cli

import (
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "3d": 3 * day, "2w": 2 * week, "1w2d12h": 9*day + 12*time.Hour,
		"1.5d": 36 * time.Hour, "250ms": 250 * time.Millisecond, "10us": 10 * time.Microsecond, "10µs": 10 * time.Microsecond,
		"0": 0, "0s": 0, "-5s": -5 * time.Second, "+5s": 5 * time.Second, "87600h": 87600 * time.Hour,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "s", "1x", "1 s", "1md", "--5s", "1h-5m", "5s ", "3D", "1e3s", "soon"} {
		if got, err := parseDuration(text); err == nil || !strings.Contains(err.Error(), "want a duration") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"99999999h", "9999999999999999999999d"} {
		if got, err := parseDuration(text); err == nil || !strings.Contains(err.Error(), "out of range") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("1w2d12h")
	f.Add("-90s")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDuration(text)
		if err != nil {
			return
		}
		again, err := parseDuration(formatDuration(d))
		if err != nil || (again-d).Abs() > time.Microsecond {
			t.Errorf("%q is %v, written %q, read %v, %v", text, d, formatDuration(d), again, err)
		}
	})
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "1s": time.Second, "10m": 10 * time.Minute, "1h": time.Hour, "1h30m": 90 * time.Minute, "1d": day, "36h": 36 * time.Hour,
		"7d": week, "1m5s": 65 * time.Second, "100ms": 100 * time.Millisecond, "1h0m5s": time.Hour + 5*time.Second,
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	got, err := parseTime("2027-01-31T09:00:00.25+01:00")
	if want := time.Date(2027, 1, 31, 8, 0, 0, 250e6, time.UTC); err != nil || !got.Equal(want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"", "tomorrow", "2027-01-31", "2027-01-31 09:00:00", "2027-02-30T09:00:00Z", "1798704000"} {
		if _, err := parseTime(text); err == nil || !strings.Contains(err.Error(), "RFC 3339") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	var from, to time.Duration
	v := rangeValue{&from, &to}
	if err := v.Set("1s..10m"); err != nil || from != time.Second || to != 10*time.Minute || v.String() != "1s..10m" {
		t.Errorf("%v..%v, %v", from, to, err)
	}
	for _, text := range []string{"", "1s", "1s..", "..10m", "10m..1s", "0s..1s", "1s-10m"} {
		if v.Set(text) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
