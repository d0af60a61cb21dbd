package cli

import "testing"

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
