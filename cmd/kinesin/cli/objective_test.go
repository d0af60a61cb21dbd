package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
)

func TestAnObjectiveFromSetToDelete(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	if got := s.must("objective", "set", "mail", "--within", "5s", "--objective", "99", "--window", "30d"); got != "mail: 99 % start within 5s, over 720h" {
		t.Error(got)
	}
	s.serve("mail", func(context.Context, *sdk.Task[[]byte]) error { return nil })
	s.must("wait", s.must("schedule", "mail", "--in", "0s"))
	var shown map[string]any
	runtest.Eventually(t, 10*time.Second, "counted", func() bool {
		shown = s.objects("objective", "list")[0]
		return shown["started"] == 1.0
	})
	burns, _ := shown["burns"].([]any)
	if shown["lambda"] != "mail" || shown["within"] != "5s" || shown["objective"] != 99.0 || shown["window"] != "720h" || shown["good"] != 1.0 ||
		shown["attained"] != 100.0 || shown["budget_left"] != 1.0 || len(burns) != 3 {
		t.Errorf("%v", shown)
	}
	if text := s.must("slo", "get", "mail"); !strings.HasPrefix(text, "lambda ") || !strings.Contains(text, "99 % within 5s") {
		t.Error(text)
	}
	s.do("objective", "set", "nobody", "--within", "5s", "--objective", "99").check(t, "an unknown lambda", 1, "nobody")
	if got := s.must("objective", "delete", "mail"); got != "deleted the objective of mail" {
		t.Error(got)
	}
	s.do("objective", "get", "mail").check(t, "none", 1, "lambda mail has no objective")
	if all := s.objects("objective", "list"); len(all) != 0 {
		t.Errorf("%v", all)
	}
}
