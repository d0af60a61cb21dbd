package cli_test

import (
	"strings"
	"testing"
)

func TestTopWithoutATerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if text := s.must("top"); !strings.Contains(text, "there are no lambdas yet") {
		t.Error(text)
	}
	s = newSite(t) // what is due is counted again after a while
	s.must("lambda", "create", "mail")
	s.must("schedule", "mail", "--in", "50m")
	if text := s.must("top"); !strings.Contains(text, "kinesin  1 lambdas") || !strings.Contains(text, "\nmail ") ||
		!strings.Contains(text, "  1h 1  1d 1") || !strings.Contains(text, "store takes tasks  none without an owner") || !strings.Contains(text, "late p50/95/99  1m -/-/-") {
		t.Error(text)
	}
	if all := s.objects("top"); len(all) != 1 || all[0]["lambda"] != "mail" || all[0]["workers"] != 0.0 {
		t.Errorf("%v", all)
	}
}
