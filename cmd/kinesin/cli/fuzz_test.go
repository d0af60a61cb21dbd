package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

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
