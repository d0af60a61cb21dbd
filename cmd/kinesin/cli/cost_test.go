package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/cost"
)

// Without a word on the inbound queue the bill is that of servers that have one, as they do by default.
func TestCostHasTheInboundQueueByDefault(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]float64{
		"":                             1,
		"--mode deliver":               1,
		"--scheduled 0.5":              0.5,
		"--scheduled 0.5 --keyed 0.5":  0.25,
		"--buffered 0":                 0,
		"--scheduled 0.5 --buffered 1": 1,
	} {
		o := run(t.Context(), nil, "", append(strings.Fields("cost -o json "+line), "--rate", "50")...)
		o.check(t, line, 0)
		var b cost.Bill
		if err := json.Unmarshal([]byte(o.stdout), &b); err != nil || b.Load.BufferedShare != want || b.PerTask.SQSRequests == 0 {
			t.Errorf("%q: %v, %+v", line, err, b.Load)
		}
	}
}

func TestCostOfManyTasksIsWrittenOut(t *testing.T) {
	t.Parallel()
	for rate, want := range map[string]string{
		"1e6":    "1000000 tasks/s are 2628000 million tasks a month",
		"50":     "50 tasks/s are 131.4 million tasks a month",
		"0.001":  "0.001 tasks/s are 0.002628 million tasks a month",
		"100000": "100000 tasks/s are 262800 million tasks a month",
	} {
		o := run(t.Context(), nil, "", "cost", "--rate", rate)
		o.check(t, rate, 0)
		if !strings.Contains(o.stdout, want) || strings.Contains(o.stdout, "e+") || strings.Contains(o.stdout, "e-0") {
			t.Errorf("%s: %s", rate, o.stdout)
		}
	}
}
