package cli_test

import (
	"strings"
	"testing"
)

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
