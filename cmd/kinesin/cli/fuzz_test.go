package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
)

func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"", "---\n...", "log-level: debug\nroles: [inbound, hsc]\n", "log-level", "nope: 1", "roles: {a: b}", "log-level: *a", "a: &a [x]\nlog-level: *a",
		"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nroles: [*c,*c,*c,*c,*c,*c,*c]",
		strings.Repeat("[", 20_000), strings.Repeat("a: ", 20_000), strings.Repeat("- a\n", 10_000), "\x00", "log-level: !!binary AAAA", "<<: {log-level: a}",
	} {
		f.Add([]byte(text))
	}
	allowed := []string{"log-level", "roles"}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), configBytesMax)]
		var values map[string]any
		var err error
		alloctest.AtMost(t, uint64(1<<20+1024*len(data)), func() {
			values, err = parseConfig("kinesin.yaml", data, allowed)
			for _, v := range values {
				_ = settingText(v)
			}
		})
		if err != nil && !isUsage(err) {
			t.Errorf("refused with %v", err)
		}
		for name := range values {
			if !slices.Contains(allowed, name) {
				t.Errorf("%q is accepted", name)
			}
		}
	})
}

func FuzzOutcome(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"outcome":"snooze","delay":"90s"}`, `{"outcome":"release"}`, `{"outcome":"fatal","error":"x"}`,
		`{"outcome":"success","result":{"n":[1,null]}}`, `{"outcome":"success","result":` + strings.Repeat("[", 20_000),
		`{"outcome":"snooze","delay":"1w2d12h"}`, `{"outcome":"snooze","delay":"-9e99s"}`, "\x00", `{"OUTCOME":"release"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := parseOutcome(data[:min(len(data), outcomeBytesMax)])
		switch {
		case err != nil:
		case len(o.Result) > resultBytesMax || o.Result != nil && !json.Valid(o.Result):
			t.Errorf("result %q", o.Result)
		case o.Delay < 0 || o.Delay > snoozeMax:
			t.Errorf("delay %v", o.Delay)
		}
	})
}
