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
	s.must("lambda", "create", "mail")
	s.must("schedule", "mail", "--in", "1h")
	if text := s.must("top"); !strings.Contains(text, "kinesin  1 lambdas") || !strings.Contains(text, "\nmail ") {
		t.Error(text)
	}
	if all := s.objects("top"); len(all) != 1 || all[0]["lambda"] != "mail" || all[0]["workers"] != 0.0 {
		t.Errorf("%v", all)
	}
}
