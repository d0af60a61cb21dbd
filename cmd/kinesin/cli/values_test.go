package cli

import (
	"strings"
	"testing"
	"time"
)

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

func TestTheShareOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sampler, arg string
		want         float64
	}{
		{"parentbased_traceidratio", "0.01", 0.01},
		{"parentbased_traceidratio", "1", 1},
		{"parentbased_traceidratio", "", 0},
		{"parentbased_traceidratio", "2", 0},
		{"parentbased_traceidratio", "NaN", 0},
		{"traceidratio", "0.01", 0}, // it does not ask the caller's trace
		{"always_on", "0.01", 0},
	} {
		a := &app{Process: Process{Env: []string{"OTEL_TRACES_SAMPLER=" + c.sampler, "OTEL_TRACES_SAMPLER_ARG=" + c.arg}}}
		if got := a.shareByEnv(); got != c.want {
			t.Errorf("%s %q: %v, want %v", c.sampler, c.arg, got, c.want)
		}
	}
}
